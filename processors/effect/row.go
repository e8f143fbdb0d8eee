package effect

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"unicode/utf8"

	"github.com/onceward/onceward/processors/internal/identity"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
)

// ResponseBytesMax is how much of a response is kept and replayed. Of a larger one only the hash
// is.
const ResponseBytesMax = 64 << 10

// Effect is a row of the side-effect ledger. Times are in milliseconds since the epoch.
type Effect struct {
	Type           string `json:"type,omitzero"`
	Target         string `json:"target,omitzero"`
	BusinessKey    string `json:"business_key,omitzero"`
	IdempotencyKey string `json:"idempotency_key"`
	Status         Status `json:"status"`
	// Reason says why it failed or is not known. It quotes nothing of request or response.
	Reason string `json:"reason,omitzero"`
	// Attempts counts the calls that were claimed, Lookups those that only asked.
	Attempts int `json:"attempts,omitzero"`
	Lookups  int `json:"lookups,omitzero"`
	// Doubt says that a call was made, or may have been, and that it is unknown whether it had its
	// effect. Three things end it: the effect has happened, a lookup has answered, or a person has
	// decided. A later call without an effect does not end it.
	Doubt bool `json:"doubt,omitzero"`
	// Request is the SHA-256 of the request in hexadecimal digits, Response that of the last
	// response, if the last call, lookup or person had one.
	Request  string `json:"request"`
	Response string `json:"response,omitzero"`
	// ResponseBody is the last response, nil if it was larger than ResponseBytesMax.
	ResponseBody []byte `json:"response_body,omitzero"`
	// Payload, Key, Headers and Timestamp are those of the request, Key as the processor's codec
	// has it.
	Payload   []byte            `json:"payload,omitzero"`
	Key       []byte            `json:"key,omitzero"`
	Headers   []topology.Header `json:"headers,omitzero"`
	Timestamp int64             `json:"timestamp"`
	// Due is when the next step is due, zero if nothing is to be done.
	Due int64 `json:"due,omitzero"`
	// ResolvedBy is who said what has become of it, if a person did, and ResolvedNote why.
	ResolvedBy   string `json:"resolved_by,omitzero"`
	ResolvedNote string `json:"resolved_note,omitzero"`
	// Resolutions are the SHA-256 of all resolutions that were taken, in hexadecimal digits, the
	// first one first.
	Resolutions []string `json:"resolutions,omitzero"`
}

// Result is what is known of an effect. It has a JSON form, so that schemas.JSON[effect.Result]()
// is a codec for topics.
type Result struct {
	ID             string `json:"id"`
	Type           string `json:"type,omitzero"`
	Target         string `json:"target,omitzero"`
	BusinessKey    string `json:"business_key,omitzero"`
	IdempotencyKey string `json:"idempotency_key"`
	Status         Status `json:"status"`
	Reason         string `json:"reason,omitzero"`
	Attempts       int    `json:"attempts,omitzero"`
	// Response is the SHA-256 of the response, ResponseBody the response unless it is too large to
	// be kept.
	Response     string `json:"response,omitzero"`
	ResponseBody []byte `json:"response_body,omitzero"`
	// ResolvedBy and ResolvedNote are who said so, if a person did, and why.
	ResolvedBy   string `json:"resolved_by,omitzero"`
	ResolvedNote string `json:"resolved_note,omitzero"`
	// Replayed says that the request was a duplicate: the result is that of the first one.
	Replayed bool `json:"replayed,omitzero"`
}

func (e *Effect) result(id string, replayed bool) Result {
	return Result{
		ID: id, Type: e.Type, Target: e.Target, BusinessKey: e.BusinessKey, IdempotencyKey: e.IdempotencyKey,
		Status: e.Status, Reason: e.Reason, Attempts: e.Attempts, Response: e.Response, ResponseBody: e.ResponseBody,
		ResolvedBy: e.ResolvedBy, ResolvedNote: e.ResolvedNote, Replayed: replayed,
	}
}

// answer notes a response, nil for none, in the place of the one before: that belongs to another
// outcome.
func (e *Effect) answer(response []byte) {
	e.Response, e.ResponseBody = "", nil
	if response == nil {
		return
	}
	sum := sha256.Sum256(response)
	e.Response = hex.EncodeToString(sum[:])
	if len(response) <= ResponseBytesMax {
		e.ResponseBody = response
	}
}

// Store returns the store of the effects of the processor with that name.
func Store(name string) topology.Store[state.KeyValue[string, Effect]] {
	return topology.KeyValueStore(name, schemas.String(), schemas.JSON[Effect]())
}

// dueKey is a row of the timer queue: when the next step of an effect is due. Rows are in the order
// of the times.
type dueKey struct {
	At int64  `json:"at"`
	ID string `json:"id"`
}

func agendaOf(name string) topology.Store[state.KeyValue[dueKey, string]] {
	return topology.KeyValueStore(name+agendaSuffix, schemas.Codec[dueKey](dueCodec{}), schemas.String())
}

// dueCodec writes the time in eight bytes, big-endian, and the id behind it.
type dueCodec struct{}

const dueBytes = 8

func (dueCodec) Name() string { return "effect-due-1" }

func (c dueCodec) Append(dst []byte, k dueKey) ([]byte, error) {
	if k.At < 0 || !isID(k.ID) {
		return dst, &schemas.Error{Codec: c.Name(), Op: schemas.OpAppend, Offset: -1, Reason: "the time or the id is none"}
	}
	return append(binary.BigEndian.AppendUint64(dst, uint64(k.At)), k.ID...), nil
}

func (c dueCodec) Decode(b []byte) (dueKey, error) {
	if len(b) < dueBytes || int64(binary.BigEndian.Uint64(b)) < 0 || !isID(string(b[dueBytes:])) {
		offset := int64(min(len(b), dueBytes))
		return dueKey{}, &schemas.Error{Codec: c.Name(), Op: schemas.OpDecode, Offset: offset, Reason: "no row of a timer queue"}
	}
	return dueKey{At: int64(binary.BigEndian.Uint64(b)), ID: string(b[dueBytes:])}, nil
}

func isID(s string) bool { return s != "" && len(s) <= identity.IDBytesMax && utf8.ValidString(s) }

// claim says which steps an opening of the task is about to take. An opening has at most one.
type claim struct {
	// Opening is the only opening that may take them.
	Opening string `json:"opening"`
	// Number counts the claims of the opening.
	Number int64 `json:"number"`
	// At is when it was made, and Expires when the last step has ended at the latest.
	At      int64  `json:"at"`
	Expires int64  `json:"expires"`
	Steps   []step `json:"steps"`
}

// step is one call, or one lookup.
type step struct {
	ID string `json:"id"`
	// Was is the status of the effect before the claim, which it has again if the step is not
	// taken.
	Was    Status `json:"was"`
	Lookup bool   `json:"lookup,omitzero"`
}

// claimsOf returns the store of claims by the names of their openings.
func claimsOf(name string) topology.Store[state.KeyValue[string, claim]] {
	return topology.KeyValueStore(name+claimsSuffix, schemas.String(), schemas.JSON[claim]())
}
