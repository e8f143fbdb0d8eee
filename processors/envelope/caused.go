package envelope

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"

	"github.com/onceward/onceward/processors/internal/identity"
	"github.com/onceward/onceward/topology"
)

// DerivedID returns the id of what is emitted because of cause, in that role: 32 hexadecimal digits
// that depend on nothing else, and so are the same whenever and wherever it is emitted. Two outputs
// of one cause have two roles. The digits are the first half of the SHA-256 of both texts, each
// behind its length, and never change.
func DerivedID(cause, role string) string {
	h := sha256.New()
	for _, text := range []string{cause, role} {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(text)))
		h.Write(length[:])
		h.Write([]byte(text))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Caused passes every record on as a message of its own: with a message id that is derived from
// that of its cause and the name of the operator, with the cause's id as the causation id, and with
// the correlation id that it has, or that of the cause where it has none. An event id and an
// idempotency key, where the record has them, are replaced by what is derived from them and the
// name: what was caused has happened besides, and is to be done besides, and whoever dedupes two
// outputs of one cause by either would else drop one of them. The function cause returns the id of
// the record's cause, as [MessageID] or [EventID] do. A record without one fails (Validation), as
// does what the function refuses without a class.
//
// Of several records that come from one cause each needs an operator, or a cause, of its own;
// otherwise they have one id.
func Caused[K, V any](
	s topology.Stream[K, V], name string, cause func(r topology.Record[K, V]) (string, error), opts ...topology.NodeOption,
) topology.Stream[K, V] {
	var caused func(r topology.Record[K, V]) ([]topology.Header, error)
	if cause != nil { // MapHeaders reports that it is
		caused = func(r topology.Record[K, V]) ([]topology.Header, error) {
			id, err := cause(r)
			if err != nil {
				return nil, identity.Refused(err)
			}
			if err := identity.CheckID(id); err != nil {
				return nil, err
			}
			return stamp(r, id, name), nil
		}
	}
	return topology.MapHeaders(s, name, caused, opts...)
}

// stamp returns the headers of r as the message that cause has led to in that role.
func stamp[K, V any](r topology.Record[K, V], cause, role string) []topology.Header {
	correlation := text(r, HeaderCorrelationID, cloudCorrelationID)
	if correlation == "" {
		correlation = cause
	}
	event, key := text(r, HeaderEventID, cloudEventID), text(r, HeaderIdempotencyKey, "")
	headers := make([]topology.Header, 0, len(r.Headers)+3)
	for _, h := range r.Headers {
		switch h.Key {
		case HeaderEventID, cloudEventID:
			if event != "" {
				h.Value = []byte(DerivedID(event, role))
			}
			headers = append(headers, h)
		case HeaderIdempotencyKey:
			if key != "" {
				h.Value = []byte(DerivedID(key, role))
			}
			headers = append(headers, h)
		case HeaderMessageID, HeaderCausationID, HeaderCorrelationID, cloudCausationID:
		default:
			headers = append(headers, h)
		}
	}
	headers = append(headers,
		topology.Header{Key: HeaderMessageID, Value: []byte(DerivedID(cause, role))},
		topology.Header{Key: HeaderCausationID, Value: []byte(cause)},
		topology.Header{Key: HeaderCorrelationID, Value: []byte(correlation)})
	return slices.Clip(headers)
}
