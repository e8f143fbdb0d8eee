package inbox

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
)

// Outcome is what became of the first record with an id, as a row remembers it. A later one changes
// nothing, and a record that fails leaves no trace.
type Outcome uint8

// The outcomes that leave a row. All but the first come from a [BusinessKey].
const (
	// Accepted: the record had its effect.
	Accepted Outcome = iota + 1
	// Repeated: the record said, under an id of its own, what another one had said before. It had
	// no effect.
	Repeated
	// Disputed: the record had the business key of another one, said something else, and went to
	// Conflicts. It had no effect.
	Disputed
)

var outcomes = [...]struct {
	name   string
	status Status
}{Accepted: {"accepted", Processed}, Repeated: {"repeated", Duplicate}, Disputed: {"disputed", Quarantined}}

func (o Outcome) known() bool { return o >= Accepted && o <= Disputed }

// String returns the outcome in lower case.
func (o Outcome) String() string {
	if o.known() {
		return outcomes[o].name
	}
	return "outcome(" + strconv.Itoa(int(o)) + ")"
}

// Status returns what the outcome is to an operator, 0 for what is no outcome.
func (o Outcome) Status() Status {
	if o.known() {
		return outcomes[o].status
	}
	return 0
}

// Entry is what an inbox knows of an id.
type Entry struct {
	Outcome Outcome
	// FirstSeen is the timestamp of the first record with the id, in milliseconds since the epoch.
	// It is the record's own and not the time of processing, so that a replay gives the same row.
	FirstSeen int64
	// Payload is the hash of the record's payload, zero if its value was null.
	Payload [32]byte
}

// entryJSON is the JSON form of an Entry, which `onceward state` shows. Its fields stay.
type entryJSON struct {
	Status    string `json:"status"`
	Outcome   string `json:"outcome"`
	FirstSeen int64  `json:"first_seen"`
	Payload   string `json:"payload"`
}

// MarshalJSON returns status, outcome, the first sight in milliseconds, and the hash in hexadecimal
// digits.
func (e Entry) MarshalJSON() ([]byte, error) {
	return json.Marshal(entryJSON{
		Status: e.Outcome.Status().String(), Outcome: e.Outcome.String(), FirstSeen: e.FirstSeen,
		Payload: hex.EncodeToString(e.Payload[:]),
	})
}

// UnmarshalJSON reads what MarshalJSON writes. The status follows from the outcome and is not read.
func (e *Entry) UnmarshalJSON(b []byte) error {
	var form entryJSON
	if err := json.Unmarshal(b, &form); err != nil {
		return err
	}
	read := Entry{FirstSeen: form.FirstSeen}
	for o := Accepted; o.known(); o++ {
		if o.String() == form.Outcome {
			read.Outcome = o
		}
	}
	payload, err := hex.DecodeString(form.Payload)
	if err != nil || len(payload) != len(read.Payload) || !read.Outcome.known() {
		return schemas.Reason("not the JSON form of an inbox entry")
	}
	copy(read.Payload[:], payload)
	*e = read
	return nil
}

// Store returns the store of the inbox with that name: its ids, with what is known of them. An
// inbox with [Retain] has a [RetainedStore] instead.
func Store(name string) topology.Store[state.KeyValue[string, Entry]] {
	return topology.KeyValueStore(name, schemas.String(), EntryCodec())
}

// EntryCodec returns the codec of entries, for stores and for the topic of an [Archive]. Its name
// is "inbox-entry-1".
func EntryCodec() schemas.Codec[Entry] { return entryCodec{} }

// The stored form is described in the package documentation.
const (
	entryFormat = 1
	entryBytes  = 42
)

type entryCodec struct{}

func (entryCodec) Name() string { return "inbox-entry-1" }

func (c entryCodec) Append(dst []byte, e Entry) ([]byte, error) {
	if !e.Outcome.known() {
		return dst, codecError(c.Name(), schemas.OpAppend, -1, "the outcome leaves no row")
	}
	dst = append(dst, entryFormat, byte(e.Outcome))
	dst = binary.BigEndian.AppendUint64(dst, uint64(e.FirstSeen))
	return append(dst, e.Payload[:]...), nil
}

func (c entryCodec) Decode(b []byte) (Entry, error) {
	switch {
	case len(b) > 0 && b[0] != entryFormat:
		return Entry{}, codecError(c.Name(), schemas.OpDecode, 0, "the row has a format that this build does not read")
	case len(b) != entryBytes:
		return Entry{}, codecError(c.Name(), schemas.OpDecode, min(len(b), entryBytes),
			fmt.Sprintf("the row has not %d bytes", entryBytes))
	case !Outcome(b[1]).known():
		return Entry{}, codecError(c.Name(), schemas.OpDecode, 1, "unknown outcome")
	}
	e := Entry{Outcome: Outcome(b[1]), FirstSeen: int64(binary.BigEndian.Uint64(b[2:10]))}
	copy(e.Payload[:], b[10:])
	return e, nil
}

func codecError(codec, op string, offset int, reason string) error {
	return &schemas.Error{Codec: codec, Op: op, Offset: int64(offset), Reason: reason}
}
