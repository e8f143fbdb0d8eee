package inbox_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/processors/inbox"
	"github.com/onceward/onceward/processors/internal/processortest"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// sight is a payment that comes some minutes after a fixed moment.
type sight struct {
	ID                    string
	Amount, Note, Minutes int
}

// ids are few, so that they collide. The empty one is none.
var ids = []string{"", "a", "b", "c"}

var sights = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) sight {
	return sight{
		rapid.SampledFrom(ids).Draw(t, "id"), rapid.IntRange(0, 1).Draw(t, "amount"), rapid.IntRange(0, 3).Draw(t, "note"),
		rapid.IntRange(0, 200).Draw(t, "minutes"),
	}
}), 1, 40)

// life is what happens to a run beside its records: before a record of that number it starts again,
// at another time of the clock, or the record fails behind the inbox until it is tried again.
type life struct{ restarts, failures map[int]bool }

func lifeOf(t *rapid.T, records int, name string) life {
	numbers := rapid.SliceOf(rapid.IntRange(0, records-1))
	l := life{map[int]bool{}, map[int]bool{}}
	for _, i := range numbers.Draw(t, name+" restarts") {
		l.restarts[i] = true
	}
	for _, i := range numbers.Draw(t, name+" failures") {
		l.failures[i] = true
	}
	return l
}

// run returns all that a history leaves: the records of all outputs, and the rows of all stores.
func (l life) run(tb testing.TB, history []sight, opts ...inbox.Option) (left string) {
	failing := false
	var in inbox.Inbox[string, Payment]
	d := processortest.New(tb, func(b *topology.Builder) {
		in = routed(b, opts...)
		if in.Expires() {
			in.Late().Into(topology.Topic("late", schemas.String(), schemas.JSON[Payment]()))
		}
		in.Accepted().Peek("fragile", func(payment) error {
			if failing {
				failing = false
				return topology.Fail(topology.Transient, schemas.Reason("asked to"))
			}
			return nil
		})
	})
	for i, s := range history {
		if l.restarts[i] {
			d.Restart()
			if err := d.Advance(24 * time.Hour); err != nil {
				tb.Fatal(err)
			}
		}
		failing = l.failures[i]
		d.Pipe("payments", "k", fmt.Sprintf(`{"id":%q,"amount":%d,"note":"n%d"}`, s.ID, s.Amount, s.Note), at(s.Minutes))
		failing = false
		for _, topic := range d.Topics() {
			if topic == "payments" || topic == "dead" {
				continue
			}
			for _, r := range d.Take(topic) {
				left += fmt.Sprintf("%d: %s %s=%s at %d %s\n", i, topic, r.Key, r.Value, r.Timestamp, r.Headers)
			}
		}
		for range d.Take("dead") { // its headers tell the time of the clock
			left += fmt.Sprintf("%d: dead\n", i)
		}
	}
	return left + rowsOf(tb, d, in)
}

// rowsOf returns the rows of all stores of an inbox.
func rowsOf(tb testing.TB, d *processortest.Driver, in inbox.Inbox[string, Payment]) (rows string) {
	tb.Helper()
	if !in.Expires() {
		return fmt.Sprintf("%q\n%q\n", d.Rows("inbox", 0), d.Rows("inbox-business", 0))
	}
	store, err := topologytest.Store(d.Driver, in.RetainedStore(), 0)
	if err != nil {
		tb.Fatal(err)
	}
	for _, id := range ids {
		entry, known, err := store.Lookup(id)
		if err != nil {
			tb.Fatal(err)
		}
		rows += fmt.Sprintf("%s: %v %v\n", id, entry, known)
	}
	return rows + fmt.Sprintf("archive: %q\n", d.Rows("inbox-archive", 0))
}

// checkReplay compares two runs of one history, with interruptions of their own.
func checkReplay(tb testing.TB, rt *rapid.T, opts func() []inbox.Option) error {
	history := sights.Draw(rt, "history")
	first := lifeOf(rt, len(history), "first").run(tb, history, opts()...)
	again := lifeOf(rt, len(history), "again").run(tb, history, opts()...)
	if first != again {
		return fmt.Errorf("the first run leaves\n%sand the replay\n%s", first, again)
	}
	return nil
}

// TestReplay_I3: a replay from the beginning, at another time and with other interruptions, gives
// the same outputs and the same rows. Row of the failure matrix: replay from earliest.
func TestReplay_I3(t *testing.T) {
	for name, opts := range map[string][]inbox.Option{
		"for ever": {inbox.BusinessKey(byNote), inbox.AllowMissingID(), inbox.PayloadWithout("id")},
		"retained": {inbox.Retain(time.Hour), inbox.EmitLate(), inbox.Archive(archiveTopic)},
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				if err := checkReplay(t, rt, func() []inbox.Option { return opts }); err != nil {
					rt.Fatal(err)
				}
			})
		})
	}
}

// TestReplayFindsBrokenInbox is the control: an inbox that keeps something in memory is found.
func TestReplayFindsBrokenInbox(t *testing.T) {
	counting := func() []inbox.Option {
		calls := byte(0)
		return []inbox.Option{inbox.BusinessKey(byNote), inbox.PayloadHash(func(payment) ([32]byte, error) {
			calls++
			return [32]byte{calls}, nil
		})}
	}
	found := false
	for seed := range 20 {
		found = found || rapid.Custom(func(rt *rapid.T) bool { return checkReplay(t, rt, counting) != nil }).Example(seed)
	}
	if !found {
		t.Error("an inbox that counts in memory passes")
	}
}

// TestRedriven_G5: what was redriven is a duplicate if it was applied before, as its producer's
// retry or by another redrive, although its headers tell of its death.
func TestRedriven_G5(t *testing.T) {
	failing := true
	d := processortest.New(t, func(b *topology.Builder) {
		routed(b).Accepted().Peek("fragile", func(payment) error {
			if failing {
				return schemas.Reason("asked to")
			}
			return nil
		})
	})
	const record = `{"id":"a","amount":1}`
	d.Pipe("payments", "k", record)
	letter := d.Take("dead")[0]
	var headers []topologytest.PipeOption
	for _, h := range letter.Headers {
		headers = append(headers, topologytest.Header(h.Key, string(h.Value)))
	}
	failing = false
	d.Pipe("payments", "k", record)
	d.Want("accepted", record)
	for range 2 {
		d.Pipe("payments", string(letter.Key), string(letter.Value), headers...)
		d.Want("duplicates", record)
	}
	d.Want("accepted")
	d.Want("dead")
}
