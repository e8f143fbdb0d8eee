package pgqueue

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/processors/postgres/internal/pgtest"
)

// The environment of a child process: the point at which it kills itself, and its database.
const (
	envChild = "PGQUEUE_TEST_CHILD"
	envURL   = "PGQUEUE_TEST_URL"
)

// child runs a worker until its third entry comes to the point, and kills itself there with
// SIGKILL.
func child() int {
	pool, err := pgxpool.New(context.Background(), os.Getenv(envURL))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	q, err := New(Config{Name: "mail", Handle: effect, Pool: pool, Parallel: 1, ClaimFor: time.Hour})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	entries := 0
	q.setAt(func(_ context.Context, point string, _ *Entry) error {
		if point == "claimed" {
			entries++
		}
		if entries == 3 && point == os.Getenv(envChild) {
			pgtest.KillSelf()
		}
		return nil
	})
	fmt.Fprintln(os.Stderr, q.Run(context.Background()))
	return 1
}

// TestKilledAtEveryPoint: of a process that is killed while it is at work on an entry, the entry is
// processed by another one when the claim has expired, unless the transaction has committed. Rows
// of the failure matrix: crash before processing; crash after processing before flush; crash after
// the apply.
func TestKilledAtEveryPoint(t *testing.T) {
	s := newStage(t)
	for i, point := range points {
		s.store(numbered(string(rune('a'+i)), 10, "one")...)
		pgtest.Killed(t, envChild+"="+point, envURL+"="+s.db.URL)
		want := int64(10*i + 2)
		if point == "committed" {
			want++
		}
		if n := s.effects(); n != want {
			t.Errorf("killed when %s: %d effects, want %d", point, n, want)
		}
		s.expire()
		stop := s.start(s.queue("successor", nil))
		s.awaitSettled()
		stop()
		s.judge()
	}
	if n := s.db.Int(t, "SELECT count(*) FROM onceward.queue_decisions WHERE status = 'RETRYABLE_FAILED' AND reason LIKE '%has expired'"); n != 4 {
		t.Errorf("evidence of %d expired claims, want 4", n)
	}
}

// TestAcknowledgedBeforeStored is the negative control: a consumer that commits its position before
// it stores what it has read loses the event when it is killed in between. With the position behind
// the COMMIT the event comes again, and is stored once.
func TestAcknowledgedBeforeStored(t *testing.T) {
	s := newStage(t)
	source := numbered("a", 2)
	position := 0
	consume := func(acknowledgeFirst, killed bool) {
		e := source[position]
		if acknowledgeFirst {
			position++
			if !killed {
				s.store(e)
			}
			return
		}
		s.store(e)
		if !killed {
			position++
		}
	}
	consume(true, true)
	if n := s.with(Received); position != 1 || n != 0 {
		t.Errorf("acknowledged first: %d are acknowledged and %d stored, want 1 and 0", position, n)
	}
	consume(false, true)
	consume(false, false)
	if n := s.with(Received); position != 2 || n != 1 {
		t.Errorf("stored first: %d are acknowledged and %d stored, want 2 and 1", position, n)
	}
	if n := s.with(Duplicate); n != 1 {
		t.Errorf("%d duplicates", n)
	}
}
