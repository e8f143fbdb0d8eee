package effect

import (
	"crypto/rand"
	"math"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
)

// opening is what is true of this opening of the task alone. It is lost when the task moves or the
// process ends, and that is its purpose: a claim of another opening is one of which nobody knows
// whether its calls were made.
type opening struct {
	// name is unique among all openings that ever were.
	name string
	// claims counts the claims that were made, also those of rounds that were aborted.
	claims int64
	// taken is the claim whose steps were taken, and what came out: a round that runs again must
	// not take them again. One is enough, because a claim is only made when the one before is
	// committed as done.
	taken    int64
	outcomes []outcome
	// others are the openings before this one that have left a claim; found says that they were
	// looked for.
	others []string
	found  bool
	// tick is when the last tick was, in milliseconds since the epoch.
	tick int64
	// oldest is when the first step was due that a tick has found last, and left when the oldest
	// claim was made that another opening has left; 0 for none.
	oldest, left int64
	// Nothing of the agenda is due between quietFrom and quietUntil, both excluded. A tick of a
	// round that runs again is not after quietFrom, so that it looks at what the abort has put
	// back.
	quietFrom, quietUntil int64
}

func newOpening() *opening { return &opening{name: rand.Text()} }

// agent is what all nodes of the ledger do with its stores, in one task.
type agent struct {
	set     *settings
	opening *opening
	effects state.KeyValue[string, Effect]
	agenda  state.KeyValue[dueKey, string]
	claims  state.KeyValue[string, claim]
}

func newAgent(t *topology.Setup, p parts) agent {
	return agent{
		set: p.set, opening: p.shared.In(t),
		effects: p.effects.In(t), agenda: p.agenda.In(t), claims: p.claims.In(t),
	}
}

// put writes an effect whose next step is due at a time, zero for never, and moves it in the
// agenda.
func (a *agent) put(id string, e Effect, due int64) error {
	if e.Due != due {
		if e.Due != 0 {
			if err := a.agenda.Delete(dueKey{At: e.Due, ID: id}); err != nil {
				return err
			}
		}
		if due != 0 {
			if err := a.agenda.Put(dueKey{At: due, ID: id}, ""); err != nil {
				return err
			}
			a.opening.quietUntil = min(a.opening.quietUntil, due)
		}
		e.Due = due
	}
	return a.effects.Put(id, e)
}

// atOnce is before every tick. Zero is never.
const atOnce = 1

// soon is when a step is due that need not wait.
func (a *agent) soon() int64 { return max(a.opening.tick, atOnce) }

// due returns the ids of what is due at a time, the oldest first, as many as a claim holds.
func (a *agent) due(at int64) (ids []string, err error) {
	o := a.opening
	o.oldest = 0
	if o.quietFrom < at && at < o.quietUntil {
		return nil, nil
	}
	quietUntil, bytes := int64(math.MaxInt64), 0
	for pair, err := range a.agenda.All() {
		if err != nil {
			return nil, err
		}
		if pair.Key.At > at {
			quietUntil = pair.Key.At
			break
		}
		if len(ids) == 0 {
			if o.oldest = pair.Key.At; o.oldest == atOnce {
				o.oldest = at // it came before the first tick
			}
		}
		ids = append(ids, pair.Key.ID)
		bytes += len(pair.Key.ID)
		if len(ids) == stepsPerCall*a.set.parallel || bytes > claimBytesMax {
			break
		}
	}
	if len(ids) == 0 {
		o.quietFrom, o.quietUntil = at, quietUntil
	}
	return ids, nil
}

// claimBytesMax bounds the ids in a claim, which is one record.
const claimBytesMax = 128 << 10

// settle writes what a step has found out about all calls of the effect so far. It returns true if
// that is worth telling: an end, or that nobody knows. after is when the step has ended.
func (a *agent) settle(id string, e Effect, o outcome, after int64) (told Effect, tell bool, err error) {
	e.answer(o.response)
	e.Status, e.Reason, e.Doubt = o.status, o.reason, o.status == Unknown
	e.ResolvedBy, e.ResolvedNote = "", "" // a person has let it be made, and has not said how it ends
	due := int64(0)
	switch {
	case e.Status == FailedRetryable && e.Attempts < a.set.attempts:
		due = after + a.set.pause(e.Attempts).Milliseconds()
	case e.Status == FailedRetryable:
		e.Status, e.Reason = FailedTerminal, reasonLast+": "+e.Reason
	case e.Status == Unknown && a.set.mayLookUp(&e):
		due = after + a.set.pause(e.Lookups+1).Milliseconds()
	case e.Status == Unknown && a.set.lookup != nil:
		e.Reason = reasonGivenUp + ": " + e.Reason
	case e.Status == Unknown && a.set.mayRepeat(&e) && !o.refused:
		due = after + a.set.pause(e.Attempts).Milliseconds()
	}
	err = a.put(id, e, due)
	return e, due == 0, err
}

// millis returns how long it is since began, in whole milliseconds and at least one.
func millis(began time.Time) int64 { return max(time.Since(began).Milliseconds(), 1) }
