package effect

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"

	"github.com/onceward/onceward/processors/internal/identity"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// Resolution is what a person has found out about an effect. It has a JSON form, so that
// schemas.JSON[effect.Resolution]() is a codec for a topic of them.
type Resolution struct {
	ID string `json:"id"`
	// Attempts is that of the [Result] that was judged: what is said of one attempt must not be taken for the next one.
	Attempts int `json:"attempts"`
	// Status is Completed, FailedTerminal, or FailedRetryable, which has the call made again.
	Status Status `json:"status"`
	// Response is what the provider has answered, as far as that is known.
	Response []byte `json:"response,omitzero"`
	// By is who says so, and Note why.
	By   string `json:"by"`
	Note string `json:"note,omitzero"`
}

const (
	errResolution = schemas.Reason(
		"a resolution has the status COMPLETED, FAILED_TERMINAL or FAILED_RETRYABLE, and says who says so")
	errAttempts = schemas.Reason("the resolution is about another attempt than the last one of the effect")
	errNoEffect = schemas.Reason("there is no effect with that id")
	errNotOpen  = schemas.Reason("the effect is not one of which the outcome is unknown or which was suppressed")
)

// Resolve declares a node of that name at which people end what nobody knows. The stream has the keys of the stream
// of requests and as many partitions: a resolution is looked for where its request was.
//
// It ends effects that are Unknown and have no lookup or repetition before them, and Suppressed ones; their result is
// told as if the program had found it out. A resolution of any other effect, or of another attempt than the last one,
// is a Conflict failure, so that nobody overrules what is known. A copy of a resolution that was taken is counted under
// duplicates, and nothing more.
func Resolve[K, V any](e Effects[K, V], s topology.Stream[K, Resolution], name string) {
	node := topology.Stateful(s, name, e.parts.stores()...)
	node.Process(func(t *topology.Setup) (topology.Handler[K, Resolution], error) {
		a, resolved, duplicates := newAgent(t, e.parts), t.Counter("resolved"), t.Counter("duplicates")
		return func(_ *topology.Context, r topology.Record[K, Resolution]) error {
			taken, err := a.resolve(r.Value)
			switch {
			case err != nil:
				return err
			case taken:
				resolved.Inc()
			default:
				duplicates.Inc()
			}
			return nil
		}, nil
	})
}

// resolve takes a resolution, and reports false for a copy of one that was taken before.
func (a *agent) resolve(v Resolution) (taken bool, err error) {
	if err := identity.CheckID(v.ID); err != nil {
		return false, err
	}
	if !v.Status.ended() && v.Status != FailedRetryable || v.By == "" || len(v.By) > identity.IDBytesMax {
		return false, topology.Fail(topology.Validation, errResolution)
	}
	hash := v.hash()
	effect, has, err := a.effects.Get(v.ID)
	switch {
	case err != nil:
		return false, err
	case !has:
		return false, topology.Fail(topology.Validation, errNoEffect)
	case slices.Contains(effect.Resolutions, hash):
		return false, nil
	case effect.Due != 0 || effect.Status != Unknown && effect.Status != Suppressed:
		return false, topology.Fail(topology.Conflict, errNotOpen)
	case effect.Attempts != v.Attempts:
		return false, topology.Fail(topology.Conflict, errAttempts)
	}
	for pair, err := range a.claims.All() {
		switch {
		case err != nil:
			return false, err
		case pair.Value.names(v.ID): // a lookup is claimed, and answers later
			return false, topology.Fail(topology.Transient, errNotOpen)
		}
	}
	effect.Status, effect.Reason, effect.Doubt = v.Status, "a person has said so", false
	effect.ResolvedBy, effect.Resolutions, effect.Lookups = v.By, append(effect.Resolutions, hash), 0
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
