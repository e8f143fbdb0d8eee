package pginbox_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/onceward/onceward/processors/postgres"
	"github.com/onceward/onceward/processors/postgres/internal/pgtest"
	"github.com/onceward/onceward/processors/postgres/pginbox"
	"github.com/onceward/onceward/topology"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// newInbox returns the inbox of a service called billing.
func newInbox(t testing.TB, pool *pgxpool.Pool, opts ...pginbox.Option) *pginbox.Inbox {
	t.Helper()
	b, err := pginbox.New(pool, "billing", opts...)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// mark marks an event in a transaction of its own, which commits.
func mark(t testing.TB, pool *pgxpool.Pool, b *pginbox.Inbox, e pginbox.Event) pginbox.Outcome {
	t.Helper()
	var outcome pginbox.Outcome
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) (err error) {
		outcome, err = b.Mark(t.Context(), tx, e)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return outcome
}

// TestTryMark: an id is claimed once by each service, and Exists knows it. Requirement M1.
func TestTryMark(t *testing.T) {
	db := pgtest.New(t)
	billing := newInbox(t, db.Pool)
	shipping, err := pginbox.New(db.Pool, "shipping")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{true, false, false} {
		for _, b := range []*pginbox.Inbox{billing, shipping} {
			err := pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
				claimed, err := b.TryMark(t.Context(), tx, "e1", "paid", "order 1")
				if claimed != want {
					t.Errorf("attempt %d: claimed is %v", i, claimed)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for id, want := range map[string]bool{"e1": true, "e2": false} {
		if exists, err := billing.Exists(t.Context(), id); exists != want || err != nil {
			t.Errorf("%s exists: %v, %v", id, exists, err)
		}
	}
}

// TestRollbackTakesTheMark: a transaction that does not commit has marked nothing. Requirement M1.
func TestRollbackTakesTheMark(t *testing.T) {
	db := pgtest.New(t)
	b := newInbox(t, db.Pool)
	failed := errors.New("the effect failed")
	err := pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
		if claimed, err := b.TryMark(t.Context(), tx, "e1", "", ""); !claimed || err != nil {
			t.Errorf("claimed is %v, %v", claimed, err)
		}
		return failed
	})
	if !errors.Is(err, failed) {
		t.Fatal(err)
	}
	if exists, err := b.Exists(t.Context(), "e1"); exists || err != nil {
		t.Errorf("the mark is there: %v, %v", exists, err)
	}
	if o := mark(t, db.Pool, b, pginbox.Event{ID: "e1"}); o != pginbox.Claimed {
		t.Errorf("the second attempt is a %s", o)
	}
}

// TestOutcomes: payload hash and business key tell duplicates from conflicts, and what was decided
// about an id stays. Requirement M1.
func TestOutcomes(t *testing.T) {
	db := pgtest.New(t)
	registry := prometheus.NewRegistry()
	b := newInbox(t, db.Pool, pginbox.Metrics(registry))
	ten, eleven := sha256.Sum256([]byte("10")), sha256.Sum256([]byte("11"))
	for i, step := range []struct {
		event pginbox.Event
		want  pginbox.Outcome
	}{
		{pginbox.Event{ID: "a", Payload: ten}, pginbox.Claimed},
		{pginbox.Event{ID: "a", Payload: ten}, pginbox.Duplicate},
		{pginbox.Event{ID: "a"}, pginbox.Duplicate},
		{pginbox.Event{ID: "a", Payload: eleven}, pginbox.Conflict},
		{pginbox.Event{ID: "b"}, pginbox.Claimed},
		{pginbox.Event{ID: "b", Payload: ten}, pginbox.Duplicate}, // nothing to compare with
		{pginbox.Event{ID: "c", Payload: ten, BusinessKey: "order 1"}, pginbox.Claimed},
		{pginbox.Event{ID: "d", Payload: ten, BusinessKey: "order 1"}, pginbox.Duplicate},
		{pginbox.Event{ID: "e", Payload: eleven, BusinessKey: "order 1"}, pginbox.Conflict},
		{pginbox.Event{ID: "f", BusinessKey: "order 1"}, pginbox.Duplicate},
		{pginbox.Event{ID: "d", Payload: ten}, pginbox.Duplicate}, // copies without the key go the same way
		{pginbox.Event{ID: "d", Payload: eleven}, pginbox.Conflict},
		{pginbox.Event{ID: "e", Payload: eleven}, pginbox.Conflict},
		{pginbox.Event{ID: "g", Payload: ten, BusinessKey: "order 2"}, pginbox.Claimed},
		{pginbox.Event{ID: "A", Payload: ten}, pginbox.Claimed}, // ids are bytes
	} {
		if got := mark(t, db.Pool, b, step.event); got != step.want {
			t.Errorf("step %d is a %s, want %s", i, got, step.want)
		}
	}
	const want = `
		# HELP onceward_postgres_inbox_marks_total Events that were marked, by what the inbox said.
		# TYPE onceward_postgres_inbox_marks_total counter
		onceward_postgres_inbox_marks_total{outcome="claimed",service="billing"} 5
		onceward_postgres_inbox_marks_total{outcome="conflict",service="billing"} 4
		onceward_postgres_inbox_marks_total{outcome="duplicate",service="billing"} 6
		onceward_postgres_inbox_marks_total{outcome="late",service="billing"} 0
	`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "onceward_postgres_inbox_marks_total"); err != nil {
		t.Error(err)
	}
	newInbox(t, db.Pool, pginbox.Metrics(registry)) // shares the counters
}

// TestConcurrentCopies: of 20 concurrent copies of one event one is claimed. The first transaction
// to claim it rolls back, and its place is taken. Row of the failure matrix: concurrent duplicate
// on two instances.
func TestConcurrentCopies(t *testing.T) {
	for _, key := range []string{"", "order 1"} { // by id, and by business key under ids of their own
		t.Run("business key "+key, func(t *testing.T) {
			db := pgtest.New(t)
			b := newInbox(t, db.Pool)
			db.Exec(t, "CREATE TABLE effects (copy int)")
			rolledBack := errors.New("rolled back")
			claimedFirst, others := make(chan struct{}), make(chan struct{})
			event := func(i int) pginbox.Event {
				if key != "" {
					return pginbox.Event{ID: fmt.Sprint("e", i), BusinessKey: key}
				}
				return pginbox.Event{ID: "e"}
			}
			deliver := func(i int) error {
				return pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
					outcome, err := b.Mark(t.Context(), tx, event(i))
					if err != nil || outcome != pginbox.Claimed {
						return err
					}
					if _, err := tx.Exec(t.Context(), "INSERT INTO effects VALUES ($1)", i); err != nil {
						return err
					}
					if i == 0 {
						close(claimedFirst)
						<-others
						return rolledBack
					}
					return nil
				})
			}
			var wg sync.WaitGroup
			wg.Go(func() {
				if err := deliver(0); !errors.Is(err, rolledBack) {
					t.Error(err)
				}
			})
			<-claimedFirst
			for i := range 19 {
				wg.Go(func() {
					if err := deliver(i + 1); err != nil {
						t.Error(err)
					}
				})
			}
			pgtest.Await(t, "all copies wait for the first", func() bool { return db.Waiting(t) == 19 })
			close(others)
			wg.Wait()
			if n := db.Int(t, "SELECT count(*) FROM effects"); n != 1 {
				t.Errorf("the event has %d effects", n)
			}
		})
	}
}

// TestSerializationFailure: above READ COMMITTED a copy that comes at the same time fails, is
// rolled back, and is a duplicate when it comes again.
func TestSerializationFailure(t *testing.T) {
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			db := pgtest.New(t)
			b := newInbox(t, db.Pool)
			second, err := db.Pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := second.Exec(t.Context(), "SELECT 1"); err != nil { // takes the snapshot
				t.Fatal(err)
			}
			mark(t, db.Pool, b, pginbox.Event{ID: "e"})
			_, err = b.TryMark(t.Context(), second, "e", "", "")
			var state *pgconn.PgError
			if !errors.As(err, &state) || state.Code != "40001" || postgres.ClassOf(err) != topology.Transient {
				t.Errorf("the copy is answered by %v", err)
			}
			if err := second.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			if o := mark(t, db.Pool, b, pginbox.Event{ID: "e"}); o != pginbox.Duplicate {
				t.Errorf("when it comes again it is a %s", o)
			}
		})
	}
}

// TestDeadlock: transactions that mark the same events in another order deadlock; one of them
// fails, and has no effect until it comes again.
func TestDeadlock(t *testing.T) {
	db := pgtest.New(t)
	b := newInbox(t, db.Pool)
	db.Exec(t, "CREATE TABLE effects (id text)")
	var deadlocks, both sync.WaitGroup
	both.Add(2)
	var mu sync.Mutex
	failures := 0
	for _, order := range [][]string{{"a", "b"}, {"b", "a"}} {
		deadlocks.Go(func() {
			for attempt := 0; ; attempt++ {
				err := pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
					for i, id := range order {
						claimed, err := b.TryMark(t.Context(), tx, id, "", "")
						if err != nil {
							return err
						}
						if claimed {
							if _, err := tx.Exec(t.Context(), "INSERT INTO effects VALUES ($1)", id); err != nil {
								return err
							}
						}
						if i == 0 && attempt == 0 {
							both.Done()
							both.Wait()
						}
					}
					return nil
				})
				if err == nil {
					return
				}
				if postgres.ClassOf(err) != topology.Transient {
					t.Error(err)
					return
				}
				mu.Lock()
				failures++
				mu.Unlock()
			}
		})
	}
	deadlocks.Wait()
	if failures == 0 {
		t.Error("there was no deadlock")
	}
	if n := db.Int(t, "SELECT count(*) FROM effects"); n != 2 || db.Int(t, "SELECT count(DISTINCT id) FROM effects") != 2 {
		t.Errorf("two events have %d effects", n)
	}
}

// TestLate: an event that is older than the retention is late, unless it is known. Row of the
// failure matrix: replay after expiry.
func TestLate(t *testing.T) {
	db := pgtest.New(t)
	b := newInbox(t, db.Pool, pginbox.Retention(time.Hour))
	old, young := time.Now().Add(-2*time.Hour), time.Now().Add(-30*time.Minute)
	for i, step := range []struct {
		event pginbox.Event
		want  pginbox.Outcome
	}{
		{pginbox.Event{ID: "a", Time: young}, pginbox.Claimed},
		{pginbox.Event{ID: "a", Time: young}, pginbox.Duplicate},
		{pginbox.Event{ID: "a", Time: old}, pginbox.Duplicate},
		{pginbox.Event{ID: "b", Time: old}, pginbox.Late},
		{pginbox.Event{ID: "b", Time: old}, pginbox.Late},
		{pginbox.Event{ID: "b", Time: young}, pginbox.Claimed},
		{pginbox.Event{ID: "c"}, pginbox.Claimed}, // of an unknown time
	} {
		if got := mark(t, db.Pool, b, step.event); got != step.want {
			t.Errorf("step %d is %s, want %s", i, got, step.want)
		}
	}
}

// TestClean: marks go when their retention is over, the oldest first, in bounded numbers, those of
// one service only. Requirement M1.
func TestClean(t *testing.T) {
	for _, archive := range []bool{false, true} {
		t.Run(fmt.Sprint("archive ", archive), func(t *testing.T) {
			db := pgtest.New(t)
			registry := prometheus.NewRegistry()
			opts := []pginbox.Option{pginbox.Metrics(registry)}
			if archive {
				opts = append(opts, pginbox.Archive())
			}
			b := newInbox(t, db.Pool, opts...)
			// 2,500 marks that are over, one that is not yet, and one of another service.
			db.Exec(t, `INSERT INTO onceward.inbox (service, event_id, outcome, event_type, subject, marked_at)
				SELECT 'billing', 'old-' || i, 1, 'paid', '', now() - interval '180 days 1 hour' - i * interval '1 second' FROM generate_series(1, 2500) i
				UNION ALL SELECT 'billing', 'young', 1, '', '', now() - interval '179 days'
				UNION ALL SELECT 'shipping', 'old', 1, '', '', now() - interval '1 year'`)
			if n, err := b.Clean(t.Context(), 1200); n != 1200 || err != nil {
				t.Fatalf("forgotten: %d, %v", n, err)
			}
			if n := db.Int(t, "SELECT count(*) FROM onceward.inbox WHERE event_id = 'old-1300'"); n != 1 {
				t.Error("a younger mark went before an older one")
			}
			if n, err := b.Clean(t.Context(), 10_000); n != 1300 || err != nil {
				t.Fatalf("forgotten: %d, %v", n, err)
			}
			if n, err := b.Clean(t.Context(), 10_000); n != 0 || err != nil {
				t.Fatalf("forgotten: %d, %v", n, err)
			}
			if n := db.Int(t, "SELECT count(*) FROM onceward.inbox"); n != 2 {
				t.Errorf("%d marks are left", n)
			}
			want := int64(0)
			if archive {
				want = 2500
			}
			if n := db.Int(t, "SELECT count(DISTINCT event_id) FROM onceward.inbox_archive WHERE event_type = 'paid'"); n != want {
				t.Errorf("%d marks are in the archive", n)
			}
			if n, err := testutil.GatherAndCount(registry, "onceward_postgres_inbox_cleaned_total"); n != 1 || err != nil {
				t.Errorf("counters: %d, %v", n, err)
			}
		})
	}
}

// TestCleanDoesNotWait: a mark that another clean-up holds is passed by.
func TestCleanDoesNotWait(t *testing.T) {
	db := pgtest.New(t)
	b := newInbox(t, db.Pool)
	db.Exec(t, `INSERT INTO onceward.inbox (service, event_id, outcome, event_type, subject, marked_at)
		SELECT 'billing', i::text, 1, '', '', now() - interval '1 year' FROM generate_series(1, 10) i`)
	err := pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), "SELECT FROM onceward.inbox WHERE event_id = '1' FOR UPDATE"); err != nil {
			return err
		}
		n, err := b.Clean(t.Context(), 100)
		if n != 9 {
			t.Errorf("%d marks were forgotten", n)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := b.Clean(t.Context(), 100); n != 1 || err != nil {
		t.Errorf("forgotten: %d, %v", n, err)
	}
}

// TestMistakes: bad input is told what is wrong with it.
func TestMistakes(t *testing.T) {
	db := pgtest.Empty(t)
	for want, opts := range map[string][]pginbox.Option{
		"the retention of 24h0m0s is shorter than the replay window of 168h0m0s": {
			pginbox.Retention(24 * time.Hour), pginbox.ReplayWindow(7 * 24 * time.Hour)},
		"is shorter than the replay window of 4800h0m0s": {pginbox.ReplayWindow(200 * 24 * time.Hour)}, // of the default
		"Retention(0s): a second is the least":           {pginbox.Retention(0)},
		"ReplayWindow(-1ns): it is a time above zero":    {pginbox.ReplayWindow(-1)},
		"Metrics: the registerer is nil":                 {pginbox.Metrics(nil)},
	} {
		if _, err := pginbox.New(db.Pool, "s", opts...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for _, service := range []string{"", "a\x00", "\xff", strings.Repeat("x", 201)} {
		if _, err := pginbox.New(db.Pool, service); err == nil || !strings.Contains(err.Error(), "the service is valid UTF-8") {
			t.Errorf("service %q: %v", service, err)
		}
	}
	if _, err := pginbox.New(nil, "s"); err == nil {
		t.Error("no pool is no mistake")
	}
	b := newInbox(t, db.Pool)
	if _, err := b.Clean(t.Context(), 0); err == nil {
		t.Error("a limit of 0 is no mistake")
	}
	const missing = "the tables are missing; postgres.Migrate creates them"
	if _, err := b.Exists(t.Context(), "e"); err == nil || !strings.Contains(err.Error(), missing) {
		t.Error(err)
	}
	err := pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
		_, err := b.TryMark(t.Context(), tx, "e", "", "")
		return err
	})
	if err == nil || !strings.Contains(err.Error(), missing) || postgres.ClassOf(err) != topology.Config {
		t.Error(err)
	}
}

// TestNoID: an event without an id, or with one that cannot be stored, is refused, quotes nothing,
// and leaves the transaction usable.
func TestNoID(t *testing.T) {
	const canary = "canary"
	db := pgtest.New(t)
	b := newInbox(t, db.Pool)
	err := pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
		for _, e := range []pginbox.Event{
			{}, {ID: canary + "\x00"}, {ID: canary + "\xff"}, {ID: strings.Repeat(canary, 200)},
			{ID: "e", BusinessKey: canary + "\x00"}, {ID: "e", Type: canary + "\x00"}, {ID: "e", Subject: canary + "\xff"},
		} {
			_, err := b.Mark(t.Context(), tx, e)
			if postgres.ClassOf(err) != topology.Validation || strings.Contains(err.Error(), canary) {
				t.Errorf("%v, of class %s", err, postgres.ClassOf(err))
			}
		}
		claimed, err := b.TryMark(t.Context(), tx, strings.Repeat("x", 1024), "", "")
		if !claimed {
			t.Error("the longest id is not claimed")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestContextEnds: a mark whose context ends returns, and marks nothing.
func TestContextEnds(t *testing.T) {
	db := pgtest.New(t)
	b := newInbox(t, db.Pool)
	first, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.TryMark(t.Context(), first, "e", "", ""); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- pgx.BeginFunc(ctx, db.Pool, func(tx pgx.Tx) error {
			_, err := b.TryMark(ctx, tx, "e", "", "")
			return err
		})
	}()
	pgtest.Await(t, "the copy waits", func() bool { return db.Waiting(t) == 1 })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := first.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if o := mark(t, db.Pool, b, pginbox.Event{ID: "e"}); o != pginbox.Claimed {
		t.Error(o)
	}
}
