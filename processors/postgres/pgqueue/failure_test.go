package pgqueue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/onceward/onceward/processors/postgres"
	"github.com/onceward/onceward/processors/postgres/internal/pgtest"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// once calls f at the point when a worker comes there for the first time.
func once(q *Queue, point string, f func(ctx context.Context) error) {
	var done atomic.Bool
	q.setAt(func(ctx context.Context, at string, _ *Entry) error {
		if at != point || !done.CompareAndSwap(false, true) {
			return nil
		}
		return f(ctx)
	})
}

// TestSessionsTerminatedAtEveryPoint: whenever the server ends the sessions of a worker, each event
// has its effect once. Row of the failure matrix: broker restart.
func TestSessionsTerminatedAtEveryPoint(t *testing.T) {
	s := newStage(t)
	for i, point := range points {
		q := s.queue("worker", func(c *Config) { c.ClaimFor = 5 * time.Second })
		var ended int64
		once(q, point, func(context.Context) error {
			ended = s.db.Terminate(t, "worker")
			return nil
		})
		s.store(numbered(string(rune('a'+i)), 20, "one", "two")...)
		stop := s.start(q)
		s.awaitSettled()
		stop()
		if ended == 0 {
			t.Errorf("%s: no session was terminated", point)
		}
		s.judge()
	}
}

// TestCommitInDoubt: a COMMIT without an answer may have taken effect or not; the entry is
// processed once either way, and the queue says which it was. Row of the failure matrix: crash
// after end before the local apply.
func TestCommitInDoubt(t *testing.T) {
	for _, c := range []struct {
		fault   pgtest.CommitFault
		effects int64 // before the entry is tried again
	}{{pgtest.CommitLost, 0}, {pgtest.CommitUnanswered, 1}, {pgtest.CommitLate, 1}} {
		t.Run(fmt.Sprint(c.fault), func(t *testing.T) {
			s := newStage(t)
			cut := &pgtest.Cutter{}
			config := s.config("worker", nil)
			config.Pool = cut.Pool(t, s.db, nil)
			config.Parallel, config.RetryMin, config.RetryMax = 1, time.Hour, time.Hour
			q, err := New(config)
			if err != nil {
				t.Fatal(err)
			}
			once(q, "settled", func(context.Context) error {
				cut.Next(c.fault) // the slot is taken, so the next COMMIT is that of the entry
				return nil
			})
			s.store(numbered("a", 2, "one")...)
			s.start(q)
			if c.fault == pgtest.CommitLate {
				pgtest.Await(t, "the end of the claim waits for the transaction in doubt", func() bool { return s.db.Waiting(t) == 1 })
				cut.Deliver()
			}
			resolved := func() float64 {
				return testutil.ToFloat64(q.metrics.tookEffect) + testutil.ToFloat64(q.metrics.hadNoEffect)
			}
			pgtest.Await(t, "the commit is resolved", func() bool { return resolved() == 1 })
			if took := testutil.ToFloat64(q.metrics.tookEffect); took != float64(c.effects) {
				t.Errorf("commits that took effect: %v, want %d", took, c.effects)
			}
			if n := s.db.Int(t, "SELECT count(*) FROM effects WHERE event_id = 'a00000'"); n != c.effects {
				t.Errorf("%d effects before it is tried again, want %d", n, c.effects)
			}
			s.db.Exec(t, "UPDATE onceward.queue SET due_at = now() WHERE status = 'RETRYABLE_FAILED'") // the pause is over
			s.awaitSettled()
			s.judge()
		})
	}
}

// TestClaimInDoubt: a claim whose COMMIT took effect without an answer belongs to no worker, and
// expires.
func TestClaimInDoubt(t *testing.T) {
	s := newStage(t)
	cut := &pgtest.Cutter{}
	config := s.config("worker", nil)
	config.Pool, config.ClaimFor = cut.Pool(t, s.db, nil), time.Hour
	q, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	s.store(Event{ID: "a"})
	cut.Next(pgtest.CommitUnanswered)
	s.start(q)
	pgtest.Await(t, "it is claimed", func() bool { return s.with(Claimed) == 1 })
	s.expire()
	s.awaitSettled()
	s.judge()
	if n := s.db.Int(t, "SELECT claims FROM onceward.queue"); n != 2 || testutil.ToFloat64(q.metrics.expired) != 1 {
		t.Errorf("%d claims, %v expired", n, testutil.ToFloat64(q.metrics.expired))
	}
}

// TestExpiredClaimIsFenced: a worker that was frozen with a claim, and comes back when it has
// expired, settles nothing, whether another worker has taken the entry or not. Row of the failure
// matrix: worker frozen past its session and back. The negative control settles without the claim.
// Requirement M3.
func TestExpiredClaimIsFenced(t *testing.T) {
	for _, c := range []struct {
		name    string
		broken  bool
		taken   bool
		effects int64
	}{{"taken by another worker", false, true, 1}, {"taken by none", false, false, 1}, {"without the fence", true, true, 2}} {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t)
			frozen, thaw := make(chan struct{}), make(chan struct{})
			q := s.queue("frozen", func(c *Config) { c.Parallel = 1 })
			once(q, "handled", func(context.Context) error {
				close(frozen)
				<-thaw
				return nil
			})
			if c.broken {
				q.breakFence()
			}
			s.store(Event{ID: "a", Aggregate: "one"})
			stop := s.start(q)
			<-frozen
			s.expire()
			if c.taken {
				stopOther := s.start(s.queue("other", nil))
				pgtest.Await(t, "the other worker has processed it", func() bool { return s.with(Processed) == 1 })
				stopOther()
			}
			close(thaw)
			if c.broken {
				pgtest.Await(t, "both have had an effect", func() bool { return s.effects() == 2 })
			} else {
				pgtest.Await(t, "the frozen worker is fenced", func() bool { return testutil.ToFloat64(q.metrics.fenced) == 1 })
			}
			s.awaitSettled()
			stop()
			if n := s.effects(); n != c.effects {
				t.Errorf("%d effects, want %d", n, c.effects)
			}
			if wrong := s.verdict(); (len(wrong) > 0) != c.broken {
				t.Errorf("the verdict is %q", wrong)
			}
		})
	}
}

// TestFrozenTransactionIsEnded: the server ends the transaction of a worker that has frozen in it,
// so that its locks do not hold up the next one.
func TestFrozenTransactionIsEnded(t *testing.T) {
	s := newStage(t)
	s.db.Exec(t, "CREATE TABLE balance (cents int); INSERT INTO balance VALUES (0)")
	thaw := make(chan struct{})
	change := func(c *Config) {
		c.ClaimFor = 500 * time.Millisecond
		c.Handle = func(ctx context.Context, tx pgx.Tx, e *Entry) (Decision, error) {
			if _, err := tx.Exec(ctx, "UPDATE balance SET cents = cents + 1"); err != nil {
				return Decision{}, err
			}
			return effect(ctx, tx, e)
		}
	}
	q := s.queue("frozen", change)
	once(q, "handled", func(context.Context) error {
		<-thaw
		return nil
	})
	s.store(Event{ID: "a"})
	stop := s.start(q)
	pgtest.Await(t, "it is claimed", func() bool { return s.with(Claimed) == 1 })
	s.start(s.queue("other", change))
	s.awaitSettled()
	close(thaw)
	stop()
	s.judge()
	if n := s.db.Int(t, "SELECT cents FROM balance"); n != 1 {
		t.Errorf("the balance is %d", n)
	}
}

// TestSlowHandlerIsQuarantined: a handler that is never done when its claim expires is not called
// for ever.
func TestSlowHandlerIsQuarantined(t *testing.T) {
	s := newStage(t)
	q := s.queue("worker", func(c *Config) {
		c.ClaimFor, c.Attempts = 50*time.Millisecond, 2
		c.Handle = func(ctx context.Context, tx pgx.Tx, _ *Entry) (Decision, error) {
			_, err := tx.Exec(ctx, "SELECT pg_sleep(3600)")
			return Decision{}, err
		}
	})
	s.store(Event{ID: "a"})
	s.start(q)
	pgtest.Await(t, "it is quarantined", func() bool { return s.with(Quarantined) == 1 })
	all, err := q.List(t.Context(), Filter{}, 1)
	if err != nil || !strings.Contains(all[0].Reason, "expired") || all[0].Attempts != 2 { // by the worker, or by the next claim
		t.Errorf("the entry is %+v, %v", all, err)
	}
}

// TestPoisonThatEndsProcesses: an entry whose claims expire because it ends every process that
// handles it goes to quarantine. Each time it pauses, so that the entries that were at work beside
// it get through without it. Row of the failure matrix: poison payload.
func TestPoisonThatEndsProcesses(t *testing.T) {
	s := newStage(t)
	s.store(Event{ID: "a"})
	q := s.queue("worker", func(c *Config) { c.Attempts, c.RetryMin, c.RetryMax = 3, time.Hour, time.Hour })
	claim := func(want int) {
		t.Helper()
		c, err := q.claim(t.Context(), 1, 1)
		if err != nil || len(c.entries) != want {
			t.Fatalf("%d entries are claimed, want %d: %v", len(c.entries), want, err)
		}
	}
	for range 2 {
		claim(1) // the process ends here
		s.expire()
		claim(0)
		if n := s.db.Int(t, "SELECT count(*) FROM onceward.queue WHERE status = 'RETRYABLE_FAILED' AND due_at > now() + interval '29 minutes'"); n != 1 {
			t.Fatal("the entry whose claim has expired does not pause")
		}
		s.db.Exec(t, "UPDATE onceward.queue SET due_at = now()")
	}
	claim(1)
	s.expire()
	claim(0)
	all, err := q.List(t.Context(), Filter{Statuses: []Status{Quarantined}}, 1)
	if err != nil || len(all) != 1 || all[0].Class != topology.Poison || !strings.Contains(all[0].Reason, "the last of 3 attempts") {
		t.Errorf("the entry is %+v, %v", all, err)
	}
}

// TestPoisonForTheTransaction: a handler whose transaction ends in the same way each time, on a
// server that works, is to blame for that: the entry goes to quarantine, and is not tried for ever.
// Row of the failure matrix: poison payload.
func TestPoisonForTheTransaction(t *testing.T) {
	for name, fail := range map[string]func(ctx context.Context, s *stage, tx pgx.Tx) error{
		"deferred constraint": func(ctx context.Context, _ *stage, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO late VALUES (1), (1)")
			return err
		},
		"terminates its session": func(ctx context.Context, _ *stage, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "SELECT pg_terminate_backend(pg_backend_pid())")
			return err
		},
		"terminates its session in silence": func(ctx context.Context, _ *stage, tx pgx.Tx) error {
			_, _ = tx.Exec(ctx, "SELECT pg_terminate_backend(pg_backend_pid())")
			return nil
		},
		"context of the handler ends": func(ctx context.Context, s *stage, tx pgx.Tx) error {
			return s.db.Interrupted(ctx, s.t, tx)
		},
		"serialization failure": func(ctx context.Context, _ *stage, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "DO $$ BEGIN RAISE 'again' USING ERRCODE = '40001'; END $$")
			return err
		},
		"failure in silence": func(ctx context.Context, _ *stage, tx pgx.Tx) error {
			_, _ = tx.Exec(ctx, "SELECT 1/0")
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.db.Exec(t, "CREATE TABLE late (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
			s.store(Event{ID: "poison"}, Event{ID: "a"})
			s.db.Exec(t, "UPDATE onceward.queue SET claims = $1", contendedCounts-2)
			s.start(s.queue("worker", func(c *Config) {
				c.Attempts = 2
				c.Handle = func(ctx context.Context, tx pgx.Tx, e *Entry) (Decision, error) {
					if e.ID == "poison" {
						if err := fail(ctx, s, tx); err != nil {
							return Decision{}, err
						}
					}
					return effect(ctx, tx, e)
				}
			}))
			pgtest.Await(t, "the entry is in quarantine, and the other one is processed", func() bool {
				return s.with(Quarantined) == 1 && s.with(Processed) == 1
			})
			s.judge()
		})
	}
}

// TestHandlerMisusesItsTransaction: a handler that ends the transaction by a statement, or leaves
// it unusable, stops the workers.
func TestHandlerMisusesItsTransaction(t *testing.T) {
	for name, handle := range map[string]func(ctx context.Context, tx pgx.Tx) error{
		"has ended the transaction": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "ROLLBACK")
			return err
		},
		"has left the rows of a query open": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Query(ctx, "SELECT 1") //nolint:rowserrcheck,sqlclosecheck // the mistake of this test
			return err
		},
		"must not commit or roll back": func(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.store(Event{ID: "a"})
			err := s.queue("worker", func(c *Config) {
				c.Handle = func(ctx context.Context, tx pgx.Tx, _ *Entry) (Decision, error) { return Decision{}, handle(ctx, tx) }
			}).Run(t.Context())
			if f, ok := errors.AsType[*Failure](err); !ok || f.Class != topology.Config || !strings.Contains(f.Error(), name) {
				t.Errorf("Run: %v", err)
			}
			if n := s.with(RetryableFailed); n != 1 {
				t.Errorf("%d entries wait to be tried again", n)
			}
		})
	}
}

// TestReasonsAreMadeStorable: a reason that PostgreSQL cannot store does not fail the work that it
// is about.
func TestReasonsAreMadeStorable(t *testing.T) {
	s := newStage(t)
	const bad = "a\x00b\xff"
	s.store(Event{ID: "ignored"}, Event{ID: "refused"})
	s.start(s.queue("worker", func(c *Config) {
		c.Handle = func(_ context.Context, _ pgx.Tx, e *Entry) (Decision, error) {
			if e.ID == "refused" {
				return Decision{}, topology.Fail(topology.Validation, schemas.Reason(bad))
			}
			return Decision{Status: Ignored, Reason: bad + strings.Repeat("x", 5000)}, nil
		}
	}))
	pgtest.Await(t, "both are decided", func() bool { return s.with(Ignored) == 1 && s.with(Quarantined) == 1 })
	if n := s.db.Int(t, "SELECT count(*) FROM onceward.queue WHERE reason LIKE 'a\uFFFDb%' AND length(reason) <= 1024"); n != 2 {
		t.Errorf("%d entries have the reason", n)
	}
}

// TestLongClaims: a claim can last for longer than the server's limits can say.
func TestLongClaims(t *testing.T) {
	s := newStage(t)
	s.store(Event{ID: "a"})
	s.start(s.queue("worker", func(c *Config) { c.ClaimFor = 50 * 24 * time.Hour }))
	s.awaitSettled()
}

// TestContention: serialization failures and deadlocks are tried again until they pass, and not
// held against the entry.
func TestContention(t *testing.T) {
	s := newStage(t)
	s.db.Exec(t, "CREATE TABLE rows (id int, n int); INSERT INTO rows VALUES (0, 0), (1, 0)")
	var met sync.WaitGroup
	met.Add(2)
	var first [2]atomic.Bool
	q := s.queue("worker", func(c *Config) {
		c.Parallel = 3
		c.Handle = func(ctx context.Context, tx pgx.Tx, e *Entry) (Decision, error) {
			if e.ID == "serialization" && e.Claims < 4 {
				_, err := tx.Exec(ctx, "DO $$ BEGIN RAISE EXCEPTION 'contended' USING ERRCODE = 'serialization_failure'; END $$")
				return Decision{}, err
			}
			var own int
			if _, err := fmt.Sscan(e.ID, &own); err == nil { // the two entries lock the rows in opposite orders
				for i := range 2 {
					if _, err := tx.Exec(ctx, "UPDATE rows SET n = n + 1 WHERE id = $1", (own+i)%2); err != nil {
						return Decision{}, err
					}
					if first[own].CompareAndSwap(false, true) {
						met.Done()
						met.Wait()
					}
				}
			}
			return effect(ctx, tx, e)
		}
	})
	s.store(Event{ID: "serialization"}, Event{ID: "0"}, Event{ID: "1"})
	s.start(q)
	s.awaitSettled()
	s.judge()
	if n := s.db.Int(t, "SELECT sum(n) FROM rows"); n != 4 {
		t.Errorf("the rows add up to %d, want 4", n)
	}
	if n := s.db.Int(t, "SELECT claims FROM onceward.queue WHERE event_id = 'serialization'"); n != 4 {
		t.Errorf("%d claims of the entry that could not be serialized, want 4", n)
	}
}

// TestDependencyFails: an entry is tried again while what its handler needs fails. Row of the
// failure matrix: failing dependency.
func TestDependencyFails(t *testing.T) {
	s := newStage(t)
	var calls atomic.Int64
	s.store(Event{ID: "a"}, Event{ID: "b"})
	s.start(s.queue("worker", func(c *Config) {
		c.Attempts = 5
		c.Handle = func(ctx context.Context, tx pgx.Tx, e *Entry) (Decision, error) {
			if e.ID == "a" && calls.Add(1) < 5 {
				return Decision{}, topology.Fail(topology.Transient, errors.New("the gateway does not answer"))
			}
			return effect(ctx, tx, e)
		}
	}))
	s.awaitSettled()
	s.judge()
}

// TestDiskFull: while the disk of the server is full nothing is held against an entry, and workers
// go on when it has room. Row of the failure matrix: disk full.
func TestDiskFull(t *testing.T) {
	s := newStage(t)
	s.store(numbered("a", 4, "one", "")...)
	heal := s.db.Full(t, "effects", "onceward.queue_decisions")
	var calls atomic.Int64
	s.start(s.queue("worker", func(c *Config) {
		c.Attempts = 3 // one can count: the disk has room when the end of its claim is recorded
		c.Handle = func(ctx context.Context, tx pgx.Tx, e *Entry) (Decision, error) {
			calls.Add(1)
			return effect(ctx, tx, e)
		}
	}))
	pgtest.Await(t, "the handler has failed", func() bool { return calls.Load() >= 2 })
	heal()
	s.awaitSettled()
	s.judge()
	if n := s.effects(); n != 4 {
		t.Errorf("%d effects", n)
	}
}

// TestServerCrash: what was stored and settled is there after a crash of the server, and workers go
// on by themselves. Row of the failure matrix: broker restart.
func TestServerCrash(t *testing.T) {
	server, db := pgtest.Own(t)
	if _, err := postgres.Migrate(t.Context(), db.Pool); err != nil {
		t.Fatal(err)
	}
	s := &stage{t: t, db: db}
	s.db.Exec(t, effectsTable)
	s.store(numbered("a", 50, "one", "two")...)
	q := s.queue("worker", func(c *Config) { c.ClaimFor = 2 * time.Second })
	crash, back := make(chan struct{}), make(chan struct{})
	once(q, "settled", func(context.Context) error {
		close(crash)
		<-back
		return nil
	})
	s.start(q)
	<-crash
	server.Kill(t)
	close(back)
	server.Resume(t)
	pgtest.Await(t, "the pool of the test has new connections", func() bool { return db.Pool.Ping(t.Context()) == nil })
	s.awaitSettled()
	s.judge()
	if n := s.effects(); n != 50 {
		t.Errorf("%d effects", n)
	}
}

// TestTrapClaimWithoutLock is the negative control of claims: workers that read first and then
// write take the same entry.
func TestTrapClaimWithoutLock(t *testing.T) {
	s := newStage(t)
	s.store(Event{ID: "a"})
	var met, wg sync.WaitGroup
	met.Add(2)
	var taken atomic.Int64
	for range 2 {
		wg.Go(func() {
			var entry int64
			if err := s.db.Pool.QueryRow(t.Context(), "SELECT entry FROM onceward.queue WHERE status = 'RECEIVED'").Scan(&entry); err != nil {
				t.Error(err)
			}
			met.Done()
			met.Wait()
			tag, err := s.db.Pool.Exec(t.Context(), "UPDATE onceward.queue SET status = 'CLAIMED' WHERE entry = $1", entry)
			if err != nil {
				t.Error(err)
			}
			taken.Add(tag.RowsAffected())
		})
	}
	wg.Wait()
	if taken.Load() != 2 {
		t.Errorf("select, then update: %d have taken the entry, want 2", taken.Load())
	}

	s.db.Exec(t, "UPDATE onceward.queue SET status = 'RECEIVED'")
	taken.Store(0)
	for range 2 {
		wg.Go(func() {
			c, err := s.queue("worker", func(c *Config) { c.Pool = s.db.NewPool(t, func(*pgxpool.Config) {}) }).claim(t.Context(), 1, 1)
			if err != nil {
				t.Error(err)
			}
			taken.Add(int64(len(c.entries)))
		})
	}
	wg.Wait()
	if taken.Load() != 1 {
		t.Errorf("the queue: %d have taken the entry", taken.Load())
	}
}
