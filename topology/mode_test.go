package topology_test

import (
	"testing"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

func TestModeNames(t *testing.T) {
	for m := topology.Live; m <= topology.Forensic; m++ {
		if got, err := topology.ParseMode(m.String()); err != nil || got != m {
			t.Errorf("%d is spelled %q, which is %d, error %v", m, m, got, err)
		}
	}
	for _, s := range []string{"", "LIVELY", "mode(5)", topology.Mode(5).String()} {
		if m, err := topology.ParseMode(s); err == nil {
			t.Errorf("%q is mode %s", s, m)
		}
	}
}

// modeOf returns the values of all mode headers.
func modeOf(headers []topology.Header) (modes string) {
	for _, h := range headers {
		if h.Key == topology.HeaderMode {
			modes += "[" + string(h.Value) + "]"
		}
	}
	return modes
}

// TestMode is requirement I1: the mode is explicit and travels with all that is written, dead
// letters included, and nothing that is not live can pass for live.
func TestMode(t *testing.T) {
	var seen topology.Mode
	b := topology.NewBuilder("app", topology.DeadLetters("dead"))
	node := topology.Stateful(topology.From(b, wordsTopic), "see")
	out := topology.Outlet[string, string](node, "out")
	node.Process(func(t *topology.Setup) (topology.Handler[string, string], error) {
		emit := out.In(t)
		return func(c *topology.Context, r word) error {
			seen = c.Mode()
			if r.Value == "fail" {
				return topology.Fail(topology.Validation, schemas.Reason("asked to"))
			}
			return emit(c, r)
		}, nil
	})
	out.Stream().Into(outTopic)
	topo := mustBuild(t, b)

	tests := []struct {
		app    topology.Mode
		header string
		want   topology.Mode
		out    string
	}{
		{topology.Live, "", topology.Live, ""},
		{topology.Live, "REPAIR", topology.Repair, "[REPAIR]"},
		{topology.Live, "LIVE", topology.Live, "[LIVE]"},
		{topology.Replay, "", topology.Replay, "[REPLAY]"},
		{topology.Replay, "REPAIR", topology.Replay, "[REPLAY]"},
		{topology.Backfill, "BACKFILL", topology.Backfill, "[BACKFILL]"},
		{topology.Live, "BACKFILL", topology.Backfill, "[BACKFILL]"},
		{topology.Repair, "", topology.Repair, "[REPAIR]"},
		{topology.Forensic, "", topology.Forensic, "[FORENSIC]"},
	}
	for _, test := range tests {
		cfg := baseConfig()
		cfg.Mode = test.app
		k := openTask(t, topo, graph.TaskID{Subtopology: "words"}, cfg)
		for _, value := range []string{"pass", "fail"} {
			in := k.input("words", []byte("k"), []byte(value))
			if test.header != "" {
				in.Headers = []topology.Header{{Key: topology.HeaderMode, Value: []byte(test.header)}, {Key: "x"}}
			}
			v := k.graph.Process(in)
			if seen != test.want || len(v.Outputs) != 1 || modeOf(v.Outputs[0].Headers) != test.out {
				t.Errorf("%+v, %s: the mode is %s, the outputs are %+v", test, value, seen, v.Outputs)
			}
		}
	}
}

func TestUnknownModeFails(t *testing.T) {
	b := topology.NewBuilder("app", topology.DeadLetters("dead"))
	topology.From(b, wordsTopic).Into(outTopic)
	k := openTask(t, mustBuild(t, b), graph.TaskID{Subtopology: "words"}, baseConfig())
	for _, mode := range []string{"", "LIVELY", "FORENSIC"} {
		in := k.input("words", []byte("k"), []byte("v"))
		in.Headers = []topology.Header{{Key: topology.HeaderMode, Value: []byte(mode)}}
		v := want(t, k.graph.Process(in), topology.DeadLetter)
		if v.Failure.Class != topology.Validation {
			t.Errorf("%q: %v", mode, v.Failure)
		}
	}
}

// TestPunctuationHasTheModeOfTheApplication follows a record of another mode, which must leave
// nothing behind.
func TestPunctuationHasTheModeOfTheApplication(t *testing.T) {
	b := topology.NewBuilder("app")
	node := topology.Stateful(topology.From(b, wordsTopic), "tick")
	var seen []topology.Mode
	node.Process(func(t *topology.Setup) (topology.Handler[string, string], error) {
		t.OnWallClock(time.Second, func(c *topology.Context, _ time.Time) error {
			seen = append(seen, c.Mode())
			return nil
		})
		return func(c *topology.Context, _ word) error {
			seen = append(seen, c.Mode())
			return nil
		}, nil
	})
	k := openTask(t, mustBuild(t, b), graph.TaskID{Subtopology: "words"}, baseConfig())
	in := k.input("words", []byte("k"), []byte("v"))
	in.Headers = []topology.Header{{Key: topology.HeaderMode, Value: []byte("REPAIR")}}
	want(t, k.graph.Process(in), graph.Accept)
	p, ok := k.graph.Due(now.Add(time.Second))
	if !ok {
		t.Fatal("nothing is due")
	}
	want(t, k.graph.Punctuate(p), graph.Accept)
	if len(seen) != 2 || seen[0] != topology.Repair || seen[1] != topology.Live {
		t.Errorf("the modes were %v", seen)
	}
}
