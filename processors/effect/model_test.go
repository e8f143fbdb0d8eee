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
			"request", "request", "work", "work", "work", "tick", "tick", "commit", "commit", "abort", "crash", "deploy",
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
		case "deploy":
			if len(w.versions) > 0 {
				w.deploy(w.options(w.versions[m.Amount%len(w.versions)])...)
			}
		}
		if err := w.honest(); err != nil {
			return err
		}
	}
	w.settle()
	return w.check()
}

// TestModel is requirements H1 to H4 in every interleaving of requests, duplicates, conflicts,
// failures of the gateway, aborts, crashes and deployments of versions with other options. No
// effect happens twice, none is lost, and none that has happened is reported as failed.
func TestModel(t *testing.T) {
	gateways := map[string]func() *world{
		"a lookup":             func() *world { return lookingUp(t) },
		"idempotent":           func() *world { return repeating(t) },
		"a lookup, none":       func() *world { return lookingUp(t, looksUp, asksPeople) },
		"idempotent, none":     func() *world { return repeating(t, repeats, asksPeople) },
		"idempotent, a lookup": func() *world { return repeating(t, repeats, looksUp) },
	}
	for name, open := range gateways {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				if err := open().play(moves.Draw(rt, "history")); err != nil {
					rt.Fatal(err)
				}
			})
		})
	}
}

// lookingUp returns a world with a gateway that can only be asked, and the versions that a history
// can deploy.
func lookingUp(t *testing.T, versions ...answer) *world {
	g := newGateway()
	w := newWorld(t, g, effect.Lookup(g.find))
	w.versions = versions
	return w
}

// repeating returns a world with a gateway that can be called again.
func repeating(t *testing.T, versions ...answer) *world {
	g := newGateway()
	g.idempotent = true
	w := newWorld(t, g, effect.Repeatable(), effect.Retry(3, time.Second, time.Minute))
	w.versions = versions
	return w
}

// TestModelFindsBrokenLedgers is the control. The model finds broken ledgers: one that repeats
// blindly, at once or in its next version; one that ignores possible earlier calls; and one whose
// claims come back before they are committed.
func TestModelFindsBrokenLedgers(t *testing.T) {
	broken := map[string]func(g *gateway) *world{
		"repeats blindly": func(g *gateway) *world { return newWorld(t, g, effect.Repeatable()) },
		"drops its doubts": func(*gateway) *world {
			w := repeating(t)
			w.dropsDoubts = true
			return w
		},
		"repeats blindly in its next version": func(*gateway) *world { return lookingUp(t, looksUp, repeats) },
		"calls before the claim is committed": func(g *gateway) *world {
			w := newWorld(t, g, effect.Lookup(g.find))
			w.early = true
			return w
		},
	}
	for name, open := range broken {
		found := false
		for seed := 0; seed < 300 && !found; seed++ {
			found = open(newGateway()).play(moves.Example(seed)) != nil
		}
		if !found {
			t.Errorf("a ledger that %s passes", name)
		}
	}
}
