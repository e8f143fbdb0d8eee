package inbox

import (
	"encoding/binary"
	"strconv"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// Outcome is what became of a record, as a row remembers it.
type Outcome uint8

// Accepted is the only outcome that leaves a row: a duplicate or a conflict changes nothing, and a record
// that fails leaves no trace.
const Accepted Outcome = 1

// String returns the outcome as it is counted.
func (o Outcome) String() string {
	if o == Accepted {
		return "accepted"
	}
	return "outcome(" + strconv.Itoa(int(o)) + ")"
}

// Entry is what an inbox knows of an id.
type Entry struct {
	Outcome Outcome
	// FirstSeen is the timestamp of the record that was accepted, in milliseconds since the epoch. It is the
	// record's own and not the time of processing, so that a replay gives the same row.
	FirstSeen int64
	// Payload is the hash of the record's payload, zero if its value was null.
	Payload [32]byte
}

// Store returns the store of the inbox with that name: its ids, with what is known of them.
func Store(name string) topology.StoreOf[string, Entry] {
	return topology.Store(name, schemas.String(), schemas.Codec[Entry](entryCodec{}))
}

// The stored form is described in the package documentation.
const (
	entryFormat = 1
	entryBytes  = 42
)

type entryCodec struct{}

func (entryCodec) Name() string { return "inbox-entry-1" }

func (c entryCodec) Append(dst []byte, e Entry) ([]byte, error) {
	if e.Outcome != Accepted {
		return dst, c.fail(schemas.OpAppend, -1, "the outcome leaves no row")
	}
	dst = append(dst, entryFormat, byte(e.Outcome))
	dst = binary.BigEndian.AppendUint64(dst, uint64(e.FirstSeen))
	return append(dst, e.Payload[:]...), nil
}

func (c entryCodec) Decode(b []byte) (Entry, error) {
	switch {
	case len(b) > 0 && b[0] != entryFormat:
		return Entry{}, c.fail(schemas.OpDecode, 0, "the row has a format that this build does not read")
	case len(b) != entryBytes:
		return Entry{}, c.fail(schemas.OpDecode, min(len(b), entryBytes), "the row has not 42 bytes")
	case Outcome(b[1]) != Accepted:
		return Entry{}, c.fail(schemas.OpDecode, 1, "unknown outcome")
	}
	e := Entry{Outcome: Outcome(b[1]), FirstSeen: int64(binary.BigEndian.Uint64(b[2:10]))}
	copy(e.Payload[:], b[10:])
	return e, nil
}

func (c entryCodec) fail(op string, offset int, reason string) error {
	return &schemas.Error{Codec: c.Name(), Op: op, Offset: int64(offset), Reason: reason}
}
