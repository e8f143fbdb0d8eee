package pgqueue

import (
	"crypto/sha256"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// The limits of what is stored.
const (
	nameBytesMax = 200
	textBytesMax = 1024
)

// Event is what arrives.
type Event struct {
	// ID is the key: valid UTF-8 of 1 to 1024 bytes without zero bytes.
	ID string
	// Type, Subject and Source are for the handler and for people: what kind of event it is, what
	// it is about, and where it was read. They may be empty, and have the form of an id.
	Type, Subject, Source string
	// Aggregate asks for order: events of one aggregate are processed one after the other, in the
	// order in which they were stored. Empty is any order.
	Aggregate string
	Payload   []byte
	Headers   []topology.Header
	// Hash is what payloads are compared by. Zeros are the SHA-256 of Payload.
	Hash [32]byte
}

func (e *Event) check() error {
	switch {
	case e.ID == "":
		return topology.Fail(topology.Validation, schemas.Reason("the event has no id"))
	case !storable(e.ID, textBytesMax):
		return topology.Fail(topology.Validation, schemas.Reason("the event id is not valid UTF-8 of at most 1024 bytes without zero bytes"))
	case !storable(e.Aggregate, textBytesMax):
		return topology.Fail(topology.Validation, schemas.Reason("the aggregate is not valid UTF-8 of at most 1024 bytes without zero bytes"))
	case !storable(e.Type, textBytesMax), !storable(e.Subject, textBytesMax), !storable(e.Source, textBytesMax):
		return topology.Fail(topology.Validation,
			schemas.Reason("type, subject or source is not valid UTF-8 of at most 1024 bytes without zero bytes"))
	}
	return nil
}

// storable says whether PostgreSQL takes s as text of at most n bytes.
func storable(s string, n int) bool {
	return len(s) <= n && utf8.ValidString(s) && !strings.ContainsRune(s, 0)
}

func (e *Event) hash() []byte {
	if e.Hash != ([32]byte{}) {
		return e.Hash[:]
	}
	sum := sha256.Sum256(e.Payload)
	return sum[:]
}

// Entry is an event that was stored.
type Entry struct {
	// Number is the number of the entry, unique in the database.
	Number int64
	Event
	// CopyOf is the entry that came first under the id, of a duplicate or a conflict; otherwise 0.
	CopyOf int64
	Status Status
	// Attempts counts the claims that have failed or expired since the entry was stored or
	// requeued, and the one at work.
	Attempts int
	// Claims counts all claims.
	Claims     int
	ClaimedBy  string
	ReceivedAt time.Time
	// ClaimedAt, DueAt and SettledAt are zero where they have no value. DueAt is when the entry can
	// be claimed, or its claim expires.
	ClaimedAt, DueAt, SettledAt time.Time
	// Class and Reason are those of the latest failure or decision. They quote nothing of the
	// payload.
	Class  topology.Class
	Reason string
	// PayloadDropped says that a settled entry has no payload: its retention is over, the entry is
	// a duplicate, or the event had none.
	PayloadDropped bool

	expires time.Time // when the handler has to be done, by the clock of this process
}

const entryColumns = `entry, event_id, coalesce(copy_of, 0), status, event_type, subject, coalesce(aggregate, ''), source, payload_hash, payload,
	header_keys, header_values, received_at, due_at, attempts, claims, coalesce(claimed_by, ''), claimed_at, coalesce(class, ''), coalesce(reason, ''),
	settled_at`

// scanEntry reads a row of entryColumns.
func scanEntry(row pgx.CollectableRow) (e Entry, err error) {
	var hash []byte
	var keys, values [][]byte
	var class string
	var due, claimed, settled *time.Time
	err = row.Scan(&e.Number, &e.ID, &e.CopyOf, &e.Status, &e.Type, &e.Subject, &e.Aggregate, &e.Source, &hash, &e.Payload, &keys, &values,
		&e.ReceivedAt, &due, &e.Attempts, &e.Claims, &e.ClaimedBy, &claimed, &class, &e.Reason, &settled)
	if err != nil {
		return e, err
	}
	copy(e.Hash[:], hash)
	for i := range min(len(keys), len(values)) {
		e.Headers = append(e.Headers, topology.Header{Key: string(keys[i]), Value: values[i]})
	}
	for to, from := range map[*time.Time]*time.Time{&e.DueAt: due, &e.ClaimedAt: claimed, &e.SettledAt: settled} {
		if from != nil {
			*to = *from
		}
	}
	e.PayloadDropped = settled != nil && e.Payload == nil
	if class != "" {
		e.Class, err = graph.ParseClass(class)
	}
	return e, err
}

// headerArrays returns headers as the table has them.
func headerArrays(headers []topology.Header) (keys, values [][]byte) {
	keys, values = make([][]byte, len(headers)), make([][]byte, len(headers))
	for i, h := range headers {
		keys[i], values[i] = []byte(h.Key), h.Value
	}
	return keys, values
}
