package pgrequests_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/processors/postgres/internal/pgtest"
	"github.com/onceward/onceward/processors/postgres/pgrequests"
)

// The traps are ways to answer requests that look idempotent. Each test shows that a schedule
// breaks the naive way, which is the negative control, and that the same schedule does not break
// the store.

// scene is a database on which a service adds up amounts.
type scene struct {
	t     *testing.T
	db    *pgtest.Database
	store *pgrequests.Store
}

func newScene(t *testing.T, opts ...pgrequests.Option) *scene {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE account (balance int); INSERT INTO account VALUES (0); CREATE TABLE seen (key text PRIMARY KEY, answer text)")
	return &scene{t, db, newStore(t, db.Pool, opts...)}
}

func (s *scene) effect(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, "UPDATE account SET balance = balance + 10")
	return err
}

// alone has the effect in a transaction of its own.
func (s *scene) alone() error {
	return pgx.BeginFunc(s.t.Context(), s.db.Pool, func(tx pgx.Tx) error { return s.effect(s.t.Context(), tx) })
}

// expect compares the balance.
func (s *scene) expect(who string, want int64) {
	s.t.Helper()
	if got := s.db.Int(s.t, "SELECT balance FROM account"); got != want {
		s.t.Errorf("%s: the balance is %d, want %d", who, got, want)
	}
	s.db.Exec(s.t, "UPDATE account SET balance = 0")
}

// once handles a request with the store; after is called before the COMMIT and can make it fail.
func (s *scene) once(key string, after func() error) (outcome pgrequests.Outcome, err error) {
	err = pgx.BeginFunc(s.t.Context(), s.db.Pool, func(tx pgx.Tx) error {
		start, err := s.store.StartOrReplay(s.t.Context(), tx, request(key, "10"))
		outcome = start.Outcome
		if err != nil || outcome != pgrequests.Started {
			return err
		}
		if err := s.effect(s.t.Context(), tx); err != nil {
			return err
		}
		return errors.Join(s.store.Complete(s.t.Context(), tx, start.Claim, receipt), after())
	})
	return outcome, err
}

// answered handles a request and fails unless it has the outcome.
func (s *scene) answered(key string, want pgrequests.Outcome) {
	s.t.Helper()
	if got, err := s.once(key, nothing); got != want || err != nil {
		s.t.Errorf("%s is %s, %v, want %s", key, got, err, want)
	}
}

func nothing() error { return nil }

var errKilled = errors.New("killed")

func killed() error { return errKilled }

// TestTrapCheckThenInsert: two copies that both look first find nothing, and both have the effect.
func TestTrapCheckThenInsert(t *testing.T) {
	s := newScene(t)
	pgtest.Both(func(meet func()) {
		_, found, err := s.store.Find(t.Context(), request("a", "").Scope)
		if err != nil || found {
			t.Errorf("found %v, %v", found, err)
		}
		meet()
		if !found {
			if err := s.alone(); err != nil {
				t.Error(err)
			}
			if _, err := s.db.Pool.Exec(t.Context(), "INSERT INTO seen VALUES ('a', 'receipt') ON CONFLICT DO NOTHING"); err != nil {
				t.Error(err)
			}
		}
	})
	s.expect("check, then insert", 20)

	pgtest.Both(func(meet func()) {
		meet()
		if _, err := s.once("b", nothing); err != nil {
			t.Error(err)
		}
	})
	s.expect("store", 10)
}

// TestTrapMarkerBeforeEffect: with a marker that commits first, a crash before the effect loses the
// effect. The retry is told that it was done, or is in progress for ever.
func TestTrapMarkerBeforeEffect(t *testing.T) {
	s := newScene(t)
	naive := func(crash bool) error {
		tag, err := s.db.Pool.Exec(t.Context(), "INSERT INTO seen VALUES ('a', 'receipt') ON CONFLICT DO NOTHING")
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		if crash {
			return errKilled
		}
		return s.alone()
	}
	if err := naive(true); !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	must(t, naive(false))
	s.expect("marker before effect", 0)

	if _, err := s.once("a", killed); !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	s.answered("a", pgrequests.Started)
	s.expect("store", 10)

	// With two transactions the marker does come first. Its lock expires.
	begin(t, s.db.Pool, s.store, request("b", "10"))
	s.answered("b", pgrequests.InProgress)
	passTime(t, s.db, pgrequests.DefaultLock)
	s.answered("b", pgrequests.Started)
	s.expect("store with two transactions", 10)
}

// TestTrapMarkerInAnotherTransaction: with an answer that is stored after the effect, a crash
// between them repeats the effect.
func TestTrapMarkerInAnotherTransaction(t *testing.T) {
	s := newScene(t)
	naive := func(crash bool) error {
		if s.db.Int(t, "SELECT count(*) FROM seen") > 0 {
			return nil
		}
		if err := s.alone(); err != nil {
			return err
		}
		if crash {
			return errKilled
		}
		_, err := s.db.Pool.Exec(t.Context(), "INSERT INTO seen VALUES ('a', 'receipt')")
		return err
	}
	if err := naive(true); !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	must(t, naive(false))
	s.expect("marker in another transaction", 20)

	if _, err := s.once("a", killed); !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	s.answered("a", pgrequests.Started)
	s.answered("a", pgrequests.Replayed)
	s.expect("store", 10)
}

// TestTrapAnswersInMemory: the answers of a process are gone after a restart, and another process
// never had them.
func TestTrapAnswersInMemory(t *testing.T) {
	s := newScene(t)
	process := func() func() error {
		answers := map[string]string{}
		return func() error {
			if answers["a"] != "" {
				return nil
			}
			answers["a"] = "receipt"
			return s.alone()
		}
	}
	first := process()
	must(t, first())
	must(t, first())
	must(t, process()())
	s.expect("answers in memory", 20)

	s.answered("a", pgrequests.Started)
	s.store = newStore(t, s.db.Pool) // another process
	s.answered("a", pgrequests.Replayed)
	s.expect("store", 10)
}

// TestTrapRowsExpireWithTheirAnswers: where a row is removed with its answer, a retry after the
// time to live has the effect again. The store refuses the retry until its audit retention is over.
// Then the same happens. Row of the failure matrix: replay after expiry.
func TestTrapRowsExpireWithTheirAnswers(t *testing.T) {
	s := newScene(t, pgrequests.TimeToLive(ttl), pgrequests.AuditRetention(audit))
	naive := func() error {
		tag, err := s.db.Pool.Exec(t.Context(), "INSERT INTO seen VALUES ('a', 'receipt') ON CONFLICT DO NOTHING")
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		return s.alone()
	}
	must(t, naive())
	must(t, naive())
	s.db.Exec(t, "DELETE FROM seen") // the time to live is over
	must(t, naive())
	s.expect("rows that expire with their answers", 20)

	cleanAfter := func(d time.Duration) {
		t.Helper()
		passTime(t, s.db, d)
		if _, err := s.store.Clean(t.Context(), 10); err != nil {
			t.Fatal(err)
		}
	}
	s.answered("a", pgrequests.Started)
	cleanAfter(ttl + time.Second)
	s.answered("a", pgrequests.Expired)
	s.expect("store", 10)
	cleanAfter(audit)
	s.answered("a", pgrequests.Started)
	s.expect("store behind its audit retention", 10)
}

// TestTrapKeyWithoutHash: where only the key is compared, another request under it gets the answer
// of the first, and is never done.
func TestTrapKeyWithoutHash(t *testing.T) {
	s := newScene(t)
	naive := func(answer string) (got string) {
		must(t, s.db.Pool.QueryRow(t.Context(), `WITH made AS (INSERT INTO seen VALUES ('a', $1) ON CONFLICT DO NOTHING RETURNING answer)
			SELECT answer FROM made UNION ALL SELECT answer FROM seen WHERE key = 'a'`, answer).Scan(&got))
		return got
	}
	if first, second := naive("paid 10"), naive("paid 11"); first != "paid 10" || second != "paid 10" {
		t.Errorf("the answers are %q and %q", first, second)
	}
	for i, want := range []pgrequests.Outcome{pgrequests.Started, pgrequests.Conflict} {
		expect(t, s.db.Pool, s.store, request("a", fmt.Sprint("pay ", i)), want)
	}
}
