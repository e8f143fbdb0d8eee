package topology_test

import (
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/memstore"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// Topics, stores and records that the tests share.
var (
	wordsTopic  = topology.Topic("words", schemas.String(), schemas.String())
	otherTopic  = topology.Topic("other", schemas.String(), schemas.String())
	outTopic    = topology.Topic("out", schemas.String(), schemas.String())
	secondTopic = topology.Topic("second", schemas.String(), schemas.String())
	countStore  = topology.KeyValueStore("counts", schemas.String(), schemas.Int64())
)

type (
	words = topology.Stream[string, string]
	word  = topology.Record[string, string]
)

// now is the clock of all tasks in these tests, and the timestamp of their records unless they say
// otherwise.
var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func pass(word) (bool, error)      { return true, nil }
func upper(r word) (string, error) { return strings.ToUpper(r.Value), nil }
func ignore(word) error            { return nil }
func mustBuild(tb testing.TB, b *topology.Builder) *topology.Topology {
	tb.Helper()
	t, err := b.Build()
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

// task is a graph with its state, driven as a runtime does.
type task struct {
	tb     testing.TB
	graph  *topology.Graph
	state  *state.Task
	offset int64
	// streamTime is that of the records sent by send.
	streamTime int64
}

func baseConfig() topology.GraphConfig {
	return topology.GraphConfig{
		Partitions: func(string) int32 { return 4 },
		Now:        func() time.Time { return now },
	}
}

func openTask(tb testing.TB, t *topology.Topology, id graph.TaskID, cfg topology.GraphConfig) *task {
	tb.Helper()
	var stores []state.Declaration
	for _, sub := range t.Subtopologies() {
		if sub.Name == id.Subtopology {
			stores = sub.Declarations()
		}
	}
	st, err := state.NewTask(memstore.New(), stores)
	if err != nil {
		tb.Fatal(err)
	}
	g, err := t.NewGraph(id, st, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return &task{tb: tb, graph: g, state: st}
}

// input returns the next record of a topic.
func (k *task) input(topic string, key, value []byte) graph.Input {
	k.offset++
	return graph.Input{
		Topic: topic, Offset: k.offset - 1, Timestamp: now.UnixMilli(), StreamTime: now.UnixMilli(),
		Key: key, Value: value, Attempt: 1,
	}
}

// words processes a record of the topic words.
func (k *task) words(key, value string) graph.Verdict {
	return k.graph.Process(k.input("words", []byte(key), []byte(value)))
}

// want fails the test unless the verdict has that action.
func want(tb testing.TB, v graph.Verdict, action topology.Action) graph.Verdict {
	tb.Helper()
	if v.Action != action {
		tb.Fatalf("the verdict is %s, want %s; the failure is %v", v.Action, action, v.Failure)
	}
	if (v.Failure == nil) != (action == graph.Accept) {
		tb.Fatalf("the failure of a verdict %s is %v", v.Action, v.Failure)
	}
	if (v.Backoff != 0) != (action == topology.Retry) {
		tb.Fatalf("the backoff of a verdict %s is %s", v.Action, v.Backoff)
	}
	return v
}

// lines writes outputs as topic/partition key=value, for comparisons.
func lines(outputs []graph.Output) string {
	var s []string
	for _, out := range outputs {
		s = append(s, fmt.Sprintf("%s %s=%s", out.Topic, text(out.Key), text(out.Value)))
	}
	return strings.Join(s, "; ")
}

func text(b []byte) string {
	if b == nil {
		return "null"
	}
	return fmt.Sprintf("%q", b)
}

func countsOf(v graph.Verdict) string {
	var s []string
	for _, c := range v.Counts {
		s = append(s, fmt.Sprintf("%s.%s=%d", c.Node, c.Outcome, c.N))
	}
	return strings.Join(s, " ")
}

// entries lists a store.
func (k *task) entries(store topology.Store[state.KeyValue[string, int64]]) string {
	var s []string
	for p, err := range store.Open(k.state.Store(store.Name())).All() {
		if err != nil {
			k.tb.Fatal(err)
		}
		s = append(s, fmt.Sprintf("%s=%d", p.Key, p.Value))
	}
	return strings.Join(s, " ")
}

// brokenState is a State whose stores fail.
type brokenState struct{ err error }

func (s brokenState) Store(string) state.Bytes { return brokenBytes(s) }
func (brokenState) Mark()                      {}
func (brokenState) Revert()                    {}
func (brokenState) Savepoint() func()          { return func() {} }

type brokenBytes struct{ err error }

func (b brokenBytes) Get([]byte) ([]byte, bool, error) { return nil, false, b.err }
func (b brokenBytes) Put([]byte, []byte) error         { return b.err }
func (b brokenBytes) Delete([]byte) error              { return b.err }
func (b brokenBytes) StreamTime() int64                { return 0 }
func (b brokenBytes) Advance(int64)                    {}
func (b brokenBytes) Scan(state.Range) iter.Seq2[state.Entry, error] {
	return func(yield func(state.Entry, error) bool) { yield(state.Entry{}, b.err) }
}

var errDisk = errors.New("disk on fire")

// clones returns the outputs of a verdict, to be kept.
func clones(v graph.Verdict) []graph.Output {
	out := make([]graph.Output, len(v.Outputs))
	for i := range out {
		out[i] = v.Outputs[i].Clone()
	}
	return out
}
