package topology_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/topology/topologytest"
)

var (
	parkIn  = topology.Topic("in", topology.Nullable(schemas.String()), schemas.String())
	parkOut = topology.Topic("out", topology.Nullable(schemas.String()), schemas.String())
)

// lot is a topology that counts records per key and parks those whose value is in broken.
type lot struct {
	tb interface {
		Helper()
		Fatal(args ...any)
		Errorf(format string, args ...any)
	}
	broken map[string]error
	tried  []string
	*topologytest.Driver
}

var errBroken = topology.Fail(topology.Transient, schemas.Reason("not now"))

func parkPolicy(attempts int, then topology.Action) topology.Policy {
	return topology.Policy{
		Action: topology.Park, Attempts: attempts, Backoff: time.Second, BackoffMax: 4 * time.Second, Then: then}
}

func newLot(t *testing.T, policy topology.Policy, opts ...topologytest.Option) *lot {
	t.Helper()
	l := &lot{tb: t, broken: map[string]error{}}
	l.Driver = l.open(policy, opts...)
	return l
}

var parkStart = time.Date(2026, 1, 31, 8, 0, 0, 0, time.UTC)

func (l *lot) open(policy topology.Policy, opts ...topologytest.Option) *topologytest.Driver {
	l.tb.Helper()
	b := topology.NewBuilder("app", topology.DeadLetters("dead"), topology.OnError(topology.Transient, policy),
		topology.OnError(topology.Poison, policy))
	seen := topology.KeyValueStore("seen", schemas.String(), schemas.Int64())
	in := topology.From(b, parkIn, topology.ParkKeys())
	counted := topology.Process(in, "count", seen, func(_ *topology.Context, rows state.KeyValue[string, int64],
		r topology.Record[topology.Option[string], string], emit topology.Emit[topology.Option[string], string]) error {
		n, _, err := rows.Get(r.Key.Or("-"))
		if err != nil {
			return err
		}
		if err := rows.Put(r.Key.Or("-"), n+1); err != nil { // before it fails: nothing of it may stay
			return err
		}
		l.tried = append(l.tried, r.Value)
		_, _, offset := r.Source()
		r.Value = fmt.Sprintf("%s#%d@%d", r.Value, n+1, offset)
		return emit(nil, r)
	})
	counted.Peek("judge", func(r topology.Record[topology.Option[string], string]) error {
		value, _, _ := strings.Cut(r.Value, "#")
		return l.broken[value]
	}).Into(parkOut)
	top, err := b.Build()
	if err != nil {
		l.tb.Fatal(err)
	}
	d, err := topologytest.New(top, append(opts, topologytest.Clock(parkStart))...)
	if err != nil {
		l.tb.Fatal(err)
	}
	return d
}

// pipe writes records, each "key=value"; a key of - is null.
func (l *lot) pipe(records ...string) {
	l.tb.Helper()
	for _, text := range records {
		key, value, _ := strings.Cut(text, "=")
		k := topology.Some(key)
		if key == "-" {
			k = topology.None[string]()
		}
		if err := topologytest.Pipe(l.Driver, parkIn, k, value, topologytest.Header("trace", value)); err != nil {
			l.tb.Fatal(err)
		}
	}
}

func (l *lot) advance(by time.Duration) {
	l.tb.Helper()
	if err := l.Advance(by); err != nil {
		l.tb.Fatal(err)
	}
}

// want compares what was written since the last time: "value#count@offset".
func (l *lot) want(values ...string) {
	l.tb.Helper()
	records, err := topologytest.Output(l.Driver, parkOut)
	if err != nil {
		l.tb.Fatal(err)
	}
	var got []string
	for _, r := range records {
		got = append(got, r.Value)
		trace, _ := r.Header("trace")
		if value, _, _ := strings.Cut(r.Value, "#"); string(trace) != value {
			l.tb.Errorf("%s has the header %s", r.Value, trace)
		}
	}
	if !slices.Equal(got, values) {
		l.tb.Errorf("the output is %q, want %q", got, values)
	}
}

// TestParkedKeyWaitsInOrder: the records of a key wait in their order behind one that failed, and
// the other keys go on. Requirement G6.
func TestParkedKeyWaitsInOrder(t *testing.T) {
	l := newLot(t, parkPolicy(0, 0))
	l.broken["a2"] = errBroken
	l.pipe("a=a1", "a=a2", "b=b1", "a=a3", "a=a4", "b=b2")
	l.want("a1#1@0", "b1#1@2", "b2#2@5")
	l.tried = nil
	l.advance(999 * time.Millisecond)
	if len(l.tried) > 0 {
		t.Errorf("%q were tried before their time", l.tried)
	}
	l.advance(time.Millisecond)
	l.advance(2 * time.Second)
	if want := []string{"a2", "a2"}; !slices.Equal(l.tried, want) {
		t.Errorf("%q were tried, want %q", l.tried, want)
	}
	l.want()
	delete(l.broken, "a2")
	l.advance(4 * time.Second)
	l.want("a2#2@1", "a3#3@3", "a4#4@4")
	l.pipe("a=a5")
	l.want("a5#5@6")
	for outcome, want := range map[string]int64{"in-source.held": 2, "judge.parked-transient": 3, "in-source.released": 3} {
		node, name, _ := strings.Cut(outcome, ".")
		if got := l.Count(node, name); got != want {
			t.Errorf("%s is %d, want %d", outcome, got, want)
		}
	}
	l.wantEmpty()
}

// wantEmpty: nothing is left of queues that have ended.
func (l *lot) wantEmpty() {
	l.tb.Helper()
	rows, err := topologytest.Store(l.Driver, topology.KeyValueStore("in.parked", schemas.Bytes(), schemas.Bytes()), 0)
	if err != nil {
		l.tb.Fatal(err)
	}
	for e, err := range rows.All() {
		l.tb.Errorf("the store has %x, %v", e, err)
	}
}

// TestParkedAttemptsSurviveRestart: the attempts and the first failure are kept across a restart,
// and a dead letter has them; then those behind follow. Requirement G6.
func TestParkedAttemptsSurviveRestart(t *testing.T) {
	l := newLot(t, parkPolicy(3, topology.DeadLetter))
	l.broken["a1"] = errBroken
	l.pipe("a=a1", "a=a2", "a=a3")
	l.advance(time.Second)
	if err := l.Restart(); err != nil {
		t.Fatal(err)
	}
	l.want()
	l.advance(2 * time.Second)
	l.want("a2#1@1", "a3#2@2")
	letters, err := l.DeadLetters()
	if err != nil || len(letters) != 1 {
		t.Fatalf("%v, %v", letters, err)
	}
	info := letters[0].Info
	if info.Attempts != 3 || !info.FirstFailure.Equal(parkStart) || !info.LastFailure.Equal(parkStart.Add(3*time.Second)) ||
		info.Origin.Offset != 0 || info.Node != "judge" || string(letters[0].Value) != "a1" {
		t.Errorf("the letter says %+v", info)
	}
	if n := l.Count("judge", "dead-letter-transient"); n != 1 {
		t.Errorf("%d dead letters are counted", n)
	}
	l.wantEmpty()
}

// TestParkedRecordsHaveOwnAttempts: a waiting record that fails when it is tried has its own
// attempts. Requirement G6.
func TestParkedRecordsHaveOwnAttempts(t *testing.T) {
	l := newLot(t, parkPolicy(2, topology.DeadLetter))
	l.broken["a1"], l.broken["a2"] = errBroken, errBroken
	l.pipe("a=a1", "a=a2", "a=a3")
	l.advance(time.Second) // the second attempt of a1, and the first of a2
	l.want()
	l.pipe("a=a4")
	l.advance(time.Second)
	l.want("a3#1@2", "a4#2@3")
	letters, err := l.DeadLetters()
	if err != nil || len(letters) != 2 || letters[1].Info.Attempts != 2 || string(letters[1].Value) != "a2" {
		t.Fatalf("%+v, %v", letters, err)
	}
	l.wantEmpty()
}

// TestParkedRecordStopsItsTask: a parked record that has to stop its task stops it, and is tried
// again from the store. Requirement G6.
func TestParkedRecordStopsItsTask(t *testing.T) {
	l := newLot(t, parkPolicy(2, topology.Stop))
	l.broken["a1"] = errBroken
	l.pipe("a=a1", "a=a2")
	err := l.Advance(time.Second)
	if _, failed := errors.AsType[*topology.Failure](err); !failed {
		t.Fatalf("Advance returned %v", err)
	}
	delete(l.broken, "a1")
	if err := l.Restart(); err != nil {
		t.Fatal(err)
	}
	l.advance(0)
	l.want("a1#1@0", "a2#2@1")
}

// TestParkedRecordFailsWithAnotherClass: when a parked record is tried again and fails with another
// class, the policy of that class decides. A retry in place would make all keys wait. Requirement
// G6.
func TestParkedRecordFailsWithAnotherClass(t *testing.T) {
	l := newLot(t, parkPolicy(0, 0))
	l.broken["a1"], l.broken["b1"] = errBroken, errBroken
	l.pipe("a=a1", "a=a2", "b=b1")
	l.broken["a1"] = topology.Fail(topology.Validation, schemas.Reason("no"))
	l.broken["b1"] = topology.Fail(topology.Overload, schemas.Reason("later"))
	l.advance(time.Second)
	l.want("a2#1@1")
	letters, err := l.DeadLetters()
	if err != nil || len(letters) != 1 || letters[0].Info.Class != topology.Validation || letters[0].Info.Attempts != 2 {
		t.Fatalf("%+v, %v", letters, err)
	}
	l.pipe("c=c1")
	l.want("c1#1@3")
	delete(l.broken, "b1")
	l.advance(2 * time.Second) // the second pause of Overload
	l.want("b1#1@2")
}

// TestParkedNullKeyBlocksNoRecord: nothing waits behind a record without a key. Requirement G6.
func TestParkedNullKeyBlocksNoRecord(t *testing.T) {
	l := newLot(t, parkPolicy(0, 0))
	l.broken["x"] = errBroken
	l.pipe("-=x", "-=y", "-=x")
	l.want("y#1@1")
	delete(l.broken, "x")
	l.advance(time.Second)
	l.want("x#2@0", "x#3@2")
	l.wantEmpty()
}

// TestUndecodableRecordIsParked: a record that cannot be read can be parked as well, in the bytes
// that were read. Requirement G6.
func TestUndecodableRecordIsParked(t *testing.T) {
	l := newLot(t, parkPolicy(2, topology.DeadLetter))
	if err := l.PipeRaw("in", []byte("a"), nil); err != nil { // a null value
		t.Fatal(err)
	}
	l.pipe("a=a1")
	l.want()
	l.advance(time.Second)
	l.want("a1#1@1")
	letters, err := l.DeadLetters()
	if err != nil || len(letters) != 1 || letters[0].Value != nil || string(letters[0].Key) != "a" ||
		letters[0].Info.Class != topology.Poison {
		t.Fatalf("%+v, %v", letters, err)
	}
}

// TestRecordTooLargeToParkDies: a record that does not fit into the changelog becomes a dead
// letter, and overtakes no other record of its key. Requirement G6.
func TestRecordTooLargeToParkDies(t *testing.T) {
	l := newLot(t, parkPolicy(0, 0), topologytest.MaxMessageBytes("app-in.parked-changelog", 400))
	long := strings.Repeat("x", 500)
	l.broken["a1"], l.broken[long] = errBroken, errBroken
	l.pipe("b="+long, "a=a1", "a="+long, "a=a2")
	letters, err := l.DeadLetters()
	if err != nil || len(letters) != 2 || letters[0].Info.Class != topology.Transient ||
		letters[1].Info.Class != topology.Validation {
		t.Fatalf("%+v, %v", letters, err)
	}
	delete(l.broken, "a1")
	l.advance(time.Second)
	l.want("a1#1@1", "a2#2@3")
}

// TestParkedRecordMovesNoStreamTime: a record that waits moves no time, and moves it when it is
// processed. Requirement G6.
func TestParkedRecordMovesNoStreamTime(t *testing.T) {
	b := topology.NewBuilder("app", topology.OnError(topology.Transient, parkPolicy(0, 0)))
	broken := true
	var fired []int64
	node := topology.Stateful(topology.From(b, parkIn, topology.ParkKeys()), "judge")
	node.Process(func(s *topology.Setup) (topology.Handler[topology.Option[string], string], error) {
		s.OnStreamTime(time.Second, func(c *topology.Context, _ time.Time) error {
			fired = append(fired, c.StreamTime())
			return nil
		})
		return func(_ *topology.Context, r topology.Record[topology.Option[string], string]) error {
			if broken && r.Value == "late" {
				return errBroken
			}
			return nil
		}, nil
	})
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	d, err := topologytest.New(top, topologytest.Clock(parkStart))
	if err != nil {
		t.Fatal(err)
	}
	at := parkStart.Add(-time.Hour)
	for i, value := range []string{"first", "late", "late", "second"} {
		event := topologytest.At(at.Add(time.Duration(i) * time.Second))
		if err := topologytest.Pipe(d, parkIn, topology.Some(value), value, event); err != nil {
			t.Fatal(err)
		}
	}
	late := at.Add(10 * time.Second)
	if err := topologytest.Pipe(d, parkIn, topology.Some("late"), "late", topologytest.At(late)); err != nil {
		t.Fatal(err)
	}
	if want := []int64{at.Add(3 * time.Second).UnixMilli()}; !slices.Equal(fired, want) {
		t.Errorf("fired at %d, want %d", fired, want)
	}
	broken = false
	if err := d.Advance(time.Second); err != nil {
		t.Fatal(err)
	}
	if want := late.UnixMilli(); len(fired) != 2 || fired[1] != want {
		t.Errorf("fired at %d, want %d last", fired, want)
	}
}

// TestParkMistakes: Build reports a policy without the means for it. Requirement G6.
func TestParkMistakes(t *testing.T) {
	b := topology.NewBuilder("app", topology.OnError(topology.Transient, parkPolicy(0, 0)))
	topology.From(b, parkIn).Into(parkOut)
	_, err := b.Build()
	if err == nil || !strings.Contains(err.Error(), "errors of class transient park the record, and the source in-source") {
		t.Errorf("Build returned %v", err)
	}
	for _, p := range []topology.Policy{
		parkPolicy(1, topology.DeadLetter), parkPolicy(3, 0), parkPolicy(0, topology.Stop), parkPolicy(2, topology.Park),
		{Action: topology.Park},
		{Action: topology.Retry, Attempts: 0, Backoff: time.Second, BackoffMax: time.Second, Then: topology.Stop},
	} {
		b := topology.NewBuilder("app", topology.OnError(topology.Transient, p))
		topology.From(b, parkIn, topology.ParkKeys()).Into(parkOut)
		if _, err := b.Build(); err == nil {
			t.Errorf("the policy %+v is taken", p)
		}
	}
}

// TestParkNeedsTheStoreOfEachSource: a source needs the store if its records reach the node that
// parks, and does not need it otherwise. So a source of a node itself, such as the claims of
// package processors/effect, can be in one task with parked keys. Requirement G6.
func TestParkNeedsTheStoreOfEachSource(t *testing.T) {
	type record = topology.Record[string, string]
	seen := topology.KeyValueStore("seen", schemas.String(), schemas.String())
	note := func(_ *topology.Context, rows state.KeyValue[string, string], r record, _ topology.Emit[string, string]) error {
		return rows.Put(r.Key, r.Value)
	}
	for _, comes := range []bool{false, true} {
		b := topology.NewBuilder("app")
		in := topology.From(b, topology.Topic("in", schemas.String(), schemas.String()), topology.ParkKeys())
		other := topology.From(b, topology.Topic("other", schemas.String(), schemas.String()))
		topology.Process(in, "note", seen, note)
		topology.Process(other, "note-other", seen, note)
		if comes {
			in = in.Merge("both", other)
		}
		in.Peek("judge", func(record) error { return nil }, topology.OnError(topology.Transient, parkPolicy(0, 0)))
		_, err := b.Build()
		if comes != (err != nil) || comes && !strings.Contains(err.Error(), "the source other-source") {
			t.Errorf("records of the other source come to the node: %t; Build returned %v", comes, err)
		}
	}
}

// TestRepartitionedRecordIsParked: the records of a repartition topic can wait as well, each source
// in its own store. Requirement G6.
func TestRepartitionedRecordIsParked(t *testing.T) {
	b := topology.NewBuilder("app")
	broken := true
	in := topology.From(b, parkIn)
	again := topology.RepartitionWith(in, "again", topology.Nullable(schemas.String()), schemas.String(), topology.ParkKeys())
	again.Peek("judge", func(topology.Record[topology.Option[string], string]) error {
		if broken {
			return errBroken
		}
		return nil
	}, topology.OnError(topology.Transient, parkPolicy(0, 0))).Into(parkOut)
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(top.InternalTopics(), "app-again.parked-changelog") {
		t.Errorf("the internal topics are %q", top.InternalTopics())
	}
	d, err := topologytest.New(top, topologytest.Clock(parkStart))
	if err != nil {
		t.Fatal(err)
	}
	if err := topologytest.Pipe(d, parkIn, topology.Some("a"), "1"); err != nil {
		t.Fatal(err)
	}
	broken = false
	if err := d.Advance(time.Second); err != nil {
		t.Fatal(err)
	}
	if out, err := topologytest.Output(d, parkOut); err != nil || len(out) != 1 {
		t.Errorf("%v, %v", out, err)
	}
}

// TestDescriptionNamesParkStores: the description names the stores of parked records as the
// topology does. Requirement G6.
func TestDescriptionNamesParkStores(t *testing.T) {
	internal := 0
	for name, declare := range goldenTopologies {
		b := topology.NewBuilder("app", topology.DeadLetters("dead"))
		declare(b)
		built := mustBuild(t, b)
		d := map[string]graph.SubtopologyDescription{}
		for _, sub := range built.Description().Subtopologies {
			d[sub.Name] = sub
		}
		for _, sub := range built.Subtopologies() {
			for j, source := range sub.Sources {
				if source.ParkStore == "" { // a delayed retry topic
					continue
				}
				if got := d[sub.Name].Sources[j].ParkStore("app"); got != source.ParkStore {
					t.Errorf("%s: the store of %s is described as %s, and is %s", name, source.Topic, got, source.ParkStore)
				}
				if source.Repartition {
					internal++
				}
			}
		}
	}
	if internal == 0 {
		t.Error("no repartition topic was described")
	}
}

// TestParkStoreNameIsReserved: no other store can have the name of a store of parked records, even
// with the same format. Requirement G6.
func TestParkStoreNameIsReserved(t *testing.T) {
	b := topology.NewBuilder("app")
	bytes := topology.Topic("in", schemas.Bytes(), schemas.Bytes())
	in := topology.From(b, bytes, topology.ParkKeys())
	own := topology.KeyValueStore("in.parked", schemas.Bytes(), schemas.Bytes())
	topology.Process(in, "count", own, func(*topology.Context, state.KeyValue[[]byte, []byte], topology.Record[[]byte, []byte],
		topology.Emit[[]byte, []byte]) error {
		return nil
	}).Into(topology.Topic("out", schemas.Bytes(), schemas.Bytes()))
	if mistakes := mistakesOf(t, b); len(mistakes) != 1 || mistakes[0].Node != "count" ||
		!strings.HasPrefix(mistakes[0].Err.Error(), "the name of store in.parked is kept for parked records of the source in (") {
		t.Errorf("the mistakes are %v", mistakes)
	}
}

// TestLongTopicNameHasNoParkStore: a source whose topic name is too long for the changelog of
// parked records has no such store. Requirement G6.
func TestLongTopicNameHasNoParkStore(t *testing.T) {
	for n, has := range map[int]bool{190: true, 200: false} {
		b := topology.NewBuilder(strings.Repeat("a", 249-190-len("-.parked-changelog")))
		name := strings.Repeat("x", n)
		topology.From(b, topology.Topic(name, schemas.String(), schemas.String())).Into(topology.Topic("out", schemas.String(), schemas.String()))
		source := mustBuild(t, b).Subtopologies()[0].Sources[0]
		if (source.ParkStore != "") != has || (source.ParkChangelog != "") != has {
			t.Errorf("with %d characters the store is %q, with changelog %q", n, source.ParkStore, source.ParkChangelog)
		}
	}
}
