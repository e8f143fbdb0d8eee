package effect_test

import (
	"testing"
	"time"

	"github.com/onceward/onceward/processors/effect"
)

// begun returns a world with a request whose claim is not committed yet.
func begun(t *testing.T, next ...behaviour) *world {
	t.Helper()
	g := newGateway(next...)
	w := newWorld(t, g, effect.Lookup(g.find))
	w.request("c1", 10)
	w.life.work()
	w.life.commit()
	w.life.tick(time.Second)
	return w
}

// ended lets a world come to its end and fails the test unless the effect was called so often, and
// captured once.
func (w *world) ended(t *testing.T, calls int) {
	t.Helper()
	w.settle()
	if err := w.check(); err != nil {
		t.Fatal(err)
	}
	if n, captured := w.gateway.count("c1"); n != calls || captured != 1 {
		t.Errorf("there were %d calls and %d captures, want %d and 1", n, captured, calls)
	}
}

// step takes all records, claims what is due after a time, and takes the steps of the claim.
func (w *world) step(after time.Duration) {
	for w.life.work() {
	}
	w.life.tick(after)
	w.life.commit()
	for w.life.work() {
	}
	w.life.commit()
}

// row returns the row of an effect.
func (w *world) row(t *testing.T, id string) effect.Effect {
	t.Helper()
	e, has, err := w.life.rows().Get(id)
	if err != nil || !has {
		t.Fatalf("there is no row; error %v", err)
	}
	return e
}

func (w *world) called(t *testing.T, want int) {
	t.Helper()
	if n, _ := w.gateway.count("c1"); n != want {
		t.Fatalf("there were %d calls, want %d", n, want)
	}
}

// The tests of crash windows are requirements H1 and H3: one for each line of the table in the
// package documentation.

func TestCrashBeforeTheClaimIsCommitted(t *testing.T) {
	w := begun(t)
	w.life.work()
	w.called(t, 0)
	w.crash()
	w.ended(t, 1)
}

func TestCrashBeforeTheCall(t *testing.T) {
	w := begun(t)
	w.life.commit()
	w.crash()
	w.life.work()
	w.life.commit()
	w.called(t, 0) // the claim is another opening's
	w.life.tick(50 * time.Second)
	w.life.commit()
	w.called(t, 0) // and has not expired: it holds for 30 s, and 30 s of grace follow
	w.ended(t, 1)
}

// TestCrashBeforeTheOutcomeIsCommitted is requirement H1: a call cannot be taken back with its
// transaction. It was made, and nothing of it is known but what the lookup says.
func TestCrashBeforeTheOutcomeIsCommitted(t *testing.T) {
	w := begun(t)
	w.life.commit()
	w.life.work()
	w.called(t, 1)
	w.crash()
	w.life.work()
	w.life.commit()
	w.called(t, 1)
	w.ended(t, 1)
}

// TestAbortOfTheOutcome: the process lives, and must not call again. It needs no lookup either.
func TestAbortOfTheOutcome(t *testing.T) {
	w := begun(t)
	w.life.commit()
	for range 3 {
		w.life.work()
		w.called(t, 1)
		w.life.abort()
	}
	w.life.commit()
	if len(w.results) != 1 || w.results[0].Status != effect.Completed {
		t.Errorf("the results are %+v", w.results)
	}
	w.ended(t, 1)
}

// TestAbortOfTheClaim: the claim that was never committed is never used.
func TestAbortOfTheClaim(t *testing.T) {
	w := begun(t)
	w.life.abort()
	w.life.work()
	w.called(t, 0)
	w.life.abort()
	w.life.commit()
	w.called(t, 0)
	w.ended(t, 1)
}

// TestZombie is requirement H3: an opening that was cut off goes on with its claim, and so does its
// successor. No call of the one overlaps with one of the other, and what was captured is found. Row
// of the failure matrix: worker frozen past its session and back.
func TestZombie(t *testing.T) {
	w := begun(t)
	w.life.commit()
	zombie := w.life
	w.life = w.open()
	w.life.work()
	w.life.commit()
	w.called(t, 0)
	zombie.work() // within its claim
	w.called(t, 1)
	w.ended(t, 1)
}

// TestZombieAfterItsClaim has woken up too late, and knows.
// Row of the failure matrix: worker frozen past its session and back.
func TestZombieAfterItsClaim(t *testing.T) {
	w := begun(t)
	w.life.commit()
	zombie := w.life
	w.life = w.open()
	w.now = w.now.Add(28 * time.Second) // the claim holds for two seconds more, and a call may take three
	zombie.work()
	w.called(t, 0)
	w.ended(t, 1)
}

// TestClaimThatCameLate is given back by its own opening, which knows that no call was made.
func TestClaimThatCameLate(t *testing.T) {
	w := begun(t)
	w.life.commit()
	w.now = w.now.Add(time.Hour)
	w.life.work()
	w.life.commit()
	w.called(t, 0)
	w.life.tick(time.Second)
	w.life.commit()
	w.life.work()
	w.life.commit()
	w.called(t, 1)
	if r := w.results[0]; r.Status != effect.Completed || r.Attempts != 1 {
		t.Errorf("the result is %+v", r)
	}
}

// TestNextOpeningGoesOn: what an opening has left waits for its claim, and nothing else does.
func TestNextOpeningGoesOn(t *testing.T) {
	w := begun(t)
	w.life.commit()
	w.crash()
	w.request("c2", 1)
	w.life.work()
	w.life.work()
	w.life.tick(time.Second)
	w.life.commit()
	w.life.work()
	w.life.commit()
	if calls, _ := w.gateway.count("c2"); calls != 1 {
		t.Errorf("there were %d calls of the second request", calls)
	}
	w.called(t, 0)
	w.ended(t, 1)
}

// TestAbortOfTheExpiry: the claim of an opening that is gone expires again.
func TestAbortOfTheExpiry(t *testing.T) {
	w := begun(t)
	w.life.commit()
	w.crash()
	w.life.tick(2 * time.Minute)
	w.life.abort()
	w.crash()
	w.life.tick(time.Second)
	w.life.abort()
	w.life.commit()
	w.ended(t, 1)
}
