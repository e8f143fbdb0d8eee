package topology_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// TestRecordAlone: a record that no topology has passed on, as in a test of a user's function.
func TestRecordAlone(t *testing.T) {
	r := word{Key: "k", Timestamp: now.UnixMilli()}
	r = r.WithHeader("h", []byte("first")).WithHeader("other", nil).WithHeader("h", []byte("last"))
	if !r.Time().Equal(now) || r.Time().Location() != time.UTC {
		t.Errorf("the time is %s", r.Time())
	}
	topic, partition, offset := r.Source()
	if topic != "" || partition != 0 || offset != 0 || r.StreamTime() != 0 {
		t.Errorf("the source is %s-%d at %d, stream time %d", topic, partition, offset, r.StreamTime())
	}
	if value, ok := r.Header("h"); !ok || string(value) != "last" {
		t.Errorf("the last header is %q, %v", value, ok)
	}
	if value, ok := r.Header("none"); ok || value != nil {
		t.Errorf("a header that is not there is %q, %v", value, ok)
	}
	derived := topology.WithValue(topology.WithKey(r, 1), 2.5)
	if derived.Key != 1 || derived.Value != 2.5 || len(derived.Headers) != 3 || !derived.Time().Equal(now) {
		t.Errorf("the derived record is %+v", derived)
	}
}

func TestNames(t *testing.T) {
	for want, got := range map[string]string{
		"payments_3":    graph.TaskID{Subtopology: "payments", Partition: 3}.String(),
		"accept":        graph.Accept.String(),
		"dead-letter":   topology.DeadLetter.String(),
		"retry":         topology.Retry.String(),
		"stop":          topology.Stop.String(),
		"park":          topology.Park.String(),
		"delay":         topology.Delay.String(),
		"action(6)":     topology.Action(6).String(),
		"CreateTime":    graph.CreateTime.String(),
		"LogAppendTime": graph.LogAppendTime.String(),
	} {
		if got != want {
			t.Errorf("the name is %q, want %q", got, want)
		}
	}
}

// TestInheritance: what a record built from nothing takes over, and what a derived one keeps.
func TestInheritance(t *testing.T) {
	at, earlier := now.UnixMilli(), now.Add(-time.Minute).UnixMilli()
	traced := []topology.Header{{Key: "traceparent", Value: []byte("00-1-2-01")}}
	tests := map[string]struct {
		f       func(r word) word
		time    int64
		headers int
	}{
		"built":            {func(word) word { return word{Value: "v"} }, at, 1},
		"derived":          {func(r word) word { return topology.WithKey(r, "other") }, at, 1},
		"own time":         {func(word) word { return word{Timestamp: earlier} }, earlier, 1},
		"no headers":       {func(word) word { return word{Headers: []topology.Header{}} }, at, 0},
		"derived, epoch":   {func(r word) word { r.Timestamp = 0; return r }, 0, 1},
		"derived, without": {func(r word) word { r.Headers = nil; return r }, at, 0},
		"one more":         {func(r word) word { return r.WithHeader("k", nil) }, at, 2},
	}
	for name, test := range tests {
		for _, how := range []string{"map", "flat map", "outlet"} {
			b := topology.NewBuilder("inherit")
			source := topology.From(b, wordsTopic)
			var s words
			switch how {
			case "map":
				s = topology.Map(source, "f", func(r word) (word, error) { return test.f(r), nil })
			case "flat map":
				s = topology.FlatMap(source, "f", func(r word, emit func(word) error) error {
					return emit(test.f(r))
				})
			case "outlet":
				n := topology.Stateful(source, "f")
				out := topology.Outlet[string, string](n, "out")
				n.Process(func(t *topology.Setup) (topology.Handler[string, string], error) {
					emit := out.In(t)
					return func(c *topology.Context, r word) error { return emit(c, test.f(r)) }, nil
				})
				s = out.Stream()
			}
			var seen word
			s.Peek("see", func(r word) error { seen = r; return nil }).Into(outTopic)
			k := openTask(t, mustBuild(t, b), fanTask, baseConfig())
			in := k.input("words", []byte("k"), []byte("v"))
			in.Offset, in.StreamTime, in.Headers = 42, now.UnixMilli()+7, traced
			out := want(t, k.graph.Process(in), graph.Accept).Outputs[0]
			if out.Timestamp != test.time || len(out.Headers) != test.headers {
				t.Errorf("%s by %s: timestamp %d with %d headers, want %d with %d",
					name, how, out.Timestamp, len(out.Headers), test.time, test.headers)
			}
			topic, partition, offset := seen.Source()
			if topic != "words" || partition != 0 || offset != 42 || seen.StreamTime() != now.UnixMilli()+7 {
				t.Errorf("%s by %s: the source is %s-%d at %d, stream time %d",
					name, how, topic, partition, offset, seen.StreamTime())
			}
		}
	}
	if len(traced) != 1 || traced[0].Key != "traceparent" {
		t.Errorf("the input's headers were changed: %v", traced)
	}
}

// TestRecordsAreKept: a record that is kept past its turn keeps its source, and clones of outputs
// keep their bytes.
func TestRecordsAreKept(t *testing.T) {
	b := topology.NewBuilder("keep")
	var kept []word
	topology.From(b, wordsTopic).Peek("keep", func(r word) error {
		kept = append(kept, r)
		return nil
	}).Into(outTopic)
	k := openTask(t, mustBuild(t, b), fanTask, baseConfig())
	var outputs []graph.Output
	const n = 3000 // more than the chunks of memory hold
	for i := range n {
		v := want(t, k.words(fmt.Sprintf("key-%d", i), strings.Repeat("v", i%50)), graph.Accept)
		outputs = append(outputs, clones(v)...)
	}
	for i := range n {
		if _, _, offset := kept[i].Source(); offset != int64(i) {
			t.Fatalf("record %d says that its offset is %d", i, offset)
		}
		if string(outputs[i].Key) != fmt.Sprintf("key-%d", i) || len(outputs[i].Value) != i%50 {
			t.Fatalf("output %d is %s", i, lines(outputs[i:i+1]))
		}
	}
}

// TestHeadersDoNotAlias: branches that append to the headers of one record do not write over each
// other.
func TestHeadersDoNotAlias(t *testing.T) {
	b := topology.NewBuilder("alias")
	source := topology.From(b, wordsTopic)
	for _, name := range []string{"left", "right"} {
		topology.Map(source, name, func(r word) (word, error) {
			r.Headers = append(r.Headers, topology.Header{Key: "branch", Value: []byte(name)})
			return r, nil
		}).IntoNamed(name+"-out", outTopic)
	}
	k := openTask(t, mustBuild(t, b), fanTask, baseConfig())
	in := k.input("words", []byte("k"), []byte("v"))
	in.Headers = append(make([]topology.Header, 0, 8), topology.Header{Key: "h"})
	out := want(t, k.graph.Process(in), graph.Accept).Outputs
	for i, name := range []string{"left", "right"} {
		if h := out[i].Headers; len(h) != 2 || string(h[1].Value) != name {
			t.Errorf("the headers of %s are %v", name, h)
		}
	}
}
