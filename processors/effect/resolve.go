package effect

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"

	"github.com/onceward/onceward/processors/decision"
	"github.com/onceward/onceward/processors/internal/identity"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// Resolution is what a person has found out about an effect. It has a JSON form, so that
// schemas.JSON[effect.Resolution]() is a codec for a topic of them.
type Resolution struct {
	ID string `json:"id"`
	// Attempts is that of the [Result] that was judged: what is said of one attempt must not be
	// taken for the next one.
	Attempts int `json:"attempts"`
	// Status is Completed, FailedTerminal, or FailedRetryable, which has the call made again.
	Status Status `json:"status"`
	// Response is what the provider has answered, as far as that is known.
	Response []byte `json:"response,omitzero"`
	// By is who says so, 1024 bytes at most, and Note why, [NoteBytesMax] at most. Both are kept
	// with the effect.
	By   string `json:"by"`
	Note string `json:"note,omitzero"`
}

// NoteBytesMax is how long the note of a [Resolution] may be.
const NoteBytesMax = 4096

const (
	errResolution = schemas.Reason(
		"a resolution has the status COMPLETED, FAILED_TERMINAL or FAILED_RETRYABLE, and says who says so")
	errAttempts = schemas.Reason("the resolution is about another attempt than the last one of the effect")
	errNoEffect = schemas.Reason("there is no effect with that id")
	errNotOpen  = schemas.Reason("the effect is not one of which the outcome is unknown or which was suppressed")
	errNote     = schemas.Reason("the note of the resolution has more than 4096 bytes")
	errLooking  = schemas.Reason("the effect is being looked up; what is not known after that can be resolved")
)

// Resolutions are what [Resolve] has declared.
type Resolutions struct{ decisions decision.Outlet }

// Decisions returns what people have decided, for evidence: one for each resolution that did not
// fail. Its row is that of the effect, and By and Note are those of the resolution.
func (r Resolutions) Decisions() topology.Stream[[]byte, decision.Decision] {
	return r.decisions.Stream()
}

// Resolve declares a node of that name at which people end effects with an unknown outcome. The
// stream has the keys of the stream of requests and as many partitions, because a resolution must
// reach the task of its request.
//
// It ends effects that are Unknown and have no lookup or repetition planned, and Suppressed ones.
// Their result is emitted as if the program had found it. A resolution is a Conflict failure if it
// is for any other effect, for one that is being looked up, or for another attempt than the last
// one. So it cannot overrule a known outcome. A copy of an accepted resolution is only counted as a
// duplicate.
func Resolve[K, V any](e Effects[K, V], s topology.Stream[K, Resolution], name string) Resolutions {
	node := topology.Stateful(s, name, e.parts.stores()...)
	decisions := decision.Declare(node)
	node.Clause(topology.KeyAssumption, "a resolution has the key of its request, and its topic as many partitions as that of the requests").
		Clause(topology.IdempotencyKey, "all that the resolution says; another one about an effect that has ended is a conflict").
		Clause(topology.OnDuplicate, "a resolution that was taken is counted and changes nothing").
		Clause(topology.OutOfOrder, "a resolution of another attempt than the last one is a conflict")
	node.Process(func(t *topology.Setup) (topology.Handler[K, Resolution], error) {
		a, resolved, duplicates := newAgent(t, e.parts), t.Counter("resolved"), t.Counter("duplicates")
		log := decisions.In(t)
		return func(c *topology.Context, r topology.Record[K, Resolution]) error {
			v := r.Value
			taken, err := a.resolve(v)
			if err != nil {
				return err
			}
			counter, outcome := duplicates, "duplicates"
			if taken {
				counter, outcome = resolved, "resolved"
			}
			counter.Inc()
			if log == nil {
				return nil
			}
			return log(c, decision.Decision{
				Outcome: outcome, Reason: v.Status.String() + " after attempt " + strconv.Itoa(v.Attempts), Store: e.name,
				Row: []byte(v.ID), Subject: v.ID, By: v.By, Note: v.Note,
			})
		}, nil
	})
	return Resolutions{decisions}
}

// Check returns a Validation failure for what is no resolution of any effect.
func (v *Resolution) Check() error {
	if err := identity.CheckID(v.ID); err != nil {
		return err
	}
	if !v.Status.ended() && v.Status != FailedRetryable || v.By == "" || len(v.By) > identity.IDBytesMax {
		return topology.Fail(topology.Validation, errResolution)
	}
	if len(v.Note) > NoteBytesMax {
		return topology.Fail(topology.Validation, errNote)
	}
	return nil
}

// Accepts says what [Resolve] makes of a resolution while the effect is as it is: it has taken it
// before, or refuses it with a Conflict failure, or takes it. Whether a lookup is claimed, during
// which it refuses all, is not in the row.
func (e *Effect) Accepts(v *Resolution) (before bool, err error) {
	switch {
	case slices.Contains(e.Resolutions, v.hash()):
		return true, nil
	case e.Due != 0 || e.Status != Unknown && e.Status != Suppressed:
		return false, topology.Fail(topology.Conflict, errNotOpen)
	case e.Attempts != v.Attempts:
		return false, topology.Fail(topology.Conflict, errAttempts)
	}
	return false, nil
}

// resolve takes a resolution, and reports false for a copy of one that was taken before.
func (a *agent) resolve(v Resolution) (taken bool, err error) {
	if err := v.Check(); err != nil {
		return false, err
	}
	effect, has, err := a.effects.Get(v.ID)
	switch {
	case err != nil:
		return false, err
	case !has:
		return false, topology.Fail(topology.Validation, errNoEffect)
	}
	if before, err := effect.Accepts(&v); before || err != nil {
		return false, err
	}
	for pair, err := range a.claims.All() {
		switch {
		case err != nil:
			return false, err
		case pair.Value.names(v.ID):
			// A lookup is claimed. Its answer comes to this task, which would do nothing else while
			// the resolution is tried again.
			return false, topology.Fail(topology.Conflict, errLooking)
		}
	}
	effect.Status, effect.Reason, effect.Doubt = v.Status, "a person has said so", false
	effect.ResolvedBy, effect.ResolvedNote = v.By, v.Note
	effect.Resolutions, effect.Lookups = append(effect.Resolutions, v.hash()), 0
	effect.answer(v.Response)
	return true, a.put(v.ID, effect, a.soon()) // the next tick tells it, or claims the call
}

// hash returns what tells two resolutions of one effect apart: everything in them.
func (v *Resolution) hash() string {
	h := sha256.New()
	writeStrings(h, v.Status.String(), strconv.Itoa(v.Attempts), v.By, v.Note, string(v.Response))
	return hex.EncodeToString(h.Sum(nil))
}

func (c *claim) names(id string) bool {
	for _, s := range c.Steps {
		if s.ID == id {
			return true
		}
	}
	return false
}
