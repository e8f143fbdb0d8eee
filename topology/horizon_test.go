package topology_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

func remembering(s topology.Stream[string, string], name string) *topology.Node[string, string] {
	n := topology.Stateful(s, name)
	n.Process(func(*topology.Setup) (topology.Handler[string, string], error) {
		return func(*topology.Context, topology.Record[string, string]) error { return nil }, nil
	})
	return n
}

// TestHorizons: the topics of a horizon are the external ones upstream, also those behind a
// repartitioning, and no others; and a horizon is no part of the structure.
func TestHorizons(t *testing.T) {
	build := func(horizons bool) *topology.Topology {
		b := topology.NewBuilder("app")
		from := func(name string) topology.Stream[string, string] {
			return topology.From(b, topology.Topic(name, schemas.String(), schemas.String()))
		}
		z, a, other := from("z"), from("a"), from("other")
		far := remembering(topology.RepartitionWith(z.Merge("both", a), "by-id", schemas.String(), schemas.String()), "far")
		near := remembering(a, "near")
		remembering(other, "elsewhere")
		if horizons {
			far.Horizon(time.Hour, false)
			near.Horizon(time.Minute, true)
		}
		top, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		return top
	}
	with, without := build(true), build(false)
	if got := fmt.Sprint(with.Horizons()); got != "[{far 1h0m0s false [a z]} {near 1m0s true [a]}]" {
		t.Error(got)
	}
	if got := without.Horizons(); len(got) != 0 {
		t.Error(got)
	}
	if with.Fingerprint() != without.Fingerprint() {
		t.Error("a horizon changes the fingerprint")
	}
}

func TestHorizonMistakes(t *testing.T) {
	b := topology.NewBuilder("app")
	n := remembering(topology.From(b, topology.Topic("in", schemas.String(), schemas.String())), "n")
	n.Horizon(0, false).Horizon(time.Hour, false).Horizon(time.Hour, true)
	_, err := b.Build()
	if err == nil || !strings.Contains(err.Error(), "Horizon(0s): the retention must be positive") ||
		!strings.Contains(err.Error(), "Horizon is called twice") {
		t.Error(err)
	}
}
