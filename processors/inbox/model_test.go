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

// delivery is one step of a random history: a payment, spelled in one of several ways, that fails
// behind the inbox or not. Few ids and amounts make many collisions.
type delivery struct {
	ID       string
	Amount   int
	Spelling int
	Fails    bool
	// Restart comes before the delivery.
	Restart bool
}

var spellings = []string{
	`{"id":%q,"amount":%d}`, ` { "id" : %q , "amount" : %d } `, `{"note":"","id":%q,"amount":%d}`,
}

var deliveries = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) delivery {
	return delivery{
		ID:       rapid.SampledFrom([]string{"", "a", "b", "c", "d"}).Draw(t, "id"),
		Amount:   rapid.IntRange(0, 2).Draw(t, "amount"),
		Spelling: rapid.IntRange(0, len(spellings)-1).Draw(t, "spelling"),
		Fails:    rapid.IntRange(0, 3).Draw(t, "fails") == 0,
		Restart:  rapid.IntRange(0, 7).Draw(t, "restart") == 0,
	}
}), 1, 60)

// fragile declares an inbox all of whose outcomes go to topics. A record with the header fail fails
// behind it.
func fragile(b *topology.Builder, opts ...inbox.Option) {
	routed(b, opts...).Accepted().Peek("fragile", func(r payment) error {
		if _, ok := r.Header("fail"); ok {
			return schemas.Reason("asked to")
		}
		return nil
	})
}

// checkHistory compares an inbox with a map, step by step.
func checkHistory(tb testing.TB, history []delivery, opts ...inbox.Option) error {
	d := processortest.New(tb, func(b *topology.Builder) { fragile(b, opts...) })
	seen := map[string]int{}
	for i, step := range history {
		if step.Restart {
			d.Restart()
		}
		amount, known := seen[step.ID]
		want := "dead"
		switch {
		case step.ID == "":
		case known && amount == step.Amount:
			want = "duplicates"
		case known:
			want = "conflicts"
		case !step.Fails:
			seen[step.ID] = step.Amount
			want = "accepted"
		}
		if got := deliver(d, step); got != want {
			return fmt.Errorf("step %d of %+v went to %q, want %q", i, history, got, want)
		}
	}
	kv, err := topologytest.Store(d.Driver, inbox.Store("inbox"), 0)
	if err != nil {
		return err
	}
	rows := 0
	for pair, err := range kv.All() {
		if _, known := seen[pair.Key]; err != nil || !known {
			return fmt.Errorf("the store has %q; error %w", pair.Key, err)
		}
		rows++
	}
	if rows != len(seen) {
		return fmt.Errorf("the store has %d rows, want %d", rows, len(seen))
	}
	return nil
}

// pipe pipes the record of a step.
func pipe(d *processortest.Driver, step delivery) {
	var opts []topologytest.PipeOption
	if step.Fails {
		opts = append(opts, topologytest.Header("fail", ""))
	}
	d.Pipe("payments", "k", fmt.Sprintf(spellings[step.Spelling], step.ID, step.Amount), opts...)
}

// deliver returns the names of the topics that the record went to.
func deliver(d *processortest.Driver, step delivery) (topics string) {
	pipe(d, step)
	for _, topic := range []string{"accepted", "duplicates", "conflicts", "dead"} {
		for range d.Take(topic) {
			topics += topic
		}
	}
	return topics
}

// TestModel compares an inbox with a map, over random histories.
// Row of the failure matrix: duplicate delivery.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		if err := checkHistory(t, deliveries.Draw(rt, "history")); err != nil {
			rt.Fatal(err)
		}
	})
}

// TestUndone: what crashes and aborts undo of a history comes again once, for each way to choose
// and to keep ids. Row of the failure matrix: crash after processing before flush.
func TestUndone(t *testing.T) {
	byAmount := func(r payment) (string, error) { return fmt.Sprint(r.Value.Amount), nil }
	for name, opts := range map[string][]inbox.Option{
		"by key": nil, "with a business key": {inbox.BusinessKey(byAmount)},
		"globally": {inbox.Globally(schemas.String(), schemas.JSON[Payment]())}, "with retention": {inbox.Retain(time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				history := deliveries.Draw(rt, "history")
				err := processortest.CheckUndone(t, func(b *topology.Builder) { fragile(b, opts...) },
					processortest.Steps(len(history)).Draw(rt, "steps"),
					func(d *processortest.Driver, i int) { pipe(d, history[i]) })
				if err != nil {
					rt.Fatal(err)
				}
			})
		})
	}
}

// TestModelFindsBrokenInbox is the control: an inbox to which all payloads look alike, and one to
// which none does, are found.
func TestModelFindsBrokenInbox(t *testing.T) {
	broken := map[string]func(payment) ([32]byte, error){
		"ignores the payload": func(payment) (h [32]byte, err error) { return h, nil },
		"compares positions": func(r payment) (h [32]byte, err error) {
			_, _, offset := r.Source()
			return [32]byte{byte(offset), byte(offset >> 8)}, nil
		},
	}
	for name, hash := range broken {
		found := false
		for seed := range 50 {
			found = found || checkHistory(t, deliveries.Example(seed), inbox.PayloadHash(hash)) != nil
		}
		if !found {
			t.Errorf("an inbox that %s passes", name)
		}
	}
}
