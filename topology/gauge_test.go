package topology_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// gauged is a topology whose node has gauges of these names, and sets all of them to the length of
// a value.
func gauged(tb testing.TB, names ...string) *topology.Topology {
	tb.Helper()
	b := topology.NewBuilder("gauged", topology.DeadLetters("dead"))
	topology.Stateful(topology.From(b, wordsTopic), "node").Process(
		func(t *topology.Setup) (topology.Handler[string, string], error) {
			var gauges []*topology.Gauge
			for _, name := range names {
				gauges = append(gauges, t.Gauge(name))
			}
			return func(_ *topology.Context, r word) error {
				for _, g := range gauges {
					g.Set(int64(len(r.Value)))
				}
				_, err := judge(r)
				return err
			}, nil
		})
	return mustBuild(tb, b)
}

// TestGauges: what was set last is shown, also by a record that fails.
func TestGauges(t *testing.T) {
	k := openTask(t, gauged(t, "a", "b"), fanTask, baseConfig())
	shows := func(n int64) {
		t.Helper()
		want := []graph.GaugeReading{{Node: "node", Name: "a", Value: n}, {Node: "node", Name: "b", Value: n}}
		if got := k.graph.Gauges(); !slices.Equal(got, want) {
			t.Errorf("the gauges show %+v, want %+v", got, want)
		}
	}
	shows(0)
	want(t, k.words("k", "four"), graph.Accept)
	shows(4)
	want(t, k.words("k", "poison"), topology.DeadLetter)
	shows(6)
}

// TestGaugesHaveNames: two of one name would show one number or the other.
func TestGaugesHaveNames(t *testing.T) {
	for message, names := range map[string][]string{
		"gauge a is named twice": {"a", "a"}, "name of a gauge": {""},
	} {
		_, err := gauged(t, names...).NewGraph(fanTask, nil, baseConfig())
		if err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("%q: NewGraph returned %v", names, err)
		}
	}
}
