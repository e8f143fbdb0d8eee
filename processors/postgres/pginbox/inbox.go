package pginbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/onceward/onceward/processors/postgres/internal/instrument"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// Inbox remembers the events of one service.
type Inbox struct {
	pool    *pgxpool.Pool
	service string
	settings
	marks   [Late + 1]prometheus.Counter
	cleaned prometheus.Counter
}

// New returns the inbox of a service, which is a name of 1 to 200 bytes. It does not ask the
// database: a missing table shows at the first mark. The pool is for Exists and Clean; marks use
// the transaction of the caller.
func New(pool *pgxpool.Pool, service string, opts ...Option) (*Inbox, error) {
	b := &Inbox{pool: pool, service: service, settings: settings{retention: DefaultRetention}}
	var errs []error
	if pool == nil {
		errs = append(errs, errors.New("the pool is nil"))
	}
	if len(service) > serviceBytesMax || service == "" || !storable(service) {
		errs = append(errs, fmt.Errorf("the service is valid UTF-8 of 1 to %d bytes without zero bytes, not %q", serviceBytesMax, service))
	}
	for _, o := range opts {
		errs = append(errs, o(&b.settings))
	}
	if b.retention < b.replayWindow {
		errs = append(errs, fmt.Errorf("the retention of %s is shorter than the replay window of %s: an event that comes again after it "+
			"was removed would have its effect again; retain marks for %[2]s at least", b.retention, b.replayWindow))
	}
	err := errors.Join(errs...)
	if err == nil {
		err = b.register()
	}
	if err != nil {
		return nil, fmt.Errorf("pginbox: %w", err)
	}
	return b, nil
}

func (b *Inbox) register() error {
	marks, err := instrument.Register(b.registerer, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "onceward_postgres_inbox_marks_total", Help: "Events that were marked, by what the inbox said.",
	}, []string{"service", "outcome"}))
	if err != nil {
		return err
	}
	for o := Claimed; o <= Late; o++ {
		b.marks[o] = marks.WithLabelValues(b.service, o.String())
	}
	cleaned, err := instrument.Register(b.registerer, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "onceward_postgres_inbox_cleaned_total", Help: "Marks that were removed because their retention was over.",
	}, []string{"service"}))
	b.cleaned = cleaned.WithLabelValues(b.service)
	return err
}

// The limits of what is stored.
const (
	serviceBytesMax = 200
	textBytesMax    = 1024
)

// Event is what an inbox is told of an event.
type Event struct {
	// ID is the key. Type and Subject are for people: what kind of event it is, and what it is
	// about. They may be empty, and have at most 1024 bytes.
	ID      string
	Type    string
	Subject string
	// Payload is the SHA-256 of the payload. Zeros compare with nothing.
	Payload [32]byte
	// BusinessKey is what makes two events the same fact, with the form of an id. It may be empty.
	BusinessKey string
	// Time is when the event happened or was published. Zero is unknown: such an event is never
	// late.
	Time time.Time
}

func (e *Event) check() error {
	switch {
	case e.ID == "":
		return topology.Fail(topology.Validation, schemas.Reason("the event has no id"))
	case len(e.ID) > textBytesMax || !storable(e.ID):
		return topology.Fail(topology.Validation, schemas.Reason("the event id is not valid UTF-8 of at most 1024 bytes without zero bytes"))
	case len(e.BusinessKey) > textBytesMax || !storable(e.BusinessKey):
		return topology.Fail(topology.Validation, schemas.Reason("the business key is not valid UTF-8 of at most 1024 bytes without zero bytes"))
	case len(e.Type) > textBytesMax || !storable(e.Type), len(e.Subject) > textBytesMax || !storable(e.Subject):
		return topology.Fail(topology.Validation, schemas.Reason("type or subject is not valid UTF-8 of at most 1024 bytes without zero bytes"))
	}
	return nil
}

// storable says whether PostgreSQL takes s as text.
func storable(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

// TryMark marks an event in the caller's transaction and says whether the transaction has to have
// its effect. It is [Inbox.Mark] with an id, and with a type and a subject for people. An id that
// is none has an error of class Validation (topology.ClassOf).
func (b *Inbox) TryMark(ctx context.Context, tx pgx.Tx, eventID, eventType, subject string) (claimed bool, err error) {
	outcome, err := b.Mark(ctx, tx, Event{ID: eventID, Type: eventType, Subject: subject})
	return outcome == Claimed, err
}

const insertMark = `
INSERT INTO onceward.inbox (service, event_id, outcome, event_type, subject, payload, business_key, first_id)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING`

// readMark returns one row: what is known of the id and of the business key, and whether the event
// is too old.
const readMark = `
SELECT id.outcome, id.payload, key.event_id, key.payload, coalesce($4::timestamptz < now() - $5::interval, false)
FROM (SELECT) one
LEFT JOIN onceward.inbox id ON id.service = $1 AND id.event_id = $2
LEFT JOIN onceward.inbox key ON key.service = $1 AND key.business_key = $3`

// triesMax bounds how often a mark starts over because rows have come or gone between two
// statements.
const triesMax = 10

// Mark marks an event in the caller's transaction and returns what became of it. It waits for other
// transactions that mark the same id. An error leaves the transaction aborted, unless it is of
// class Validation: that event has no id, or other texts that cannot be stored.
func (b *Inbox) Mark(ctx context.Context, tx pgx.Tx, e Event) (Outcome, error) {
	if err := e.check(); err != nil {
		return 0, fmt.Errorf("pginbox: %s: mark: %w", b.service, err)
	}
	outcome, err := b.mark(ctx, tx, &e)
	if err != nil {
		return 0, fmt.Errorf("pginbox: %s: mark: %w", b.service, explain(err))
	}
	b.marks[outcome].Inc()
	return outcome, nil
}

func (b *Inbox) mark(ctx context.Context, tx pgx.Tx, e *Event) (Outcome, error) {
	for range triesMax {
		if e.Time.IsZero() { // or it may be late, which the row of readMark says
			if claimed, err := b.insert(ctx, tx, e, rowClaimed, ""); err != nil || claimed {
				return Claimed, err
			}
		}
		k, err := b.read(ctx, tx, e)
		switch {
		case err != nil:
			return 0, err
		case k.outcome != 0:
			if k.outcome == rowDisputed || differ(k.payload, e.Payload) {
				return Conflict, nil
			}
			return Duplicate, nil
		case k.holder != "":
			row, outcome := rowRepeated, Duplicate
			if differ(k.holderPayload, e.Payload) {
				row, outcome = rowDisputed, Conflict
			}
			if inserted, err := b.insert(ctx, tx, e, row, k.holder); err != nil || inserted {
				return outcome, err
			}
		case k.old:
			return Late, nil
		case !e.Time.IsZero():
			if claimed, err := b.insert(ctx, tx, e, rowClaimed, ""); err != nil || claimed {
				return Claimed, err
			}
		}
	}
	return 0, topology.Fail(topology.Transient, errors.New("rows of the inbox have come and gone while the event was marked"))
}

// insert writes a row unless the id or the business key has one.
func (b *Inbox) insert(ctx context.Context, tx pgx.Tx, e *Event, outcome int, holder string) (inserted bool, err error) {
	var payload []byte
	if e.Payload != ([32]byte{}) {
		payload = e.Payload[:]
	}
	var key, first *string
	if outcome != rowClaimed {
		first = &holder
	} else if e.BusinessKey != "" {
		key = &e.BusinessKey
	}
	tag, err := tx.Exec(ctx, insertMark, b.service, e.ID, outcome, e.Type, e.Subject, payload, key, first)
	return tag.RowsAffected() == 1, err
}

// known is what an inbox knows before it marks an event.
type known struct {
	outcome       int // 0 if the id has no row
	payload       []byte
	holder        string // who has the business key, empty if it has no row
	holderPayload []byte
	old           bool
}

func (b *Inbox) read(ctx context.Context, tx pgx.Tx, e *Event) (k known, err error) {
	var outcome *int
	var key, holder *string
	var at *time.Time
	if e.BusinessKey != "" {
		key = &e.BusinessKey
	}
	if !e.Time.IsZero() {
		at = &e.Time
	}
	err = tx.QueryRow(ctx, readMark, b.service, e.ID, key, at, b.retention).Scan(&outcome, &k.payload, &holder, &k.holderPayload, &k.old)
	if outcome != nil {
		k.outcome = *outcome
	}
	if holder != nil {
		k.holder = *holder
	}
	return k, err
}

// differ says whether a stored hash and that of an event are both there and not the same.
func differ(stored []byte, hash [32]byte) bool {
	return stored != nil && hash != ([32]byte{}) && !bytes.Equal(stored, hash[:])
}

// Exists says whether a committed transaction has marked the event. It is for people and reports,
// and decides nothing: see the package documentation.
func (b *Inbox) Exists(ctx context.Context, eventID string) (bool, error) {
	var exists bool
	err := b.pool.QueryRow(ctx, "SELECT EXISTS (SELECT FROM onceward.inbox WHERE service = $1 AND event_id = $2)", b.service, eventID).Scan(&exists)
	if err != nil {
		return false, fmt.Errorf("pginbox: %s: exists: %w", b.service, explain(err))
	}
	return exists, nil
}

// explain says what to do about missing tables.
func explain(err error) error {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && (e.Code == "42P01" || e.Code == "3F000") && strings.Contains(e.Message, "onceward") {
		return fmt.Errorf("the tables are missing; postgres.Migrate creates them: %w", err)
	}
	return err
}
