package pgqueue

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/processors/postgres/internal/pgtest"
)

func TestMain(m *testing.M) {
	if os.Getenv(envChild) != "" {
		os.Exit(child())
	}
	pgtest.Main(m)
}

// stage is a database with a queue of events, and what workers make of them.
type stage struct {
	t  *testing.T
	db *pgtest.Database
}

const effectsTable = `CREATE TABLE effects (id bigserial, event_id text, aggregate text, claim int)`

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{t: t, db: pgtest.New(t)}
	s.db.Exec(t, effectsTable)
	return s
}

// effect is what the handlers of these tests do: a row.
func effect(ctx context.Context, tx pgx.Tx, e *Entry) (Decision, error) {
	_, err := tx.Exec(ctx, "INSERT INTO effects (event_id, aggregate, claim) VALUES ($1, $2, $3)", e.ID, e.Aggregate, e.Claims)
	return Decision{}, err
}

// config is that of an instance, whose sessions have its name as application name.
func (s *stage) config(instance string, change func(c *Config)) Config {
	c := Config{
		Name: "mail", Handle: effect, RetryMin: time.Millisecond, RetryMax: 10 * time.Millisecond, Poll: 20 * time.Millisecond,
		Pool: s.db.NewPool(s.t, pgtest.Named(instance)),
	}
	if change != nil {
		change(&c)
	}
	return c
}

func (s *stage) queue(instance string, change func(c *Config)) *Queue {
	s.t.Helper()
	q, err := New(s.config(instance, change))
	if err != nil {
		s.t.Fatal(err)
	}
	return q
}

// start runs workers until the function that it returns is called, or the test ends. Run must not
// fail.
func (s *stage) start(q *Queue) (stop func()) { return pgtest.Start(s.t, q.Run) }

// store stores events in a transaction of their own.
func (s *stage) store(events ...Event) (statuses []Status) {
	s.t.Helper()
	q := s.queue("store", nil)
	err := pgx.BeginFunc(s.t.Context(), s.db.Pool, func(tx pgx.Tx) (err error) {
		statuses, err = q.Store(s.t.Context(), tx, events...)
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return statuses
}

// numbered returns n events of some aggregates, in turn. Without aggregates they have no order.
func numbered(prefix string, n int, aggregates ...string) (all []Event) {
	for i := range n {
		e := Event{ID: fmt.Sprintf("%s%05d", prefix, i), Payload: fmt.Append(nil, i)}
		if len(aggregates) > 0 {
			e.Aggregate = aggregates[i%len(aggregates)]
		}
		all = append(all, e)
	}
	return all
}

func (s *stage) effects() int64 { return s.db.Int(s.t, "SELECT count(*) FROM effects") }

// with returns how many entries have one of the statuses.
func (s *stage) with(statuses ...Status) int64 {
	return s.db.Int(s.t, "SELECT count(*) FROM onceward.queue WHERE status = ANY($1)", statuses)
}

func (s *stage) awaitSettled() {
	s.t.Helper()
	pgtest.Await(s.t, "every entry is settled", func() bool {
		return s.db.Int(s.t, "SELECT count(*) FROM onceward.queue WHERE settled_at IS NULL") == 0
	})
}

// expire lets the claims of entries expire.
func (s *stage) expire() {
	s.db.Exec(s.t, "UPDATE onceward.queue SET due_at = now() WHERE status = 'CLAIMED'")
}

// judge fails the test unless every event that was processed has had its effect once, in the order
// of its aggregate, and nothing that could go on is parked.
func (s *stage) judge() {
	s.t.Helper()
	for _, wrong := range s.verdict() {
		s.t.Error(wrong)
	}
}

func (s *stage) verdict() (wrong []string) {
	s.t.Helper()
	for _, c := range []struct{ what, sql string }{
		{"events were processed and have other than one effect", `SELECT count(*) FROM onceward.queue q WHERE status = 'PROCESSED'
			AND (SELECT count(*) FROM effects e WHERE e.event_id = q.event_id) <> 1`},
		{"effects belong to no event that was processed", `SELECT count(*) FROM effects e WHERE NOT EXISTS (
			SELECT FROM onceward.queue q WHERE q.event_id = e.event_id AND q.status = 'PROCESSED')`},
		{"effects are out of the order of their aggregate", `SELECT count(*) FROM (
			SELECT event_id < lag(event_id) OVER (PARTITION BY left(event_id, 1), aggregate ORDER BY id) AS before FROM effects WHERE aggregate <> ''
		) AS o WHERE before`},
		{"entries are parked that wait for none", `SELECT count(*) FROM onceward.queue q WHERE due_at IS NULL AND status IN ('RECEIVED', 'RETRYABLE_FAILED')
			AND NOT EXISTS (SELECT FROM onceward.queue o WHERE o.queue = q.queue AND o.aggregate = q.aggregate AND o.entry < q.entry AND o.settled_at IS NULL)`},
	} {
		if n := s.db.Int(s.t, c.sql); n != 0 {
			wrong = append(wrong, fmt.Sprint(n, " ", c.what))
		}
	}
	return wrong
}
