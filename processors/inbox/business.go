package inbox

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"unicode/utf8"

	"github.com/onceward/onceward/processors/internal/identity"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
)

// HeaderFirstID is the header of duplicates and conflicts that a [BusinessKey] has found: the id of
// the record that had the key first, empty if it had none.
const HeaderFirstID = "onceward.inbox.first-id"

const (
	errBusinessConflict = schemas.Reason("the business key was seen before, under another id and with another payload")
	errBusinessKey      = schemas.Reason("the business key is not valid UTF-8 of at most 1024 bytes")
)

// BusinessKey guards the fact beside its id: what has the business key of an accepted record, and
// an id that was not seen, is a duplicate if the payload is the same and a conflict if it is not.
// The payload has to be declared without the id, with [PayloadWithout] or [PayloadHash]; otherwise
// whatever comes under a new id is a conflict.
//
// The function returns "" for a record that has no business key and so is not guarded. Its error is
// of class Validation unless it has a class. K and V must be the types of the stream. The keys are
// in a store of their own, <name>-business.
func BusinessKey[K, V any](f func(r topology.Record[K, V]) (string, error)) Option {
	return func(s *settings) error {
		switch {
		case f == nil:
			return fmt.Errorf("BusinessKey: %w", errNilFunction)
		case s.business != nil:
			return fmt.Errorf("BusinessKey: %w", errTwice)
		}
		s.business = reader[K, V](f)
		return nil
	}
}

// Claim is what an inbox knows of a business key.
type Claim struct {
	// ID is that of the record that had the key first, empty if it had none.
	ID string `json:"id"`
	// FirstSeen is the timestamp of that record, in milliseconds since the epoch.
	FirstSeen int64 `json:"first_seen"`
	// Payload is the hash of its payload, zero if its value was null.
	Payload [32]byte `json:"-"`
}

// guard is the business key of one task.
type guard[K, V any] struct {
	key    reader[K, V]
	claims *memory[Claim]
}

// holder returns who has the business key of r, and takes nothing.
func (g *guard[K, V]) holder(r topology.Record[K, V]) (Claim, bool, error) {
	key, err := g.key(r)
	switch {
	case err != nil:
		return Claim{}, false, identity.Refused(err)
	case key == "":
		return Claim{}, false, nil
	}
	return g.claims.get(key)
}

// claim takes the business key of r for id, or returns who has it already.
func (g *guard[K, V]) claim(r topology.Record[K, V], id string, payload [32]byte) (Claim, state.Presence, error) {
	key, err := g.key(r)
	switch {
	case err != nil:
		return Claim{}, 0, identity.Refused(err)
	case key == "":
		return Claim{}, state.Absent, nil
	case len(key) > identity.IDBytesMax || !utf8.ValidString(key):
		return Claim{}, 0, topology.Fail(topology.Validation, errBusinessKey)
	}
	own := Claim{ID: id, FirstSeen: r.Timestamp, Payload: payload}
	var holder Claim
	p, err := g.claims.putIfAbsent(key, &own, &holder, r.Timestamp)
	return holder, p, err
}

// businessReader returns the declared business key with its types, nil if there is none. The error
// is a mistake of the declaration.
func businessReader[K, V any](declared any) (reader[K, V], error) {
	if declared == nil {
		return nil, nil //nolint:nilnil // an inbox needs none
	}
	if read, ok := declared.(reader[K, V]); ok {
		return read, nil
	}
	return nil, fmt.Errorf("BusinessKey: the function is for other types than those of the stream, whose keys are %s "+
		"and values %s", reflect.TypeFor[K](), reflect.TypeFor[V]())
}

const (
	claimFormat      = 1
	claimHeaderBytes = 41
)

type claimCodec struct{}

func (claimCodec) Name() string { return "inbox-claim-1" }

func (c claimCodec) Append(dst []byte, v Claim) ([]byte, error) {
	if len(v.ID) > identity.IDBytesMax || !utf8.ValidString(v.ID) {
		return dst, codecError(c.Name(), schemas.OpAppend, -1, "not an id")
	}
	dst = binary.BigEndian.AppendUint64(append(dst, claimFormat), uint64(v.FirstSeen))
	return append(append(dst, v.Payload[:]...), v.ID...), nil
}

func (c claimCodec) Decode(b []byte) (Claim, error) {
	fail := func(offset int, reason string) (Claim, error) {
		return Claim{}, codecError(c.Name(), schemas.OpDecode, offset, reason)
	}
	switch {
	case len(b) > 0 && b[0] != claimFormat:
		return fail(0, "the row has a format that this build does not read")
	case len(b) < claimHeaderBytes:
		return fail(len(b), "the row is too short")
	}
	id := b[claimHeaderBytes:]
	if len(id) > identity.IDBytesMax || !utf8.Valid(id) {
		return fail(claimHeaderBytes, "not an id")
	}
	v := Claim{ID: string(id), FirstSeen: int64(binary.BigEndian.Uint64(b[1:9]))}
	copy(v.Payload[:], b[9:claimHeaderBytes])
	return v, nil
}
