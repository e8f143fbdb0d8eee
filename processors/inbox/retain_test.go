package inbox_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/processors/inbox"
	"github.com/onceward/onceward/processors/internal/processortest"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// at is a moment some minutes after a fixed one.
func at(minutes int) topologytest.PipeOption {
	return topologytest.At(time.UnixMilli(1_700_000_000_000).Add(time.Duration(minutes) * time.Minute))
}

// TestRetain_C8: an id is forgotten by stream time and by nothing else, and what is too old to know
// is not taken for new, also after everything has expired and is replayed. Row of the failure
// matrix: replay after expiry.
func TestRetain_C8(t *testing.T) {
	lateTopic := topology.Topic("late", schemas.String(), schemas.JSON[Payment]())
	d := processortest.New(t, func(b *topology.Builder) {
		routed(b, inbox.Retain(time.Hour), inbox.EmitLate()).Late().Into(lateTopic)
	})
	pipe := func(minutes int, id string, amount int) {
		t.Helper()
		d.Pipe("payments", "k", fmt.Sprintf(`{"id":%q,"amount":%d}`, id, amount), at(minutes))
	}
	pipe(0, "a", 1)
	d.Want("accepted", `{"id":"a","amount":1}`)
	pipe(59, "b", 1)
	d.Want("accepted", `{"id":"b","amount":1}`)
	if err := d.Advance(48 * time.Hour); err != nil { // the clock alone changes nothing
		t.Fatal(err)
	}
	d.Restart()
	pipe(59, "a", 1)
	d.Want("duplicates", `{"id":"a","amount":1}`)
	pipe(59, "a", 2)
	d.Want("conflicts", `{"id":"a","amount":2}`)
	// An old copy of what is still known is a duplicate, however old it is.
	pipe(-600, "b", 1)
	d.Want("duplicates", `{"id":"b","amount":1}`)
	// The record itself moves the time: with it, the first sight of a is an hour ago.
	pipe(60, "a", 2)
	d.Want("accepted", `{"id":"a","amount":2}`)
	// A replay after expiry: what nobody knows any more is late, and not accepted again.
	pipe(1000, "z", 1)
	d.Want("accepted", `{"id":"z","amount":1}`)
	pipe(0, "a", 1)
	pipe(59, "b", 1)
	d.Want("late", `{"id":"a","amount":1}`, `{"id":"b","amount":1}`)
	d.Want("dead")
	d.WantCounts("inbox.accepted=4 inbox.conflicts=1 inbox.duplicates=2 inbox.late=2")
}

// TestLateIsNeverLost: a late record is a dead letter if it is not emitted.
// Row of the failure matrix: replay after expiry.
func TestLateIsNeverLost(t *testing.T) {
	d := processortest.New(t, func(b *topology.Builder) { routed(b, inbox.Retain(time.Hour)) })
	d.Pipe("payments", "k", `{"id":"a","amount":1}`, at(60))
	d.Pipe("payments", "k", `{"id":"b","amount":1}`, at(0))
	d.WantDeadLetter("inbox", topology.Validation,
		"the record is older than what the inbox remembers, so nobody knows whether its id was seen")
	// The failure has not moved the time.
	d.Pipe("payments", "k", `{"id":"c","amount":1}`, at(1))
	d.WantCounts("inbox.accepted=2 inbox.dead-letter-validation=1")
}

// TestRetainModel compares an inbox that forgets with a map that goes by stream time.
func TestRetainModel(t *testing.T) {
	type sight struct{ amount, minutes int }
	rapid.Check(t, func(rt *rapid.T) {
		d := processortest.New(t, func(b *topology.Builder) {
			routed(b, inbox.Retain(time.Hour), inbox.EmitLate()).Late().Into(topology.Topic("late", schemas.String(), schemas.JSON[Payment]()))
		})
		seen, now := map[string]sight{}, -1<<30
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			id := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "id")
			s := sight{rapid.IntRange(0, 1).Draw(rt, "amount"), rapid.IntRange(0, 300).Draw(rt, "minutes")}
			now = max(now, s.minutes)
			first, known := seen[id]
			want := "accepted"
			switch {
			case known && first.minutes > now-60 && first.amount == s.amount:
				want = "duplicates"
			case known && first.minutes > now-60:
				want = "conflicts"
			case s.minutes <= now-60:
				want = "late"
			default:
				seen[id] = s
			}
			if rapid.IntRange(0, 5).Draw(rt, "restart") == 0 {
				d.Restart()
			}
			d.Pipe("payments", "k", fmt.Sprintf(`{"id":%q,"amount":%d}`, id, s.amount), at(s.minutes))
			got := ""
			for _, topic := range []string{"accepted", "duplicates", "conflicts", "late", "dead"} {
				for range d.Take(topic) {
					got += topic
				}
			}
			if got != want {
				rt.Fatalf("%s, %+v at %d: it went to %s, want %s", id, s, now, got, want)
			}
		}
	})
}

func TestRetainedStore(t *testing.T) {
	var in inbox.Inbox[string, Payment]
	d := processortest.New(t, func(b *topology.Builder) { in = routed(b, inbox.Retain(time.Hour)) })
	d.Pipe("payments", "k", `{"id":"a","amount":1}`, at(0))
	store, err := topologytest.Store(d.Driver, in.RetainedStore(), 0)
	if err != nil {
		t.Fatal(err)
	}
	entry, ok, err := store.Lookup("a")
	if err != nil || !ok || entry.Value.Outcome != inbox.Accepted || entry.Value.FirstSeen != entry.Time {
		t.Errorf("the entry is %+v, %v, %v", entry, ok, err)
	}
}

var archiveTopic = topology.Topic("archive", schemas.String(), schemas.JSON[inbox.Entry]())

// TestArchive_C8: what the inbox forgets goes to the archive, each id once, two at a time and in
// order, whatever fails, starts again or jumps in between.
func TestArchive_C8(t *testing.T) {
	d := processortest.New(t, func(b *topology.Builder) { routed(b, inbox.Retain(time.Hour), inbox.Archive(archiveTopic)) })
	want := func(ids ...string) {
		t.Helper()
		var got []string
		for _, r := range d.Take("archive") {
			if len(r.Headers) != 0 {
				t.Errorf("the archive has headers of another record: %v", r.Headers)
			}
			got = append(got, string(r.Key))
		}
		if fmt.Sprint(got) != fmt.Sprint(ids) {
			t.Errorf("the archive got %v, want %v", got, ids)
		}
	}
	for minute, id := range []string{"a", "b", "c", "d", "e"} {
		d.Pipe("payments", "k", `{"id":"`+id+`","amount":1}`, at(minute), topologytest.Header("trace", "1"))
	}
	d.Pipe("payments", "k", `{"id":"e","amount":1}`, at(59))
	want()
	d.Pipe("payments", "k", `{"id":"f","amount":1}`, at(60), topologytest.Header("trace", "1"))
	want("a")
	d.Restart()
	// A jump: two for each record, be it accepted or a duplicate. A record that fails archives
	// nothing.
	d.Pipe("payments", "k", `{"id":"g","amount":1}`, at(1000))
	want("b", "c")
	d.Pipe("payments", "k", `{"amount":1}`, at(1000))
	want()
	d.Pipe("payments", "k", `{"id":"g","amount":1}`, at(1000))
	want("d", "e")
	d.Pipe("payments", "k", `{"id":"a","amount":1}`, at(1001)) // a is new again, and archived again in its time
	want("f")
	d.Pipe("payments", "k", `{"id":"h","amount":1}`, at(2000))
	want("g", "a")
	if d.Count("inbox", "archived") != 8 {
		t.Errorf("%d are counted", d.Count("inbox", "archived"))
	}
	if rows := d.Rows("inbox-archive", 0); len(rows) != 2 { // the ends of the queue, and h
		t.Errorf("%d rows are left", len(rows))
	}
}

// TestArchiveModel: in any history, the archive has got each accepted id that is over once, as soon
// as enough records have come, and none that is not over.
func TestArchiveModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := processortest.New(t, func(b *topology.Builder) { routed(b, inbox.Retain(time.Hour), inbox.Archive(archiveTopic)) })
		accepted, archived, now := map[string]int{}, map[string]int{}, 0
		for i := range rapid.IntRange(1, 30).Draw(rt, "steps") {
			now += rapid.IntRange(0, 45).Draw(rt, "minutes")
			id := fmt.Sprint(rapid.IntRange(0, 9).Draw(rt, "id"))
			d.Pipe("payments", "k", fmt.Sprintf(`{"id":%q,"amount":1}`, id), at(now))
			if len(d.Take("accepted")) > 0 {
				accepted[id]++
			}
			for _, r := range d.Take("archive") {
				archived[string(r.Key)]++
			}
			if i%7 == 0 {
				d.Restart()
			}
		}
		for range 20 { // copies of one record in a far future drain the queue
			d.Pipe("payments", "k", `{"id":"last","amount":1}`, at(now+1000))
			for _, r := range d.Take("archive") {
				archived[string(r.Key)]++
			}
		}
		if !maps.Equal(accepted, archived) {
			rt.Fatalf("accepted were %v, the archive got %v", accepted, archived)
		}
	})
}
