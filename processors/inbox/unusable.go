package inbox

import (
	"github.com/onceward/onceward/processors/internal/identity"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// HeaderReason is the header of missing and malformed records that tells why they have no usable
// id, as their dead letters would: see [graph.HeaderMessage]. It quotes nothing of the record.
const HeaderReason = "onceward.inbox.reason"

// unusable is why a record has no usable id.
type unusable struct {
	// missing says that it has none at all.
	missing bool
	// err is what the record fails with if it is not emitted.
	err error
}

// reason returns what can be said of it.
func (u *unusable) reason() string { return (&topology.Failure{Err: u.err}).Reason() }

// unusableID looks at what the function that reads the id has returned. It returns nil for an id.
func unusableID(id string, err error) *unusable {
	if err != nil {
		return &unusable{err: identity.Refused(err)}
	}
	if err := identity.CheckID(id); err != nil {
		return &unusable{missing: id == "", err: err}
	}
	return nil
}

// emitsUnusable reports whether such a record is emitted instead of failing. An error of another
// class than Validation is no property of the record: the id may be readable later.
func (s *settings) emitsUnusable(u *unusable) bool {
	if u.missing {
		return s.emits.missing
	}
	return s.emits.malformed && topology.ClassOf(u.err) == topology.Validation
}

// isUnusable is what becomes of a record without a usable id. It leaves no trace in the stores:
// what has no identity cannot be known again.
func (h *handler[K, V]) isUnusable(c *topology.Context, r *topology.Record[K, V], u *unusable) error {
	if !h.settings.emitsUnusable(u) {
		return u.err
	}
	outcome, counter, emit := "malformed", h.malformedCounter, h.malformed
	if u.missing {
		outcome, counter, emit = "missing", h.missingCounter, h.missing
	}
	counter.Inc()
	reason := u.reason()
	if err := h.tell(c, outcome, "", "", schemas.Reason(reason)); err != nil {
		return err
	}
	return emit(c, withHeader(*r, HeaderReason, []byte(reason)))
}
