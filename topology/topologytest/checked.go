package topologytest

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/onceward/onceward/topology"
)

// TB is the part of *testing.T, *testing.B and *testing.F that a Test needs. Most property testing
// packages have it too.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
}

// Test is a [Driver] that belongs to a test: an error fails the test, so that the lines of the test
// are about records only. It has the methods of the Driver under the same names. Those of the field
// Driver return their errors.
type Test struct {
	*Driver
	tb TB
}

// Start returns a Test with empty topics and stores. A topology that cannot run fails the test.
func Start(tb TB, t *topology.Topology, opts ...Option) *Test {
	tb.Helper()
	d, err := New(t, opts...)
	if err != nil {
		tb.Fatalf("%v", err)
	}
	return &Test{Driver: d, tb: tb}
}

// Advance is [Driver.Advance].
func (t *Test) Advance(by time.Duration) {
	t.tb.Helper()
	if err := t.Driver.Advance(by); err != nil {
		t.tb.Fatalf("%v", err)
	}
}

// Restart is [Driver.Restart].
func (t *Test) Restart() {
	t.tb.Helper()
	if err := t.Driver.Restart(); err != nil {
		t.tb.Fatalf("%v", err)
	}
}

// Commit is [Driver.Commit].
func (t *Test) Commit() {
	t.tb.Helper()
	if err := t.Driver.Commit(); err != nil {
		t.tb.Fatalf("%v", err)
	}
}

// Crash is [Driver.Crash].
func (t *Test) Crash() {
	t.tb.Helper()
	if err := t.Driver.Crash(); err != nil {
		t.tb.Fatalf("%v", err)
	}
}

// Abort is [Driver.Abort].
func (t *Test) Abort() {
	t.tb.Helper()
	if err := t.Driver.Abort(); err != nil {
		t.tb.Fatalf("%v", err)
	}
}

// WantCount fails the test unless the node has counted the outcome want times.
func (t *Test) WantCount(node, outcomeName string, want int64) {
	t.tb.Helper()
	if got := t.Count(node, outcomeName); got != want {
		t.tb.Fatalf("node %s has counted %s %d times, want %d; all counts: %v%s", node, outcomeName, got, want, t.Counts(),
			t.open())
	}
}

// WantDead fails the test unless the dead letters since the last call are of these nodes and
// classes, in this order, written as "node: class". Without arguments it wants no dead letter. It
// returns the dead letters.
func (t *Test) WantDead(want ...string) []DeadLetter {
	t.tb.Helper()
	if t.topology.DeadLetterTopic() == "" && len(want) == 0 {
		return nil
	}
	letters, err := t.DeadLetters()
	if err != nil {
		t.tb.Fatalf("%v", err)
	}
	got := make([]string, len(letters))
	for i, l := range letters {
		got[i] = fmt.Sprintf("%s: %s", l.Info.Node, l.Info.Class)
	}
	if !reflect.DeepEqual(got, append([]string{}, want...)) {
		reasons := make([]string, len(letters))
		for i, l := range letters {
			reasons[i] = got[i] + ": " + l.Info.Message
		}
		t.tb.Fatalf("dead letters:%s\nwant:%s%s", list(reasons), list(want), t.open())
	}
	return letters
}

// Stored returns a store of the task of that partition, as [Store] does.
func Stored[S any](t *Test, store topology.Store[S], partition int32) S {
	t.tb.Helper()
	opened, err := Store(t.Driver, store, partition)
	if err != nil {
		t.tb.Fatalf("%v", err)
	}
	return opened
}

// Source writes to a topic that the topology reads. [In] makes it.
type Source[K, V any] struct {
	test  *Test
	topic topology.TopicOf[K, V]
}

// In returns the writer of a source topic.
func In[K, V any](t *Test, topic topology.TopicOf[K, V]) Source[K, V] {
	t.tb.Helper()
	if err := t.readable(topic.Name()); err != nil {
		t.tb.Fatalf("%v", err)
	}
	return Source[K, V]{t, topic}
}

// Pipe writes a record and runs the topology until nothing is left to do. A task that stops fails
// the test.
func (s Source[K, V]) Pipe(key K, value V, opts ...PipeOption) {
	s.test.tb.Helper()
	if err := Pipe(s.test.Driver, s.topic, key, value, opts...); err != nil {
		s.test.tb.Fatalf("%v", err)
	}
}

// Stops writes a record that has to stop a task, and returns the error that stopped it. The task
// keeps the record to process it later.
func (s Source[K, V]) Stops(key K, value V, opts ...PipeOption) error {
	s.test.tb.Helper()
	err := Pipe(s.test.Driver, s.topic, key, value, opts...)
	if err == nil {
		s.test.tb.Fatalf("the record in %s stops no task", s.topic.Name())
	}
	return err
}

// Sink reads a topic that the topology writes. [Out] makes it.
type Sink[K, V any] struct {
	test  *Test
	topic topology.TopicOf[K, V]
}

// Out returns the reader of an output topic. For a repartition topic, pass a TopicOf with its name
// on the cluster.
func Out[K, V any](t *Test, topic topology.TopicOf[K, V]) Sink[K, V] {
	t.tb.Helper()
	if _, ok := t.topics[topic.Name()]; !ok {
		t.tb.Fatalf("topologytest: the topology has no topic %s; it has %s", topic.Name(), strings.Join(t.Topics(), ", "))
	}
	return Sink[K, V]{t, topic}
}

// Read returns the records that were written since the last call, in the order of writing.
func (s Sink[K, V]) Read() []topology.Record[K, V] {
	s.test.tb.Helper()
	records, err := Output(s.test.Driver, s.topic)
	if err != nil {
		s.test.tb.Fatalf("%v", err)
	}
	return records
}

// Pair is a key and a value. [KV] makes it.
type Pair[K, V any] struct {
	Key   K
	Value V
}

// KV returns a Pair.
func KV[K, V any](key K, value V) Pair[K, V] { return Pair[K, V]{key, value} }

// Want fails the test unless the keys and values that were written since the last call are these,
// in this order. Without arguments it wants no record. It returns the records.
func (s Sink[K, V]) Want(want ...Pair[K, V]) []topology.Record[K, V] {
	s.test.tb.Helper()
	records := s.Read()
	got, equal := make([]string, len(records)), len(records) == len(want)
	for i, r := range records {
		got[i] = fmt.Sprintf("%v = %v", r.Key, r.Value)
		equal = equal && reflect.DeepEqual(Pair[K, V]{r.Key, r.Value}, want[i])
	}
	if !equal {
		lines := make([]string, len(want))
		for i, p := range want {
			lines[i] = fmt.Sprintf("%v = %v", p.Key, p.Value)
		}
		s.test.tb.Fatalf("%s has:%s\nwant:%s%s", s.topic.Name(), list(got), list(lines), s.test.open())
	}
	return records
}

// open returns a note about uncommitted work, which a failed check did not see.
func (t *Test) open() string {
	if n := t.Uncommitted(); n > 0 {
		return fmt.Sprintf("\n(%d units of work are not committed and so not visible)", n)
	}
	return ""
}

// list writes one line each.
func list(lines []string) string {
	if len(lines) == 0 {
		return "\n\tnothing"
	}
	return "\n\t" + strings.Join(lines, "\n\t")
}
