package topology_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/topology/topologytest"
)

func delayPolicy(attempts int) topology.Policy {
	return topology.Policy{Action: topology.Delay, Attempts: attempts, Then: topology.DeadLetter}
}

// delayed is a topology whose source has delayed retry topics; a value that is in broken fails.
type delayed struct {
	t      *testing.T
	broken map[string]error
	times  []int64
	*topologytest.Driver
}

func newDelayed(t *testing.T, attempts int, opts ...topologytest.Option) *delayed {
	t.Helper()
	d := &delayed{t: t, broken: map[string]error{}}
	b := topology.NewBuilder("app", topology.DeadLetters("dead"), topology.OnError(topology.Transient, delayPolicy(attempts)),
		topology.OnError(topology.Poison, delayPolicy(attempts)))
	in := topology.From(b, parkIn, topology.RetryTopics(time.Second, time.Minute))
	node := topology.Stateful(in, "judge")
	out := topology.Outlet[topology.Option[string], string](node, "out")
	node.Process(func(s *topology.Setup) (topology.Handler[topology.Option[string], string], error) {
		emit := out.In(s)
		return func(c *topology.Context, r topology.Record[topology.Option[string], string]) error {
			d.times = append(d.times, c.StreamTime())
			if err := d.broken[r.Value]; err != nil {
				return err
			}
			_, _, offset := r.Source()
			r.Value = fmt.Sprintf("%s@%d/%d", r.Value, offset, c.Attempt())
			return emit(c, r)
		}, nil
	})
	out.Stream().Into(parkOut)
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if d.Driver, err = topologytest.New(top, append(opts, topologytest.Clock(parkStart))...); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *delayed) pipe(records ...string) {
	d.t.Helper()
	for _, text := range records {
		key, value, _ := strings.Cut(text, "=")
		err := topologytest.Pipe(d.Driver, parkIn, topology.Some(key), value, topologytest.Header("trace", value),
			topologytest.At(parkStart.Add(-time.Hour)))
		if err != nil {
			d.t.Fatal(err)
		}
	}
}

func (d *delayed) want(values ...string) {
	d.t.Helper()
	records, err := topologytest.Output(d.Driver, parkOut)
	if err != nil {
		d.t.Fatal(err)
	}
	var got []string
	for _, r := range records {
		got = append(got, r.Value)
		if len(r.Headers) != 1 || r.Timestamp != parkStart.Add(-time.Hour).UnixMilli() {
			d.t.Errorf("%s has the headers %v and the time %s", r.Value, r.Headers, r.Time())
		}
	}
	if !slices.Equal(got, values) {
		d.t.Errorf("the output is %q, want %q", got, values)
	}
}

func (d *delayed) advance(by time.Duration) {
	d.t.Helper()
	if err := d.Advance(by); err != nil {
		d.t.Fatal(err)
	}
}

// TestG1Delayed: a record that fails is read again after each delay, as the record that it was, and
// nobody waits for it; in the end it dies with its whole history.
func TestG1Delayed(t *testing.T) {
	d := newDelayed(t, 4)
	d.broken["a1"], d.broken["b1"] = errBroken, errBroken
	d.pipe("a=a1", "a=a2", "b=b1")
	d.want("a2@1/1")
	d.advance(999 * time.Millisecond)
	d.want()
	delete(d.broken, "b1")
	d.advance(time.Millisecond)
	d.want("b1@2/2")
	if err := d.Restart(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		d.advance(time.Minute)
	}
	letters, err := d.DeadLetters()
	if err != nil || len(letters) != 1 {
		t.Fatalf("%v, %v", letters, err)
	}
	l := letters[0]
	if l.Info.Attempts != 4 || !l.Info.FirstFailure.Equal(parkStart) ||
		!l.Info.LastFailure.Equal(parkStart.Add(121*time.Second)) ||
		l.Info.Origin.Topic != "in" || l.Info.Origin.Offset != 0 ||
		l.Info.Origin.Timestamp != parkStart.Add(-time.Hour).UnixMilli() ||
		l.Info.ID != graph.DeadLetterID("app", l.Info.Origin) || l.Headers[0].Key != "trace" {
		t.Errorf("the letter says %+v", l.Info)
	}
	for _, h := range l.Headers {
		if h.Key == "onceward.retry" {
			t.Error("the letter has the header of a delayed record")
		}
	}
	if n := d.Count("judge", "delayed-transient"); n != 4 {
		t.Errorf("%d delays are counted", n)
	}
	for _, at := range d.times {
		if at != parkStart.Add(-time.Hour).UnixMilli() {
			t.Errorf("the stream time was %s", time.UnixMilli(at).UTC())
		}
	}
}

// TestG1DelayedTooLarge: what a retry topic does not take becomes a dead letter at once.
func TestG1DelayedTooLarge(t *testing.T) {
	d := newDelayed(t, 4, topologytest.MaxMessageBytes("app-in.retry-1s-repartition", 300))
	long := strings.Repeat("x", 300)
	d.broken[long] = errBroken
	d.pipe("a=" + long)
	letters, err := d.DeadLetters()
	if err != nil || len(letters) != 1 || letters[0].Info.Attempts != 1 {
		t.Fatalf("%+v, %v", letters, err)
	}
}

// TestG1DelayedForeign: a record that somebody else wrote to a retry topic is poison, and becomes a
// dead letter of that topic.
func TestG1DelayedForeign(t *testing.T) {
	for _, header := range []string{
		"", "1 2 3", "1 2 3 4 x", "1 2 3 4 0 0", "-1 2 3 4 0", "0 2 3 4 0", "1073741825 2 3 4 0", "9223372036854775808 2 3 4 0",
		"1 253402300800000 3 4 0", "1 -62167219200001 3 4 0", "1 2 -3 4 0", "1 2 3 9223372036854775808 0", "1 2 3 4 -1", "1 2 3 4 2",
	} {
		d := newDelayed(t, 4)
		d.broken["v"] = errBroken
		var opts []topologytest.PipeOption
		if header != "" {
			opts = append(opts, topologytest.Header("onceward.retry", header))
		}
		if err := d.PipeRaw("app-in.retry-1s-repartition", []byte("a"), []byte("v"), opts...); err != nil {
			t.Fatal(err)
		}
		d.advance(time.Second)
		letters, err := d.DeadLetters()
		if err != nil || len(letters) != 1 || letters[0].Info.Class != topology.Poison ||
			letters[0].Info.Origin.Topic != "app-in.retry-1s-repartition" {
			t.Fatalf("%q: %+v, %v", header, letters, err)
		}
	}
	// What is taken may be as large as it can, and the letter can be read.
	for _, header := range []string{
		"1073741824 253402300799999 9223372036854775807 9223372036854775807 1", "4 -62167219200000 0 -9223372036854775808 0",
	} {
		d := newDelayed(t, 4)
		d.broken["v"] = errBroken
		err := d.PipeRaw("app-in.retry-1s-repartition", []byte("a"), []byte("v"), topologytest.Header("onceward.retry", header))
		if err != nil {
			t.Fatal(err)
		}
		d.advance(time.Second)
		letters, err := d.DeadLetters()
		if err != nil || len(letters) != 1 || letters[0].Info.Origin.Topic != "in" {
			t.Fatalf("%q: %+v, %v", header, letters, err)
		}
	}
}

// TestG1DelayedAndParked: a record that was delayed joins the queue of its key if that was parked
// meanwhile.
func TestG1DelayedAndParked(t *testing.T) {
	b := topology.NewBuilder("app", topology.OnError(topology.Transient, delayPolicy(9)),
		topology.OnError(topology.Overload, parkPolicy(0, 0)),
		topology.DeadLetters("dead"))
	broken := map[string]error{"a1": errBroken, "a2": topology.Fail(topology.Overload, schemas.Reason("later"))}
	topology.From(b, parkIn, topology.RetryTopics(time.Second), topology.ParkKeys()).Peek("judge",
		func(r topology.Record[topology.Option[string], string]) error { return broken[r.Value] }).Into(parkOut)
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	d, err := topologytest.New(top, topologytest.Clock(parkStart))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []string{"a1", "a2"} {
		if err := topologytest.Pipe(d, parkIn, topology.Some("a"), v); err != nil {
			t.Fatal(err)
		}
	}
	delete(broken, "a1")
	if err := d.Advance(1500 * time.Millisecond); err != nil {
		t.Fatal(err)
	}
	delete(broken, "a2")
	if err := d.Advance(time.Minute); err != nil {
		t.Fatal(err)
	}
	out, err := topologytest.Output(d, parkOut)
	if err != nil || len(out) != 2 || out[0].Value != "a2" || out[1].Value != "a1" {
		t.Errorf("%v, %v", out, err)
	}
}

// TestG1DelayMistakes: what could not be carried out is found when the topology is built; what is
// declared is there.
func TestG1DelayMistakes(t *testing.T) {
	mistake := func(want string, policy topology.Policy, opts ...topology.SourceOption) {
		t.Helper()
		b := topology.NewBuilder("app", topology.OnError(topology.Transient, policy))
		topology.From(b, parkIn, opts...).Into(parkOut)
		if _, err := b.Build(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Build returned %v, want %q", err, want)
		}
	}
	mistake("delay the record, and the source in-source", delayPolicy(2))
	mistake("a delay has no pauses", topology.Policy{
		Action: topology.Delay, Attempts: 2, Backoff: time.Second, BackoffMax: time.Second,
		Then: topology.Stop}, topology.RetryTopics(time.Second))
	mistake("at least 2 attempts, not 0", delayPolicy(0), topology.RetryTopics(time.Second))
	mistake("in whole milliseconds", delayPolicy(2), topology.RetryTopics(time.Microsecond))
	mistake("does not come after", delayPolicy(2), topology.RetryTopics(time.Second, time.Second))
	b := topology.NewBuilder("app", topology.DeadLetters("dead"), topology.OnError(topology.Transient, delayPolicy(2)))
	topology.From(b, parkIn, topology.RetryTopics(time.Second)).Into(parkOut)
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	const retry = "app-in.retry-1s-repartition"
	sub := top.Subtopologies()[0]
	if !slices.Contains(top.InternalTopics(), retry) || sub.Name != "in" || !slices.Contains(sub.Sinks, retry) {
		t.Errorf("the internal topics are %q, the subtopology is %+v", top.InternalTopics(), sub)
	}
	counts, err := top.ResolvePartitions(map[string]int32{"in": 7, "out": 3, "dead": 1})
	if err != nil || counts[retry] != 7 {
		t.Errorf("the numbers of partitions are %v, %v", counts, err)
	}
}
