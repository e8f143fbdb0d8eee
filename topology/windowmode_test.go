package topology_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// sendAs processes a record that says of itself that it is of a mode, none for a live one, and
// returns what is written.
func (k *task) sendAs(tb testing.TB, mode, topic string, ms int64, key, value string) []graph.Output {
	tb.Helper()
	in := k.input(topic, []byte(key), []byte(value))
	in.Timestamp = ms
	if mode != "" {
		in.Headers = []topology.Header{{Key: topology.HeaderMode, Value: []byte(mode)}}
	}
	return want(tb, k.graph.Process(in), graph.Accept).Outputs
}

// TestClosedWindowHasTheModeOfItsRecords is requirement I1: neither does a repair that closes
// windows make what is live a repair, nor a live record what was made of repairs alone live, also
// behind a restart.
func TestClosedWindowHasTheModeOfItsRecords(t *testing.T) {
	const live, repair = "", "[REPAIR]"
	for name, test := range map[string]struct {
		mode topology.Mode
		// records are those of the window, by their modes; closing is that of the one that closes
		// it.
		records []string
		closing string
		want    string
	}{
		"live, closed by a repair":         {records: []string{""}, closing: "REPAIR", want: live},
		"a repair, closed by a live one":   {records: []string{"REPAIR"}, closing: "", want: repair},
		"a repair joins a live one":        {records: []string{"", "REPAIR"}, closing: "REPAIR", want: live},
		"a live one joins a repair":        {records: []string{"REPAIR", ""}, closing: "REPAIR", want: live},
		"the first of those not live":      {records: []string{"REPAIR", "BACKFILL"}, closing: "", want: repair},
		"live by its header":               {records: []string{"REPAIR", "LIVE"}, closing: "REPAIR", want: live},
		"a replay makes all one":           {mode: topology.Replay, records: []string{"REPAIR", ""}, closing: "", want: "[REPLAY]"},
		"a forensic run makes all one too": {mode: topology.Forensic, records: []string{""}, closing: "", want: "[FORENSIC]"},
	} {
		b := topology.NewBuilder("windows", topology.DeadLetters("dead"))
		named(joined(b, topology.Tumbling(10*ms)).Closed(), "name").Into(resultTopic)
		top := mustBuild(t, b)
		id := graph.TaskID{Subtopology: top.Subtopologies()[0].Name}
		cfg := baseConfig()
		cfg.Mode = test.mode
		k := openTask(t, top, id, cfg)
		for i, mode := range test.records {
			if out := k.sendAs(t, mode, "left", int64(i), "a", "x"); len(out) > 0 {
				t.Fatalf("%s: %v is written early", name, out)
			}
			g, err := top.NewGraph(id, k.state, cfg)
			if err != nil {
				t.Fatal(err)
			}
			k.graph = g
		}
		out := k.sendAs(t, test.closing, "left", 30, "b", "y")
		if len(out) != 1 || modeOf(out[0].Headers) != test.want {
			t.Errorf("%s: %v is written, want one record of mode %q", name, out, test.want)
		}
	}
}

// TestUndoneOpeningOfAWindow is requirement I1: that a window is not live is known behind a restart
// also where the first record that has opened such a window was undone, whether it comes again or
// another one comes: a live record that joins it makes it live.
func TestUndoneOpeningOfAWindow(t *testing.T) {
	for name, after := range map[string][]string{"comes again": {"a"}, "is refused, and another one comes": {"b", "a"}} {
		b := topology.NewBuilder("windows", topology.DeadLetters("dead"))
		windows := joined(b, topology.Tumbling(10*ms))
		refused := true
		windows.Stream().Peek("refuse", func(topology.Record[windowKey, topology.Option[string]]) error {
			if refused {
				return topology.Fail(topology.Validation, schemas.Reason("asked to"))
			}
			return nil
		})
		named(windows.Closed(), "name").Into(resultTopic)
		top := mustBuild(t, b)
		id := graph.TaskID{Subtopology: top.Subtopologies()[0].Name}
		k := openTask(t, top, id, baseConfig())
		in := k.input("left", []byte("a"), []byte("x"))
		in.Timestamp, in.Headers = 1, []topology.Header{{Key: topology.HeaderMode, Value: []byte("REPAIR")}}
		want(t, k.graph.Process(in), topology.DeadLetter)
		refused = false
		for _, key := range after {
			k.sendAs(t, "REPAIR", "left", 1, key, "x")
		}
		var err error
		if k.graph, err = top.NewGraph(id, k.state, baseConfig()); err != nil {
			t.Fatal(err)
		}
		k.sendAs(t, "", "left", 2, "a", "y")
		out := k.sendAs(t, "REPAIR", "left", 30, "c", "z")
		if len(out) != len(after) || string(out[0].Value) != "xy" || modeOf(out[0].Headers) != "" {
			t.Errorf("%s: %v is written, want the window with a live record to be live", name, out)
		}
	}
}

// TestModeBehindAClosedWindow: what is behind a window sees its mode, and a record that fails there
// dies in its own.
func TestModeBehindAClosedWindow(t *testing.T) {
	var seen []topology.Mode
	w := topology.Tumbling(10 * ms)
	k := tableTask(t, func(b *topology.Builder) {
		node := topology.Stateful(joined(b, w).Closed(), "see")
		node.Process(func(*topology.Setup) (topology.Handler[windowKey, string], error) {
			return func(c *topology.Context, r topology.Record[windowKey, string]) error {
				seen = append(seen, c.Mode())
				switch r.Value {
				case "fail":
					return topology.Fail(topology.Validation, schemas.Reason("asked to"))
				case "panic":
					panic("asked to")
				}
				return nil
			}, nil
		})
	})
	for i, how := range []string{"fail", "panic"} {
		at := int64(i) * 100
		k.sendAs(t, "", "left", at, "a", how)
		in := k.input("left", []byte("b"), []byte("x"))
		in.Timestamp, in.Headers = at+30, []topology.Header{{Key: topology.HeaderMode, Value: []byte("REPAIR")}}
		v := k.graph.Process(in)
		if len(v.Outputs) != 1 || modeOf(v.Outputs[0].Headers) != "[REPAIR]" {
			t.Errorf("%s: the letter is %v", how, v.Outputs)
		}
		k.sendAs(t, "", "left", at+1, "a", "-more") // it is not a failure any more, and the window can close
		k.sendAs(t, "", "left", at+50, "c", "x")
	}
	for _, m := range seen {
		if m != topology.Live {
			t.Errorf("the modes behind the windows were %v, want live ones", seen)
		}
	}
	if len(seen) < 2 {
		t.Errorf("only %d windows have closed", len(seen))
	}
}

// TestStreamTimePunctuationIsLive is requirement I1: a repair that moves the stream time on does
// not say why the punctuation works.
func TestStreamTimePunctuationIsLive(t *testing.T) {
	b := topology.NewBuilder("app")
	node := topology.Stateful(topology.From(b, wordsTopic), "tick")
	out := topology.Outlet[string, string](node, "out")
	node.Process(func(t *topology.Setup) (topology.Handler[string, string], error) {
		emit := out.In(t)
		t.OnStreamTime(time.Second, func(c *topology.Context, _ time.Time) error {
			return emit(c, topology.Record[string, string]{Key: "tick", Value: c.Mode().String()})
		})
		return func(*topology.Context, word) error { return nil }, nil
	})
	out.Stream().Into(outTopic)
	topo := mustBuild(t, b)
	for mode, want := range map[topology.Mode]string{topology.Live: "", topology.Replay: "[REPLAY]"} {
		cfg := baseConfig()
		cfg.Mode = mode
		k := openTask(t, topo, graph.TaskID{Subtopology: "words"}, cfg)
		k.sendAs(t, "", "words", 1, "k", "v")
		got := k.sendAs(t, "REPAIR", "words", 5000, "k", "v")
		if len(got) != 1 || modeOf(got[0].Headers) != want || string(got[0].Value) != mode.String() {
			t.Errorf("%s: %v is written, want one record of mode %q", mode, got, want)
		}
	}
}

// TestModeInsideOfTheApplication: a repartition topic carries the mode that records have by
// themselves, and letters and outputs that of the application. A replay refuses the modes that the
// live application refuses.
func TestModeInsideOfTheApplication(t *testing.T) {
	b := topology.NewBuilder("app", topology.DeadLetters("dead"))
	topology.RepartitionWith(topology.From(b, wordsTopic), "again", schemas.String(), schemas.String()).Into(outTopic)
	topo := mustBuild(t, b)
	cfg := baseConfig()
	cfg.Mode = topology.Replay
	k := openTask(t, topo, graph.TaskID{Subtopology: "words"}, cfg)
	if out := k.sendAs(t, "REPAIR", "words", 1, "k", "v"); len(out) != 1 || modeOf(out[0].Headers) != "[REPAIR]" {
		t.Errorf("%v goes through the repartition topic, want its own mode", out)
	}
	in := k.input("words", []byte("k"), []byte("v"))
	in.Headers = []topology.Header{{Key: topology.HeaderMode, Value: []byte("LIVELY")}}
	v := want(t, k.graph.Process(in), topology.DeadLetter)
	if modeOf(v.Outputs[0].Headers) != "[REPLAY]" {
		t.Errorf("the letter is %v", v.Outputs)
	}
}

// TestClosedWindowHasNoPosition: it is made of many records, and is not that of the one that closes
// it.
func TestClosedWindowHasNoPosition(t *testing.T) {
	var seen []string
	k := tableTask(t, func(b *topology.Builder) {
		topology.MapValuesWithRecord(joined(b, topology.Tumbling(10*ms)).Closed(), "see",
			func(r topology.Record[windowKey, string]) (string, error) {
				topic, partition, offset := r.Source()
				seen = append(seen, fmt.Sprintf("%q %d %d", topic, partition, offset))
				return "", nil
			})
	})
	k.sendAs(t, "", "left", 1, "a", "x")
	k.sendAs(t, "", "left", 30, "b", "y")
	if got, want := strings.Join(seen, "; "), `"" 0 0`; got != want {
		t.Errorf("seen %s, want %s", got, want)
	}
}
