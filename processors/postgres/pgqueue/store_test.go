package pgqueue

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/processors/postgres"
	"github.com/onceward/onceward/processors/postgres/internal/pgtest"
	"github.com/onceward/onceward/topology"
)

// TestStore: what arrives is received once, copies are duplicates, and another payload under the id
// is a conflict in quarantine. Rows of the failure matrix: duplicate delivery; replay from
// earliest. Requirement M3.
func TestStore(t *testing.T) {
	s := newStage(t)
	first := Event{ID: "a", Type: "paid", Subject: "order 1", Source: "payments 0 17", Payload: []byte("10"), Headers: []topology.Header{{Key: "k", Value: []byte("v")}}}
	disputed := Event{ID: "a", Payload: []byte("11")}
	got := s.store(first, first, disputed, Event{ID: "b", Hash: [32]byte{1}, Payload: []byte("{ }")}, Event{ID: "b", Hash: [32]byte{1}, Payload: []byte("{}")})
	got = append(got, s.store(first, disputed)...)
	want := []Status{Received, Duplicate, Quarantined, Received, Duplicate, Duplicate, Quarantined}
	if !slices.Equal(got, want) {
		t.Errorf("the statuses are %v, want %v", got, want)
	}
	entries, err := s.queue("operator", nil).List(t.Context(), Filter{EventID: "a"}, 10)
	if err != nil || len(entries) != 5 {
		t.Fatalf("%d entries of a, %v", len(entries), err)
	}
	e := entries[0]
	if e.Type != "paid" || e.Subject != "order 1" || e.Source != "payments 0 17" || string(e.Payload) != "10" || len(e.Headers) != 1 || string(e.Headers[0].Value) != "v" {
		t.Errorf("the entry is %+v", e)
	}
	if d := entries[1]; d.CopyOf != e.Number || d.Payload != nil || !d.PayloadDropped {
		t.Errorf("the duplicate is %+v", d)
	}
	if c := entries[2]; c.CopyOf != e.Number || string(c.Payload) != "11" || c.Class != topology.Conflict {
		t.Errorf("the conflict is %+v", c)
	}
	s.start(s.queue("worker", nil))
	pgtest.Await(t, "the events are processed", func() bool { return s.with(Processed) == 2 })
	s.judge()
}

// TestStoreIsTheCallersTransaction: a rollback takes the entry, and no worker sees it before the
// COMMIT.
func TestStoreIsTheCallersTransaction(t *testing.T) {
	s := newStage(t)
	s.start(s.queue("worker", nil))
	q := s.queue("store", nil)
	failed := errors.New("failed")
	err := pgx.BeginFunc(t.Context(), s.db.Pool, func(tx pgx.Tx) error {
		if _, err := q.Store(t.Context(), tx, Event{ID: "a"}); err != nil {
			return err
		}
		return failed
	})
	if !errors.Is(err, failed) {
		t.Fatal(err)
	}
	s.store(Event{ID: "b"})
	s.awaitSettled()
	if n := s.db.Int(t, "SELECT count(*) FROM onceward.queue"); n != 1 || s.effects() != 1 {
		t.Errorf("%d entries, %d effects", n, s.effects())
	}
}

// TestStoreRefuses: an event that cannot be stored has an error of class Validation, and the
// transaction goes on.
func TestStoreRefuses(t *testing.T) {
	s := newStage(t)
	q := s.queue("store", nil)
	err := pgx.BeginFunc(t.Context(), s.db.Pool, func(tx pgx.Tx) error {
		for _, e := range []Event{{}, {ID: strings.Repeat("x", 1025)}, {ID: "a\x00"}, {ID: "a", Aggregate: "\xff"}, {ID: "a", Source: "\x00"}} {
			if _, err := q.Store(t.Context(), tx, Event{ID: "fine"}, e); topology.ClassOf(err) != topology.Validation || !strings.Contains(err.Error(), "event 2 of 2") {
				t.Errorf("%q: %v", e, err)
			}
		}
		_, err := q.Store(t.Context(), tx, Event{ID: "a"})
		return err
	})
	if err != nil || s.with(Received) != 1 {
		t.Errorf("%d entries, %v", s.with(Received), err)
	}
}

// TestConcurrentCopies: of 20 copies that arrive at once one is received, and workers have one
// effect. Row of the failure matrix: concurrent duplicate on two instances. The negative control
// looks for the event first.
func TestConcurrentCopies(t *testing.T) {
	const copies = 20
	s := newStage(t)
	for range 3 {
		s.start(s.queue("worker", nil))
	}
	arrive := func(store func(tx pgx.Tx) error) {
		var wg sync.WaitGroup
		for range copies {
			wg.Go(func() {
				if err := pgx.BeginFunc(t.Context(), s.db.Pool, store); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
	q := s.queue("store", nil)
	arrive(func(tx pgx.Tx) error {
		_, err := q.Store(t.Context(), tx, Event{ID: "a", Aggregate: "one"})
		return err
	})
	s.awaitSettled()
	if p, d := s.with(Processed), s.with(Duplicate); p != 1 || d != copies-1 {
		t.Errorf("%d are processed and %d duplicates", p, d)
	}
	s.judge()

	s.db.Exec(t, "CREATE TABLE naive (event_id text)")
	var met sync.WaitGroup
	met.Add(copies)
	arrive(func(tx pgx.Tx) error {
		var there bool
		if err := tx.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM naive WHERE event_id = 'a')").Scan(&there); err != nil || there {
			return err
		}
		met.Done()
		met.Wait()
		_, err := tx.Exec(t.Context(), "INSERT INTO naive VALUES ('a')")
		return err
	})
	if n := s.db.Int(t, "SELECT count(*) FROM naive"); n != copies {
		t.Errorf("check, then insert: %d copies are stored, want %d", n, copies)
	}
}

// TestCommitsOfAnAggregateFollowOneAnother: a transaction that stores an event of an aggregate
// waits for the one before, so that no entry appears before another one that was processed. The
// negative control inserts without the lock, and an entry with a lower number is processed late.
func TestCommitsOfAnAggregateFollowOneAnother(t *testing.T) {
	s := newStage(t)
	s.start(s.queue("worker", nil))
	q := s.queue("store", nil)
	early, err := s.db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.Store(t.Context(), early, Event{ID: "a1", Aggregate: "one"}); err != nil {
		t.Fatal(err)
	}
	late := make(chan error)
	go func() {
		late <- pgx.BeginFunc(t.Context(), s.db.Pool, func(tx pgx.Tx) error {
			_, err := q.Store(t.Context(), tx, Event{ID: "a2", Aggregate: "one"})
			return err
		})
	}()
	pgtest.Await(t, "the second transaction waits", func() bool { return s.db.Waiting(t) == 1 })
	s.store(Event{ID: "c1", Aggregate: "another"}) // waits for nothing
	if err := early.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-late; err != nil {
		t.Fatal(err)
	}
	s.awaitSettled()
	s.judge()

	const insert = `INSERT INTO onceward.queue (queue, event_id, status, event_type, subject, aggregate, source, payload_hash, header_keys, header_values, due_at)
		VALUES ('mail', $1, 'RECEIVED', '', '', 'one', '', '', '{}', '{}', now())`
	early, err = s.db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := early.Exec(t.Context(), insert, "b1"); err != nil {
		t.Fatal(err)
	}
	s.db.Exec(t, insert, "b2")
	s.awaitSettled()
	if err := early.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.awaitSettled()
	if wrong := s.verdict(); len(wrong) != 1 || !strings.Contains(wrong[0], "out of the order") {
		t.Errorf("without the lock the verdict is %q", wrong)
	}
}

// TestStoreAboveReadCommitted: with a snapshot from before the copy, an arrival is a serialization
// failure and nothing else.
func TestStoreAboveReadCommitted(t *testing.T) {
	s := newStage(t)
	q := s.queue("store", nil)
	err := pgx.BeginTxFunc(t.Context(), s.db.Pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), "SELECT 1"); err != nil {
			return err
		}
		s.store(Event{ID: "a"})
		_, err := q.Store(t.Context(), tx, Event{ID: "a"})
		return err
	})
	if postgres.ClassOf(err) != topology.Transient {
		t.Errorf("the error is %v", err)
	}
}

// TestConfigIsRefused: what is wrong with a configuration is said at once.
func TestConfigIsRefused(t *testing.T) {
	_, err := New(Config{Name: "a\x00", Parallel: -1, Attempts: -1, ClaimFor: time.Nanosecond, RetryMin: time.Hour, RetryMax: time.Minute,
		Retention: time.Hour, ReplayWindow: 2 * time.Hour})
	for _, part := range []string{"Name", "Pool is nil", "Parallel", "Attempts", "ClaimFor", "RetryMax 1m0s is less", "ReplayWindow 2h0m0s"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %s: %v", part, err)
		}
	}
	s := newStage(t)
	if err := s.queue("store", func(c *Config) { c.Handle = nil }).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "Handle is nil") {
		t.Errorf("Run without a handler: %v", err)
	}
	if err := s.queue("small", func(c *Config) { c.Parallel = 30 }).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "raise MaxConns") {
		t.Errorf("Run with a small pool: %v", err)
	}
}

// TestMissingTables: the error says what creates them.
func TestMissingTables(t *testing.T) {
	db := pgtest.Empty(t)
	q, err := New(Config{Name: "mail", Pool: db.Pool, Handle: effect})
	if err != nil {
		t.Fatal(err)
	}
	_, listErr := q.List(t.Context(), Filter{}, 1)
	for _, err := range []error{listErr, q.Run(t.Context())} {
		if err == nil || !strings.Contains(err.Error(), "postgres.Migrate creates the tables") {
			t.Errorf("the error is %v", err)
		}
	}
}
