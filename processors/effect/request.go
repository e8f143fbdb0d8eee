package effect

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"github.com/onceward/onceward/processors/internal/identity"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// PayloadBytesMax is how large the payload and the headers of a request may be together: they are
// kept with the effect, because a call can be made again after a restart.
const PayloadBytesMax = 256 << 10

const (
	errPayload  = schemas.Reason("payload and headers of the request have more than 256 KiB")
	errConflict = schemas.Reason("the effect was requested before with another payload, type, target, business or idempotency key")
)

// Request is what a record asks for.
type Request struct {
	// ID names the effect: valid UTF-8 of 1 to 1024 bytes, chosen by whoever wants the effect, such
	// as the id of the command. It is the same in every copy of the request.
	ID string
	// Type and Target are for the call and for people: what is to happen, and where.
	Type, Target string
	// BusinessKey is what the effect is about, such as the number of an order; it may be empty.
	BusinessKey string
	// IdempotencyKey goes to the provider with every call of the effect. If it is empty it is
	// [IdempotencyKey] of the processor's name and ID.
	IdempotencyKey string
	// Payload is handed to the call. A request with the same ID and other bytes is a conflict,
	// unless [PayloadJSON] compares the documents.
	Payload []byte
}

// IdempotencyKey returns the key under which providers know the effect with that id: 32 hexadecimal
// digits that follow from the processor's name and the id. The application id is no part of it, so
// that the next version of an application, which runs under another one, does not look like another
// customer.
func IdempotencyKey(name, id string) string {
	h := sha256.New()
	writeStrings(h, "onceward effect 1", name, id)
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// writeStrings writes strings so that no two lists are written alike. A hash never returns an
// error.
func writeStrings(h interface{ Write(p []byte) (int, error) }, list ...string) {
	var length []byte
	for _, s := range list {
		length = binary.AppendUvarint(length[:0], uint64(len(s)))
		_, _ = h.Write(length)
		_, _ = h.Write([]byte(s))
	}
}

// check returns a Validation failure for a request that cannot be kept.
func (q *Request) check(headers []topology.Header) error {
	if err := identity.CheckID(q.ID); err != nil {
		return err
	}
	for _, s := range []string{q.Type, q.Target, q.BusinessKey, q.IdempotencyKey} {
		if s != "" {
			if err := identity.CheckID(s); err != nil {
				return err
			}
		}
	}
	size := len(q.Payload)
	for _, h := range headers {
		size += len(h.Key) + len(h.Value)
	}
	if size > PayloadBytesMax {
		return topology.Fail(topology.Validation, errPayload)
	}
	return nil
}

// hash returns what tells two requests under one id apart.
func (q *Request) hash(canonical bool) (string, error) {
	payload := sha256.Sum256(q.Payload)
	if canonical {
		var err error
		if payload, err = schemas.HashJSON(q.Payload); err != nil {
			return "", topology.Fail(topology.Validation, err)
		}
	}
	h := sha256.New()
	writeStrings(h, q.Type, q.Target, q.BusinessKey, q.IdempotencyKey, string(payload[:]))
	return hex.EncodeToString(h.Sum(nil)), nil
}
