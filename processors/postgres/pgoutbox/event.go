package pgoutbox

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/processors/envelope"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// Status is the state of an entry. Its text is that of the status column.
type Status string

// The statuses.
const (
	// Pending: a relay publishes it.
	Pending Status = "PENDING"
	// Published: the brokers have it.
	Published Status = "PUBLISHED"
	// Quarantined: a person has taken it out, and later ones of its aggregate pass.
	Quarantined Status = "QUARANTINED"
)

// Statuses returns all statuses.
func Statuses() []Status { return []Status{Pending, Published, Quarantined} }

// ParseStatus returns the status of that name.
func ParseStatus(name string) (Status, error) {
	if s := Status(name); slices.Contains(Statuses(), s) {
		return s, nil
	}
	return "", fmt.Errorf("there is no status %q; the statuses are %v", name, Statuses())
}

// The limits of what is stored.
const (
	nameBytesMax  = 200
	topicBytesMax = 249
	textBytesMax  = 1024
)

// Event is what is published as one record.
type Event struct {
	// ID is that of the event, for consumers to dedupe by: valid UTF-8 of 1 to 1024 bytes without
	// zero bytes. It is the header onceward.event-id.
	ID    string
	Topic string
	// Aggregate asks for order: events of one aggregate are published one after the other, in the
	// order of the COMMITs. It has the form of an id, and is the header onceward.aggregate-id.
	// Empty is any order.
	Aggregate string
	// Key is the key of the record. Nil is the aggregate, or the id without one: copies of an event
	// have one key, and so one partition.
	Key   []byte
	Value []byte
	// Headers are added to those of the outbox, and have other keys.
	Headers []topology.Header
}

func (e *Event) check() error {
	switch {
	case e.ID == "":
		return topology.Fail(topology.Validation, schemas.Reason("the event has no id"))
	case !storable(e.ID, textBytesMax):
		return topology.Fail(topology.Validation, schemas.Reason("the event id is not valid UTF-8 of at most 1024 bytes without zero bytes"))
	case !storable(e.Aggregate, textBytesMax):
		return topology.Fail(topology.Validation, schemas.Reason("the aggregate is not valid UTF-8 of at most 1024 bytes without zero bytes"))
	case e.Topic == "" || !storable(e.Topic, topicBytesMax):
		return topology.Fail(topology.Validation, schemas.Reason("the topic is not a name of 1 to 249 bytes"))
	}
	for _, h := range e.Headers {
		if h.Key == envelope.HeaderEventID || h.Key == envelope.HeaderAggregateID {
			return topology.Fail(topology.Validation, schemas.Reason("the header "+h.Key+" is written by the outbox"))
		}
	}
	return nil
}

// storable says whether PostgreSQL takes s as text of at most n bytes.
func storable(s string, n int) bool {
	return len(s) <= n && utf8.ValidString(s) && !strings.ContainsRune(s, 0)
}

// Entry is an event in the outbox.
type Entry struct {
	// Number is the number of the entry, unique in the database.
	Number int64
	Event
	Status     Status
	AppendedAt time.Time
	// Attempts counts those that have failed. RetryAt is when the next one may be, zero if none has
	// failed.
	Attempts int
	RetryAt  time.Time
	// Class and Reason are those of the latest failure. They quote nothing of the record.
	Class  topology.Class
	Reason string
	// DecidedBy names the process that has published the event, or the person who has decided about
	// it.
	DecidedBy string
	// PublishedAt is zero before. Partition and Offset are where the record is; copies may be
	// elsewhere in the topic.
	PublishedAt time.Time
	Partition   int32
	Offset      int64
}

const entryColumns = `entry, event_id, status, coalesce(aggregate, ''), topic, record_key, record_value, header_keys, header_values, appended_at,
	attempts, nullif(retry_at, 'infinity'), coalesce(class, ''), coalesce(reason, ''), coalesce(decided_by, ''), published_at, coalesce(partition, 0), coalesce(record_offset, 0)`

// scanEntry reads a row of entryColumns.
func scanEntry(row pgx.CollectableRow) (e Entry, err error) {
	var keys, values [][]byte
	var class string
	var retry, published *time.Time
	err = row.Scan(&e.Number, &e.ID, &e.Status, &e.Aggregate, &e.Topic, &e.Key, &e.Value, &keys, &values, &e.AppendedAt,
		&e.Attempts, &retry, &class, &e.Reason, &e.DecidedBy, &published, &e.Partition, &e.Offset)
	if err != nil {
		return e, err
	}
	for i := range min(len(keys), len(values)) {
		e.Headers = append(e.Headers, topology.Header{Key: string(keys[i]), Value: values[i]})
	}
	if retry != nil {
		e.RetryAt = *retry
	}
	if published != nil {
		e.PublishedAt = *published
	}
	if class != "" {
		e.Class, err = graph.ParseClass(class)
	}
	return e, err
}
