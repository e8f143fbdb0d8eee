package topology_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

var (
	numbersTopic = topology.Topic("numbers", schemas.String(), schemas.Int64())
	joinedStore  = topology.TimestampedStore("joined", schemas.String(), schemas.String())
)

// bothStreams fold the texts of one topic, and how many digits the numbers of another one have.
func bothStreams(b *topology.Builder) []topology.Folded[string, string] {
	return []topology.Folded[string, string]{
		topology.Fold(topology.From(b, leftTopic, topology.SkipNullKeys()), func(sofar string, r word) (string, error) {
			switch r.Value {
			case "remove":
				return "", topology.ErrRemove
			case "fail":
				return "", topology.Fail(topology.Validation, schemas.Reason("asked to"))
			}
			return sofar + r.Value, nil
		}),
		topology.Fold(topology.From(b, numbersTopic), func(sofar string, r topology.Record[string, int64]) (string, error) {
			return sofar + "#" + string(rune('0'+r.Value%10)), nil
		}),
	}
}

// number sends a record of the second topic.
func (k *task) number(ms int64, key string, value int64) graph.Verdict {
	b, err := schemas.Int64().Append(nil, value)
	if err != nil {
		k.tb.Fatal(err)
	}
	in := k.input("numbers", []byte(key), b)
	in.Timestamp = ms
	return want(k.tb, k.graph.Process(in), graph.Accept)
}

func initialText() string { return "=" }

func cogrouped(b *topology.Builder) topology.Table[string, string] {
	return topology.Cogroup(bothStreams(b), joinedStore, initialText)
}

// TestCogroup: streams of two types have one aggregate for each key, which begins with the initial
// one, whichever of them is first.
func TestCogroup(t *testing.T) {
	k := tableTask(t, func(b *topology.Builder) {
		table := cogrouped(b)
		table.Into(resultTopic)
		showChanges(table)
	})
	wantLines(t, k.script("left 10 a x"), "a==x@10 a=->=x@10")
	v := k.number(5, "a", 7)
	if got := lines(v.Outputs); got != `result "a"="=x#7"; changes "a"="=x>=x#7"` || v.Outputs[0].Timestamp != 10 {
		t.Errorf("written is %s at %d", got, v.Outputs[0].Timestamp)
	}
	if got := lines(k.number(6, "b", 8).Outputs); got != `result "b"="=#8"; changes "b"="->=#8"` {
		t.Errorf("written is %s", got)
	}
	wantLines(t, k.script("left 11 a remove", "left 12 a y"), "a=-@11 a==x#7>-@11", "a==y@12 a=->=y@12")
}

// TestCogroupOfOneTopicTwice: each part takes a step.
func TestCogroupOfOneTopicTwice(t *testing.T) {
	k := tableTask(t, func(b *topology.Builder) {
		s := topology.From(b, leftTopic)
		same := topology.Fold(s, func(sofar string, r word) (string, error) { return sofar + r.Value, nil })
		topology.Cogroup([]topology.Folded[string, string]{same, same}, joinedStore, nil).Into(resultTopic)
	})
	wantLines(t, k.script("left 1 a x"), "a=x@1 a=xx@1")
}

// TestCogroupSurvivesRestart: the aggregate of both streams is in the store.
func TestCogroupSurvivesRestart(t *testing.T) {
	b := topology.NewBuilder("cogroup", topology.DeadLetters("dead"))
	cogrouped(b).Into(resultTopic)
	top := mustBuild(t, b)
	id := graph.TaskID{Subtopology: top.Subtopologies()[0].Name}
	k := openTask(t, top, id, baseConfig())
	k.number(1, "a", 1)
	var err error
	if k.graph, err = top.NewGraph(id, k.state, baseConfig()); err != nil {
		t.Fatal(err)
	}
	want(t, k.send("left", 2, "a", "fail"), topology.DeadLetter)
	wantLines(t, k.script("left 2 a x"), "a==#1x@2")
}

// TestCogroupModel: the table is what a fold of all records of a key makes, in the order in which
// they came.
func TestCogroupModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		k := tableTask(t, func(b *topology.Builder) { cogrouped(b).Into(resultTopic) })
		got, wanted := replayed{}, replayed{}
		for _, e := range history(false, "left", "numbers").Draw(rt, "history") {
			if wanted[e.key] == "" {
				wanted[e.key] = initialText()
			}
			if e.topic == "numbers" {
				got.apply(k.number(e.ms, e.key, e.ms).Outputs)
				wanted[e.key] += "#" + string(rune('0'+e.ms%10))
			} else {
				got.apply(want(t, k.send(e.topic, e.ms, e.key, e.value), graph.Accept).Outputs)
				wanted[e.key] += e.value
			}
			if !maps.Equal(got, wanted) {
				rt.Fatalf("after %v the table is %v, want %v", e, got, wanted)
			}
		}
	})
}

// TestCogroupWindows: both streams move one clock, by which windows of all kinds take late records
// and close.
func TestCogroupWindows(t *testing.T) {
	for name, test := range map[string]struct {
		windows topology.Windows
		closed  string
	}{
		"tumbling": {topology.Tumbling(10 * ms), `result "a[0,10)"="=x#3"`},
		"hopping":  {topology.Hopping(10*ms, 5*ms), `result "a[0,10)"="=x#3"; result "a[5,15)"="=#3"`},
		"sliding":  {topology.Sliding(8 * ms), `result "a[0,8)"="=x#3"; result "a[5,13)"="=#3"`},
	} {
		t.Run(name, func(t *testing.T) {
			k := tableTask(t, func(b *topology.Builder) {
				store := topology.WindowStore("windows", schemas.String(), schemas.String(), test.windows.Retention())
				named(topology.CogroupWindows(bothStreams(b), test.windows, store, initialText).Closed(), "name").Into(resultTopic)
			})
			wantLines(t, k.script("left 4 a x"), "")
			k.number(8, "a", 3)
			if got := lines(k.number(40, "b", 3).Outputs); got != test.closed {
				t.Errorf("closed are %s, want %s", got, test.closed)
			}
			if got := countsOf(k.send("left", 5, "a", "late")); got == "" {
				t.Error("a record that is late by the time of the other stream is not counted")
			}
		})
	}
}

// TestCogroupSessions: records of both streams make one session.
func TestCogroupSessions(t *testing.T) {
	w := topology.Sessions(10 * ms)
	k := tableTask(t, func(b *topology.Builder) {
		table := topology.CogroupSessions(bothStreams(b), w, sessionStore(w), initialText,
			func(_, x, y string) (string, error) { return x + y, nil })
		named(table.Closed(), "name").Into(resultTopic)
	})
	wantLines(t, k.script("left 5 a x"), "")
	k.number(12, "a", 3)
	if got := lines(k.number(40, "b", 3).Outputs); got != `result "a[5,12)"="==x#3"` {
		t.Errorf("closed are %s", got)
	}
}

// TestCogroupModes is requirement I1: a record of one stream that is not live is known to the
// records of the other one, also without a restart between them.
func TestCogroupModes(t *testing.T) {
	w := topology.Tumbling(10 * ms)
	k := tableTask(t, func(b *topology.Builder) {
		store := topology.WindowStore("windows", schemas.String(), schemas.String(), w.Retention())
		named(topology.CogroupWindows(bothStreams(b), w, store, nil).Closed(), "name").Into(resultTopic)
	})
	k.sendAs(t, "REPAIR", "left", 1, "a", "x")
	k.number(2, "a", 1)
	out := k.sendAs(t, "REPAIR", "left", 30, "b", "y")
	if len(out) != 1 || modeOf(out[0].Headers) != "" {
		t.Errorf("%v is written, want one live record", out)
	}
}

func TestCogroupMistakes(t *testing.T) {
	b, other := topology.NewBuilder("one"), topology.NewBuilder("other")
	store := func(name string) topology.Store[state.Timestamped[string, string]] {
		return topology.TimestampedStore(name, schemas.String(), schemas.String())
	}
	s := topology.From(b, leftTopic)
	add := func(sofar string, r word) (string, error) { return sofar + r.Value, nil }
	foreign := topology.Fold(topology.From(other, rightTopic), add)
	topology.Cogroup([]topology.Folded[string, string]{topology.Fold(s, add), foreign}, store("foreign"), nil)
	topology.Cogroup([]topology.Folded[string, string]{topology.Fold[string, string, string](s, nil)}, store("nil"), nil)
	moved := topology.SelectKey(s, "moved", upper)
	topology.Cogroup([]topology.Folded[string, string]{topology.Fold(s, add), topology.Fold(moved, add)}, store("rekeyed"), nil)
	w := topology.Sessions(time.Minute)
	topology.CogroupSessions([]topology.Folded[string, string]{topology.Fold(s, add)}, w,
		topology.SessionStore("sessions", schemas.String(), schemas.String(), w.Retention()), nil, nil)
	_, err := b.Build()
	wantMistakes(t, err,
		"foreign: a stream cannot be aggregated: ",
		"nil: the function is nil",
		"rekeyed: the key may have been changed by node moved",
		"sessions: the function is nil")
	for _, streams := range [][]topology.Folded[string, string]{nil, {{}}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("there is a cogroup without streams")
				}
			}()
			topology.Cogroup(slices.Clone(streams), store("none"), nil)
		}()
	}
}
