package projection_test

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/processors/decision"
	"github.com/onceward/onceward/processors/internal/processortest"
	"github.com/onceward/onceward/processors/projection"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/topology/topologytest"
)

// moods are those of what is behind a projection: which of its streams is refused now, and with
// what class.
type moods struct {
	refuses map[string]bool
	class   topology.Class
}

// ends are the streams of a projection in one of which each record ends.
var ends = []string{"changes", "stale", "abandoned"}

// moody has the records of a stream written to a topic of its name, and then refused if the mood is
// such.
func moody[V any](m *moods, s topology.Stream[string, V], name string) {
	topology.MapValues(s, name+"-plain", func(V) (string, error) { return "", nil }).
		Into(topology.Topic(name, schemas.String(), schemas.String()))
	s.Peek(name+"-mood", func(topology.Record[string, V]) error { return m.of(name) }, parked)
}

func (m *moods) of(stream string) error {
	if m.refuses[stream] {
		return topology.Fail(m.class, schemas.Reason("asked to"))
	}
	return nil
}

// parked is what becomes of a record that fails for a while.
var parked = topology.OnError(topology.Transient, topology.Policy{Action: topology.Park, Backoff: time.Second, BackoffMax: time.Second})

// lives reads the incarnation from a header.
func lives(r event) (int64, error) {
	b, _ := r.Header("life")
	return int64(len(b)), nil
}

// declareMoody declares a projection whose records wait, and whose outcomes are refused as m says.
func declareMoody(b *topology.Builder, l projection.Limits, m *moods) texts {
	fold := func(old []string, _ bool, r event) ([]string, error) {
		if _, fails := r.Header("fail"); fails {
			return nil, schemas.Reason("asked to")
		}
		return append(old, r.Value.Or("")), nil
	}
	p := projection.Latest(topology.From(b, eventsTopic, topology.ParkKeys()), "texts", version, fold, listCodec,
		projection.FirstVersion(1), projection.Incarnation(lives), projection.ParkGaps(textCodec, l))
	moody(m, p.Changes(), "changes")
	moody(m, p.Stale(), "stale")
	moody(m, p.Abandoned(), "abandoned")
	p.Decisions().Peek("evidence-mood", func(topology.Record[[]byte, decision.Decision]) error { return m.of("evidence") }, parked)
	return p
}

// ledgerOfAll is where every record is that was piped.
type ledgerOfAll struct {
	d     *processortest.Driver
	store state.KeyValue[string, row]
	last  row
	piped int
	// ended counts for each record how often it has come to an end.
	ended map[string]int
}

var marker = regexp.MustCompile(`#\d+#`)

// pipe pipes a record that can be told from all others.
func (l *ledgerOfAll) pipe(key string, opts ...topologytest.PipeOption) {
	mark := fmt.Sprintf("#%d#", l.piped)
	l.piped++
	l.d.Pipe("events", key, `"`+mark+`"`, append(opts, topologytest.Header("mark", mark))...)
}

// waiting returns the records that wait in a store.
func (l *ledgerOfAll) waiting(store string) (marks []string) {
	for key, row := range l.d.Rows(store, 0) {
		if store != "events.parked" || graph.IsParkedRecord([]byte(key)) {
			marks = append(marks, marker.FindString(row))
		}
	}
	return marks
}

// check commits, and returns an error unless each record is at one place, the queue says how many
// wait, and the row has not gone back.
func (l *ledgerOfAll) check() error {
	for l.d.Uncommitted() > 0 {
		if err := l.d.Commit(); err != nil {
			return err
		}
	}
	for _, topic := range append(ends, "dead") {
		for _, r := range l.d.Take(topic) {
			for _, h := range r.Headers {
				if h.Key == "mark" {
					l.ended[string(h.Value)]++
				}
			}
		}
	}
	places := map[string]int{}
	for mark, n := range l.ended {
		places[mark] = n
	}
	waiting := l.waiting("texts-parked")
	for _, mark := range append(l.waiting("events.parked"), waiting...) {
		places[mark]++
	}
	for i := range l.piped {
		if mark := fmt.Sprintf("#%d#", i); places[mark] != 1 {
			return fmt.Errorf("record %d is at %d places", i, places[mark])
		}
	}
	queue, waits := l.d.Rows("texts-queues", 0)["k"]
	if waits != (len(waiting) > 0) || waits && int(queue[8]) != len(waiting) {
		return fmt.Errorf("%d records wait, and the queue is %x", len(waiting), queue)
	}
	now, _, err := l.store.Get("k")
	if err != nil || cmp.Or(cmp.Compare(now.Incarnation, l.last.Incarnation), cmp.Compare(now.Version, l.last.Version)) < 0 {
		return fmt.Errorf("the row is %+v, %w, and was %+v", now, err, l.last)
	}
	l.last = now
	return nil
}

// newLedgerOfAll runs a projection with these limits that commits where check does.
func newLedgerOfAll(tb testing.TB, limits projection.Limits, m *moods) *ledgerOfAll {
	tb.Helper()
	var p texts
	d := processortest.New(tb, func(b *topology.Builder) { p = declareMoody(b, limits, m) },
		topologytest.Clock(time.Unix(1_000_000, 0)), topologytest.CommitByHand())
	store, err := topologytest.Store(d.Driver, p.Store(), 0)
	if err != nil {
		tb.Fatal(err)
	}
	return &ledgerOfAll{d: d, store: store, ended: map[string]int{}}
}

// TestD3NothingIsLost: whatever refuses what a projection makes, for a while or for good, and
// whatever is undone on the way, each record is at one place: it was applied, was skipped, is
// abandoned, is a dead letter, or waits. When nothing is refused any more, nothing waits for good.
func TestD3NothingIsLost(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		limits := projection.Limits{
			Records: rapid.IntRange(1, 4).Draw(rt, "records"), StreamTime: 8 * time.Second, WallClock: 16 * time.Second,
			Then: rapid.SampledFrom([]projection.GapPolicy{projection.FailFast, projection.AcceptLatest}).Draw(rt, "then"),
		}
		m := &moods{refuses: map[string]bool{}}
		l := newLedgerOfAll(t, limits, m)
		at := 10
		for range rapid.IntRange(1, 40).Draw(rt, "n") {
			m.class = rapid.SampledFrom([]topology.Class{topology.Validation, topology.Transient}).Draw(rt, "class")
			for _, stream := range append(ends, "evidence") {
				m.refuses[stream] = m.refuses[stream] != (rapid.IntRange(0, 4).Draw(rt, stream) == 0)
			}
			at += rapid.SampledFrom([]int{0, 0, 1, 3, 9}).Draw(rt, "after")
			opts := []topologytest.PipeOption{
				second(at), topologytest.Header("version", fmt.Sprint(rapid.IntRange(0, 7).Draw(rt, "version"))),
				topologytest.Header("life", strings.Repeat("l", rapid.SampledFrom([]int{0, 0, 0, 0, 1}).Draw(rt, "life"))),
			}
			if rapid.IntRange(0, 4).Draw(rt, "fails") == 0 {
				opts = append(opts, topologytest.Header("fail", ""))
			}
			l.pipe("k", opts...)
			var err error
			switch rapid.IntRange(0, 6).Draw(rt, "step") {
			case 0:
				err = l.d.Crash()
			case 1:
				err = l.d.Abort()
			case 2:
				l.d.Restart()
			case 3:
				err = l.d.Advance(time.Duration(rapid.IntRange(1, 20).Draw(rt, "seconds")) * time.Second)
			default:
			}
			if err != nil {
				rt.Fatal(err)
			}
			if err := l.check(); err != nil {
				rt.Fatal(err)
			}
		}
		m.refuses = map[string]bool{}
		for range 12 { // each time the limit is reached, of which a gap that is accepted takes one
			at += 10
			l.pipe("other", second(at), topologytest.Header("version", "1"))
			if err := l.d.Advance(20 * time.Second); err != nil {
				rt.Fatal(err)
			}
			if err := l.check(); err != nil {
				rt.Fatal(err)
			}
		}
		if left := append(l.waiting("events.parked"), l.waiting("texts-parked")...); len(left) > 0 {
			rt.Fatalf("%v wait for good", left)
		}
	})
}

// TestLostIsFound is the control: a record that is at no place, and one that is at two, are found.
func TestLostIsFound(t *testing.T) {
	l := newLedgerOfAll(t, wide, &moods{})
	l.pipe("k", second(10), topologytest.Header("version", "2"))
	if err := l.check(); err != nil {
		t.Fatal(err)
	}
	for key, row := range l.d.Rows("texts-parked", 0) {
		l.d.DeleteRow("texts-parked", key)
		if err := l.check(); err == nil {
			t.Error("a record that is gone is not missed")
		}
		l.d.SetRow("texts-parked", key, row)
		l.d.SetRow("texts-parked", key[:len(key)-1]+"\x09", row)
		if err := l.check(); err == nil {
			t.Error("a record that is there twice is not found")
		}
	}
}
