package effect

import (
	"github.com/onceward/onceward/processors/internal/identity"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// Resolution is what a person has found out about an effect. It has a JSON form, so that
// schemas.JSON[effect.Resolution]() is a codec for a topic of them.
type Resolution struct {
	ID string `json:"id"`
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
	errNoEffect = schemas.Reason("there is no effect with that id")
	errNotOpen  = schemas.Reason("the effect is not one of which the outcome is unknown or which was suppressed")
)

// Resolve declares a node of that name at which people end what nobody knows. The stream has the keys of the stream
// of requests and as many partitions: a resolution is looked for where its request was.
//
// It ends effects that are Unknown and have no lookup or repetition before them, and Suppressed ones; their result is
// told as if the program had found it out. A resolution of any other effect is a Conflict failure, so that nobody
// overrules what is known.
func Resolve[K, V any](e Effects[K, V], s topology.Stream[K, Resolution], name string) {
	node := topology.Stateful(s, name, e.parts.stores()...)
	node.Process(func(t *topology.Setup) (topology.Handler[K, Resolution], error) {
		a, resolved := newAgent(t, e.parts), t.Counter("resolved")
		return func(_ *topology.Context, r topology.Record[K, Resolution]) error {
			if err := a.resolve(r.Value); err != nil {
				return err
			}
			resolved.Inc()
			return nil
		}, nil
	})
}

func (a *agent) resolve(v Resolution) error {
	if err := identity.CheckID(v.ID); err != nil {
		return err
	}
	if !v.Status.ended() && v.Status != FailedRetryable || v.By == "" || len(v.By) > identity.IDBytesMax {
		return topology.Fail(topology.Validation, errResolution)
	}
	effect, has, err := a.effects.Get(v.ID)
	switch {
	case err != nil:
		return err
	case !has:
		return topology.Fail(topology.Validation, errNoEffect)
	case effect.Due != 0 || effect.Status != Unknown && effect.Status != Suppressed:
		return topology.Fail(topology.Conflict, errNotOpen)
	}
	for pair, err := range a.claims.All() {
		switch {
		case err != nil:
			return err
		case pair.Value.names(v.ID): // a lookup is claimed, and answers later
			return topology.Fail(topology.Transient, errNotOpen)
		}
	}
	effect.Status, effect.Reason, effect.Doubt = v.Status, "a person has said so", false
	effect.ResolvedBy, effect.Lookups = v.By, 0
	effect.answer(v.Response)
	return a.put(v.ID, effect, a.soon()) // the next tick tells it, or claims the call
}

func (c *claim) names(id string) bool {
	for _, s := range c.Steps {
		if s.ID == id {
			return true
		}
	}
	return false
}
