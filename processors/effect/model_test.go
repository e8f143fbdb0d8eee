package effect_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/processors/effect"
)

// move is one step of a random history of a world.
type move struct {
	Do     string
	ID     string
	Amount int
	Wait   time.Duration
	Next   behaviour
}

var moves = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) move {
	return move{
		Do: rapid.SampledFrom([]string{
			"request", "request", "work", "work", "work", "tick", "tick", "commit", "commit", "abort", "crash",
		}).Draw(t, "do"),
		ID:     rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "id"),
		Amount: rapid.IntRange(1, 2).Draw(t, "amount"),
		Wait:   rapid.SampledFrom([]time.Duration{20 * time.Millisecond, time.Second, time.Minute}).Draw(t, "wait"),
		Next:   behaviour(rapid.IntRange(0, int(behaviours)-1).Draw(t, "next")),
	}
}), 1, 80)

// play plays a history to its end, and returns what is wrong then.
func (w *world) play(history []move) error {
	for _, m := range history {
		w.gateway.next = append(w.gateway.next, m.Next)
		switch m.Do {
		case "request":
			w.request(m.ID, m.Amount)
		case "work":
			w.life.work()
		case "tick":
			w.life.tick(m.Wait)
		case "commit":
			w.life.commit()
		case "abort":
			w.life.abort()
		case "crash":
			w.crash()
		}
	}
	w.settle()
	return w.check()
}

// TestModel is requirements H1 to H4 in every interleaving of requests, duplicates, conflicts, failures of the
// gateway, aborts and crashes: no effect happens twice, and none is lost.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g := newGateway()
		if err := newWorld(t, g, effect.Lookup(g.find)).play(moves.Draw(rt, "history")); err != nil {
			rt.Fatal(err)
		}
	})
}

// TestModelFindsBrokenLedgers is the control: a ledger that repeats blindly, and one whose claims come back before
// they are committed, are found.
func TestModelFindsBrokenLedgers(t *testing.T) {
	broken := map[string]func(g *gateway) *world{
		"repeats blindly": func(g *gateway) *world { return newWorld(t, g, effect.Repeatable()) },
		"calls before the claim is committed": func(g *gateway) *world {
			w := newWorld(t, g, effect.Lookup(g.find))
			w.early = true
			return w
		},
	}
	for name, open := range broken {
		found := false
		for seed := range 100 {
			found = found || open(newGateway()).play(moves.Example(seed)) != nil
		}
		if !found {
			t.Errorf("a ledger that %s passes", name)
		}
	}
}
