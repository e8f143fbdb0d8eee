package pgqueue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onceward/onceward/processors/postgres/internal/pgtest"
	"github.com/onceward/onceward/processors/postgres/internal/work"
	"github.com/onceward/onceward/topology"
)

// TestDecisions: what a handler decides and how it fails is the status of the entry, with evidence.
// Row of the failure matrix: older version after newer. Requirement M3.
func TestDecisions(t *testing.T) {
	s := newStage(t)
	q := s.queue("worker", func(c *Config) {
		c.Attempts = 3
		c.Handle = func(ctx context.Context, tx pgx.Tx, e *Entry) (Decision, error) {
			switch e.ID {
			case "ignored":
				return Decision{Status: Ignored, Reason: "the account is closed"}, nil
			case "superseded":
				return Decision{Status: Superseded}, nil
			case "duplicate":
				return Decision{Status: Duplicate}, nil
			case "poison":
				return Decision{}, errors.New("bad")
			case "panic":
				panic("bad")
			case "invalid":
				return Decision{}, topology.Fail(topology.Validation, errors.New("bad"))
			case "constraint":
				_, err := tx.Exec(ctx, "SELECT 1/0")
				return Decision{}, err
			case "swallowed":
				_, _ = tx.Exec(ctx, "SELECT 1/0")
				return Decision{}, nil
			case "transient":
				return Decision{}, topology.Fail(topology.Transient, errors.New("later"))
			case "second":
				if e.Attempts == 1 {
					return Decision{}, topology.Fail(topology.Overload, errors.New("later"))
				}
			}
			return effect(ctx, tx, e)
		}
	})
	wants := map[string]struct {
		status   Status
		class    topology.Class
		evidence string
	}{
		"processed":  {Processed, 0, "PROCESSED"},
		"ignored":    {Ignored, 0, "IGNORED"},
		"superseded": {Superseded, 0, "SUPERSEDED"},
		"duplicate":  {Duplicate, 0, "DUPLICATE"},
		"poison":     {Quarantined, topology.Poison, "QUARANTINED"},
		"panic":      {Quarantined, topology.Poison, "QUARANTINED"},
		"invalid":    {Quarantined, topology.Validation, "QUARANTINED"},
		"constraint": {Quarantined, topology.Validation, "QUARANTINED"},
		"swallowed":  {Quarantined, topology.Poison, "QUARANTINED"},
		"transient":  {Quarantined, topology.Transient, "RETRYABLE_FAILED RETRYABLE_FAILED QUARANTINED"},
		"second":     {Processed, 0, "RETRYABLE_FAILED PROCESSED"},
	}
	for id := range wants {
		s.store(Event{ID: id})
	}
	s.start(q)
	pgtest.Await(t, "every entry comes to an end", func() bool { return s.with(Received, Claimed, RetryableFailed) == 0 })
	for id, want := range wants {
		all, err := q.List(t.Context(), Filter{EventID: id}, 2)
		if err != nil || len(all) != 1 {
			t.Fatalf("%s: %d entries, %v", id, len(all), err)
		}
		e, evidence, err := q.Show(t.Context(), all[0].Number)
		if err != nil {
			t.Fatal(err)
		}
		var statuses []string
		for _, d := range evidence {
			statuses = append(statuses, string(d.Status))
			if d.By == "" || d.Claim == 0 || d.At.IsZero() {
				t.Errorf("%s: the evidence is %+v", id, d)
			}
		}
		if got := strings.Join(statuses, " "); e.Status != want.status || e.Class != want.class || got != want.evidence {
			t.Errorf("%s: %s, %s, evidence %s", id, e.Status, e.Class, got)
		}
		if e.ClaimedBy == "" || e.ClaimedAt.IsZero() || e.Status.Final() != !e.SettledAt.IsZero() {
			t.Errorf("%s: the entry is %+v", id, e)
		}
		if id == "ignored" && (e.Reason != "the account is closed" || evidence[0].Reason != e.Reason) {
			t.Errorf("the reason is %q", e.Reason)
		}
	}
	s.judge()
}

// TestNoPayloadInLogsAndEvidence: an error that quotes the payload is kept without it.
func TestNoPayloadInLogsAndEvidence(t *testing.T) {
	const secret = "4111-1111"
	s := newStage(t)
	var log syncBuffer
	q := s.queue("worker", func(c *Config) {
		c.Logger = slog.New(slog.NewTextHandler(&log, nil))
		c.Handle = func(ctx context.Context, tx pgx.Tx, e *Entry) (Decision, error) {
			if e.ID == "go" {
				return Decision{}, fmt.Errorf("cannot read %s", e.Payload)
			}
			_, err := tx.Exec(ctx, "SELECT $1::text::int", string(e.Payload))
			return Decision{}, err
		}
	})
	s.store(Event{ID: "go", Payload: []byte(secret)}, Event{ID: "sql", Payload: []byte(secret)})
	stop := s.start(q)
	pgtest.Await(t, "both are quarantined", func() bool { return s.with(Quarantined) == 2 })
	stop()
	if text := log.String(); strings.Contains(text, secret) || !strings.Contains(text, "an entry has failed") {
		t.Errorf("the log is %s", text)
	}
	if n := s.db.Int(t, "SELECT count(*) FROM onceward.queue_decisions WHERE reason LIKE '%4111%'"); n != 0 {
		t.Errorf("%d reasons quote the payload", n)
	}
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// TestOrderOfAggregates: with failures, several processes and many entries at work at once, the
// events of an aggregate are processed in their order. Row of the failure matrix: out-of-order
// completion. The negative control asks for no order. Requirement M3.
func TestOrderOfAggregates(t *testing.T) {
	for _, ordered := range []bool{true, false} {
		t.Run(fmt.Sprint("order asked for ", ordered), func(t *testing.T) {
			s := newStage(t)
			var calls atomic.Int64
			change := func(c *Config) {
				c.Parallel, c.Attempts = 8, 1000
				c.Handle = func(ctx context.Context, tx pgx.Tx, e *Entry) (Decision, error) {
					n := calls.Add(1)
					if n%7 == 0 {
						return Decision{}, topology.Fail(topology.Transient, errors.New("later"))
					}
					copied := *e
					copied.Aggregate = string(e.Payload)
					return effect(ctx, tx, &copied)
				}
			}
			events := numbered("a", 300, "one", "two", "three")
			for i := range events {
				events[i].Payload = []byte(events[i].Aggregate)
				if !ordered {
					events[i].Aggregate = ""
				}
			}
			s.store(events[:100]...)
			for i := range 3 {
				s.start(s.queue(fmt.Sprint("worker ", i), change))
			}
			for i := 100; i < 300; i += 10 {
				s.store(events[i : i+10]...)
			}
			s.awaitSettled()
			wrong := s.verdict()
			if ordered && len(wrong) > 0 || !ordered && (len(wrong) != 1 || !strings.Contains(wrong[0], "out of the order")) {
				t.Errorf("the verdict is %q", wrong)
			}
			if n := s.effects(); n != 300 {
				t.Errorf("%d effects", n)
			}
		})
	}
}

// TestBacklogOfAnAggregateIsParked: a long backlog that waits for one entry keeps workers from
// nothing else, and comes back when the entry is settled.
func TestBacklogOfAnAggregateIsParked(t *testing.T) {
	s := newStage(t)
	release := make(chan struct{})
	q := s.queue("worker", func(c *Config) {
		c.Parallel = 2
		c.Handle = func(ctx context.Context, tx pgx.Tx, e *Entry) (Decision, error) {
			if e.ID == "a00000" {
				select {
				case <-release:
				case <-ctx.Done():
				}
			}
			return effect(ctx, tx, e)
		}
	})
	s.store(numbered("a", 1500, "one")...)
	s.store(Event{ID: "b"})
	s.start(q)
	pgtest.Await(t, "the event behind the backlog is processed", func() bool { return s.effects() == 1 })
	pgtest.Await(t, "the backlog is parked", func() bool {
		return s.db.Int(t, "SELECT count(*) FROM onceward.queue WHERE status = 'RECEIVED' AND due_at IS NOT NULL") == 0
	})
	close(release)
	s.awaitSettled()
	s.judge()
}

// TestQuarantineHoldsItsAggregate: the events behind one in quarantine wait, until a person
// requeues or ignores it.
func TestQuarantineHoldsItsAggregate(t *testing.T) {
	s := newStage(t)
	var fixed atomic.Bool
	q := s.queue("worker", func(c *Config) {
		c.Handle = func(ctx context.Context, tx pgx.Tx, e *Entry) (Decision, error) {
			if !fixed.Load() && strings.HasSuffix(e.ID, "1") {
				return Decision{}, errors.New("bad")
			}
			return effect(ctx, tx, e)
		}
	})
	s.store(numbered("a", 4, "one")...)
	s.store(numbered("b", 4, "two")...)
	s.start(q)
	pgtest.Await(t, "both are quarantined", func() bool { return s.with(Quarantined) == 2 })
	s.store(Event{ID: "c"})
	pgtest.Await(t, "another event is processed", func() bool { return s.effects() == 3 })
	held, err := q.List(t.Context(), Filter{Statuses: []Status{Quarantined}}, 10)
	if err != nil || len(held) != 2 {
		t.Fatalf("%d in quarantine, %v", len(held), err)
	}
	fixed.Store(true)
	if err := q.Requeue(t.Context(), held[0].Number, "operator", "fixed"); err != nil {
		t.Fatal(err)
	}
	if err := q.Ignore(t.Context(), held[1].Number, "operator", "not wanted"); err != nil {
		t.Fatal(err)
	}
	s.awaitSettled()
	s.judge()
	if n := s.effects(); n != 8 {
		t.Errorf("%d effects, want 8", n)
	}
}

// TestConfigFailureStops: what other entries would fail with too stops the workers, and no entry is
// lost.
func TestConfigFailureStops(t *testing.T) {
	s := newStage(t)
	for name, handle := range map[string]Handler{
		"missing table": func(ctx context.Context, tx pgx.Tx, _ *Entry) (Decision, error) {
			_, err := tx.Exec(ctx, "INSERT INTO missing VALUES (1)")
			return Decision{}, err
		},
		"commit": func(ctx context.Context, tx pgx.Tx, _ *Entry) (Decision, error) {
			if err := tx.Rollback(ctx); !errors.Is(err, work.ErrNotYours) {
				t.Errorf("Rollback: %v", err)
			}
			return Decision{}, tx.Commit(ctx)
		},
		"decision": func(context.Context, pgx.Tx, *Entry) (Decision, error) { return Decision{Status: Quarantined}, nil },
	} {
		s.store(Event{ID: name})
		err := s.queue("worker", func(c *Config) { c.Handle = handle }).Run(t.Context())
		f, ok := errors.AsType[*Failure](err)
		if !ok || f.Class != topology.Config || f.Entry == 0 {
			t.Errorf("%s: Run returns %v", name, err)
		}
		if n := s.with(RetryableFailed); n != 1 {
			t.Errorf("%s: %d entries are to be tried again", name, n)
		}
		stop := s.start(s.queue("worker", nil))
		s.awaitSettled()
		stop()
	}
	s.judge()
}

// TestIsolationIsThatOfTheQueue: a handler cannot raise the isolation level, because the order of
// aggregates needs READ COMMITTED.
func TestIsolationIsThatOfTheQueue(t *testing.T) {
	s := newStage(t)
	levels := make(chan error, 1)
	s.store(Event{ID: "a"})
	s.start(s.queue("worker", func(c *Config) {
		c.Handle = func(ctx context.Context, tx pgx.Tx, e *Entry) (Decision, error) {
			_, err := tx.Exec(ctx, "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")
			levels <- err
			return Decision{}, topology.Fail(topology.Poison, err)
		}
	}))
	if e, ok := errors.AsType[*pgconn.PgError](<-levels); !ok || e.Code != "25001" {
		t.Errorf("the error is %v", e)
	}
}

// TestStopGivesClaimsBack: a stop rolls back what is at work, and another process does not wait for
// the claim to expire.
func TestStopGivesClaimsBack(t *testing.T) {
	s := newStage(t)
	at := make(chan struct{})
	q := s.queue("worker", func(c *Config) {
		c.ClaimFor = time.Hour
		c.Handle = func(ctx context.Context, tx pgx.Tx, e *Entry) (Decision, error) {
			if _, err := effect(ctx, tx, e); err != nil {
				return Decision{}, err
			}
			close(at)
			<-ctx.Done()
			return Decision{}, ctx.Err()
		}
	})
	s.store(Event{ID: "a"})
	stop := s.start(q)
	<-at
	stop()
	if n := s.db.Int(t, "SELECT attempts FROM onceward.queue"); n != 0 || s.with(Received) != 1 || s.effects() != 0 {
		t.Errorf("%d attempts, %d received, %d effects", n, s.with(Received), s.effects())
	}
	s.start(s.queue("successor", nil))
	s.awaitSettled()
	s.judge()
}

// TestNotificationsWake: a worker that polls once an hour works at once, also after its connection
// was lost, and one that is not notified finds entries by polling.
func TestNotificationsWake(t *testing.T) {
	s := newStage(t)
	stop := s.start(s.queue("worker", func(c *Config) { c.Poll = time.Hour }))
	s.store(Event{ID: "a"})
	s.awaitSettled()
	s.db.Terminate(t, "worker")
	s.store(Event{ID: "b"})
	s.awaitSettled()
	stop()
	s.start(s.queue("worker", nil))
	s.db.Exec(t, `INSERT INTO onceward.queue (queue, event_id, status, event_type, subject, source, payload_hash, header_keys, header_values, due_at)
		VALUES ('mail', 'c', 'RECEIVED', '', '', '', '', '{}', '{}', now())`)
	s.awaitSettled()
	s.judge()
}

// TestClaimsFollowDueTimes: entries without an aggregate are claimed in the order in which they are
// due, whatever their numbers.
func TestClaimsFollowDueTimes(t *testing.T) {
	s := newStage(t)
	s.store(numbered("e", 5)...)
	s.db.Exec(t, "UPDATE onceward.queue SET due_at = now() - entry * interval '1 second'")
	s.start(s.queue("a", func(c *Config) { c.Parallel = 1 }))
	s.awaitSettled()
	if n := s.db.Int(t, "SELECT count(*) FROM (SELECT event_id > lag(event_id) OVER (ORDER BY id) AS wrong FROM effects) o WHERE wrong"); n != 0 {
		t.Errorf("%d entries were claimed before one that was due earlier", n)
	}
}
