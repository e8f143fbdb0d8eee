package pginbox_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/processors/postgres/internal/pgtest"
	"github.com/onceward/onceward/processors/postgres/pginbox"
)

// The traps are ways to handle events that look like an inbox. Each test shows that a schedule
// breaks the naive way, which is the negative control, and that the same schedule does not break
// the inbox.

// scene is a database on which a service adds up amounts.
type scene struct {
	t     *testing.T
	db    *pgtest.Database
	inbox *pginbox.Inbox
}

func newScene(t *testing.T, opts ...pginbox.Option) *scene {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE account (balance int); INSERT INTO account VALUES (0); CREATE TABLE seen (id text PRIMARY KEY)")
	return &scene{t, db, newInbox(t, db.Pool, opts...)}
}

func (s *scene) effect(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, "UPDATE account SET balance = balance + 10")
	return err
}

// expect compares the balance.
func (s *scene) expect(who string, want int64) {
	s.t.Helper()
	if got := s.db.Int(s.t, "SELECT balance FROM account"); got != want {
		s.t.Errorf("%s: the balance is %d, want %d", who, got, want)
	}
	s.db.Exec(s.t, "UPDATE account SET balance = 0")
}

// once handles an event with the inbox; after is called before the COMMIT and can make it fail.
func (s *scene) once(id string, after func() error) error {
	return pgx.BeginFunc(s.t.Context(), s.db.Pool, func(tx pgx.Tx) error {
		claimed, err := s.inbox.TryMark(s.t.Context(), tx, id, "", "")
		if err != nil || !claimed {
			return err
		}
		return errors.Join(s.effect(s.t.Context(), tx), after())
	})
}

func (s *scene) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func nothing() error { return nil }

// TestTrapCheckThenInsert: two copies that both look first find nothing, and both have the effect.
func TestTrapCheckThenInsert(t *testing.T) {
	s := newScene(t)
	pgtest.Both(func(meet func()) {
		exists, err := s.inbox.Exists(t.Context(), "e")
		if err != nil || exists {
			t.Errorf("exists %v, %v", exists, err)
		}
		meet()
		if !exists {
			if err := pgx.BeginFunc(t.Context(), s.db.Pool, func(tx pgx.Tx) error {
				if err := s.effect(t.Context(), tx); err != nil {
					return err
				}
				_, err := s.inbox.TryMark(t.Context(), tx, "e", "", "") // as an insert whose answer is not looked at
				return err
			}); err != nil {
				t.Error(err)
			}
		}
	})
	s.expect("check, then insert", 20)

	pgtest.Both(func(meet func()) {
		meet()
		if err := s.once("e2", nothing); err != nil {
			t.Error(err)
		}
	})
	s.expect("inbox", 10)
}

var errKilled = errors.New("killed")

// TestTrapMarkerBeforeEffect: with a marker that commits first, a crash before the effect loses the
// effect.
func TestTrapMarkerBeforeEffect(t *testing.T) {
	s := newScene(t)
	naive := func(crash bool) error {
		tag, err := s.db.Pool.Exec(t.Context(), "INSERT INTO seen VALUES ('e') ON CONFLICT DO NOTHING")
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		if crash {
			return errKilled
		}
		return pgx.BeginFunc(t.Context(), s.db.Pool, func(tx pgx.Tx) error { return s.effect(t.Context(), tx) })
	}
	if err := naive(true); !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	s.must(naive(false))
	s.expect("marker before effect", 0)

	if err := s.once("e", func() error { return errKilled }); !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	s.must(s.once("e", nothing))
	s.expect("inbox", 10)
}

// TestTrapMarkerInAnotherTransaction: with a marker that commits after the effect, a crash between
// them repeats the effect.
func TestTrapMarkerInAnotherTransaction(t *testing.T) {
	s := newScene(t)
	naive := func(crash bool) error {
		if s.db.Int(t, "SELECT count(*) FROM seen") > 0 {
			return nil
		}
		if err := pgx.BeginFunc(t.Context(), s.db.Pool, func(tx pgx.Tx) error { return s.effect(t.Context(), tx) }); err != nil {
			return err
		}
		if crash {
			return errKilled
		}
		_, err := s.db.Pool.Exec(t.Context(), "INSERT INTO seen VALUES ('e')")
		return err
	}
	if err := naive(true); !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	s.must(naive(false))
	s.expect("marker in another transaction", 20)

	if err := s.once("e", func() error { return errKilled }); !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	s.must(s.once("e", nothing))
	s.must(s.once("e", nothing))
	s.expect("inbox", 10)
}

// TestTrapDedupeInMemory: what a process has seen is gone after a restart, and another process
// never knew it.
func TestTrapDedupeInMemory(t *testing.T) {
	s := newScene(t)
	process := func() func() error {
		seen := map[string]bool{}
		return func() error {
			if seen["e"] {
				return nil
			}
			seen["e"] = true
			return pgx.BeginFunc(t.Context(), s.db.Pool, func(tx pgx.Tx) error { return s.effect(t.Context(), tx) })
		}
	}
	first := process()
	s.must(first())
	s.must(first())
	s.must(process()())
	s.expect("dedupe in memory", 20)

	s.must(s.once("e", nothing))
	s.inbox = newInbox(t, s.db.Pool) // another process
	s.must(s.once("e", nothing))
	s.expect("inbox", 10)
}

// TestTrapRetentionBelowReplayWindow: an event that comes again after its mark was deleted has its
// effect again. An inbox with a ReplayWindow refuses such a retention, and one that knows the time
// of the event calls it late.
func TestTrapRetentionBelowReplayWindow(t *testing.T) {
	const retention, replayWindow = time.Hour, 24 * time.Hour
	s := newScene(t, pginbox.Retention(retention))
	forget := func() {
		t.Helper()
		s.db.Exec(t, "UPDATE onceward.inbox SET marked_at = marked_at - interval '2 hours'") // two hours pass
		if n, err := s.inbox.Clean(t.Context(), 10); n != 1 || err != nil {
			t.Fatalf("forgotten: %d, %v", n, err)
		}
	}
	s.must(s.once("e", nothing))
	forget()
	s.must(s.once("e", nothing))
	s.expect("retention below the replay window", 20)

	if _, err := pginbox.New(s.db.Pool, "billing", pginbox.Retention(retention), pginbox.ReplayWindow(replayWindow)); err == nil {
		t.Error("the retention is accepted")
	}
	forget()
	if o := mark(t, s.db.Pool, s.inbox, pginbox.Event{ID: "e", Time: time.Now().Add(-2 * time.Hour)}); o != pginbox.Late {
		t.Errorf("an event of two hours ago is %s", o)
	}
}
