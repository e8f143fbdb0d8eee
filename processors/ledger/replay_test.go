package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/processors/internal/processortest"
	"github.com/onceward/onceward/processors/ledger"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// run returns all that a history leaves: the records of all outputs, and the rows of both stores.
// Before the deliveries of interrupted the ledger starts again, at another time of the clock, and
// they are tried twice.
func run(tb testing.TB, history []delivery, interrupted map[int]bool, read func(entry) (ledger.Contribution, error)) string {
	failing := false
	var l ledger.Ledger[string, Entry]
	d := processortest.New(tb, func(b *topology.Builder) {
		l = routedFrom(b, read, ledger.Columns("x", "y"))
		l.Changes().Peek("behind", func(topology.Record[string, ledger.Balance]) error {
			if failing {
				failing = false
				return topology.Fail(topology.Transient, schemas.Reason("asked to"))
			}
			return nil
		})
	})
	left := ""
	for i, step := range history {
		if interrupted[i] {
			d.Restart()
			if err := d.Advance(time.Hour); err != nil {
				tb.Fatal(err)
			}
		}
		failing = interrupted[i]
		if err := topologytest.Pipe(d.Driver, entryTopic, step.Ledger, step.Entry, at0); err != nil {
			tb.Fatal(err)
		}
		failing = false
		for _, topic := range []string{"balances", "duplicates", "conflicts"} {
			for _, r := range d.Take(topic) {
				left += fmt.Sprintf("%d: %s %s=%s at %d\n", i, topic, r.Key, r.Value, r.Timestamp)
			}
		}
	}
	if err := checkStores(d, l); err != nil {
		tb.Error(err)
	}
	return left + content(d)
}

// checkReplay compares two runs of one history, with interruptions of their own.
func checkReplay(tb testing.TB, rt *rapid.T, read func() func(entry) (ledger.Contribution, error)) error {
	history := deliveries.Draw(rt, "history")
	lives := make([]string, 2)
	for i := range lives {
		interrupted := map[int]bool{}
		for _, n := range rapid.SliceOf(rapid.IntRange(0, len(history)-1)).Draw(rt, "interrupted") {
			interrupted[n] = true
		}
		lives[i] = run(tb, history, interrupted, read())
	}
	if lives[0] != lives[1] {
		return fmt.Errorf("the first run leaves\n%s\nand the replay\n%s", lives[0], lives[1])
	}
	return nil
}

// TestReplay_I3: a replay from the beginning, with other interruptions, gives the same outputs and
// the same rows. Row of the failure matrix: replay from earliest.
func TestReplay_I3(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		if err := checkReplay(t, rt, func() func(entry) (ledger.Contribution, error) { return contribution }); err != nil {
			rt.Fatal(err)
		}
	})
}

// TestReplayFindsBrokenLedger is the control: a ledger whose contributions depend on the run is
// found.
func TestReplayFindsBrokenLedger(t *testing.T) {
	numbered := func() func(entry) (ledger.Contribution, error) {
		calls := 0
		return func(r entry) (ledger.Contribution, error) {
			calls++
			c, err := contribution(r)
			c.ID += fmt.Sprint(calls)
			return c, err
		}
	}
	found := false
	for seed := range 20 {
		found = found || rapid.Custom(func(rt *rapid.T) bool { return checkReplay(t, rt, numbered) != nil }).Example(seed)
	}
	if !found {
		t.Error("a ledger whose ids depend on the run passes")
	}
}

// TestRedriven_G5: what was redriven counts once, if it was posted before, by its producer's retry
// or another redrive.
func TestRedriven_G5(t *testing.T) {
	d := newRouted(t)
	const early, late = `{"id":"b","amounts":[5],"corrects":"a"}`, `{"id":"a","amounts":[7]}`
	d.Pipe("entries", "k", early) // what it corrects is not there yet
	letter := d.Take("dead")[0]
	var headers []topologytest.PipeOption
	for _, h := range letter.Headers {
		headers = append(headers, topologytest.Header(h.Key, string(h.Value)))
	}
	d.Pipe("entries", "k", late)
	d.Pipe("entries", "k", early)
	for range 2 {
		d.Pipe("entries", string(letter.Key), string(letter.Value), headers...)
	}
	d.Want("balances", `{"count":1,"amounts":[7],"contribution":"a"}`, `{"count":2,"amounts":[12],"contribution":"b"}`)
	if duplicates := d.Take("duplicates"); len(duplicates) != 2 {
		t.Errorf("%d of two redriven records are duplicates", len(duplicates))
	}
	d.Want("dead")
}
