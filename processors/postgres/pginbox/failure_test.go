package pginbox_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/processors/postgres"
	"github.com/onceward/onceward/processors/postgres/internal/pgtest"
	"github.com/onceward/onceward/processors/postgres/pginbox"
	"github.com/onceward/onceward/topology"
)

// consumer handles one event as the package documentation says. A fault hits it at a point, once.
type consumer struct {
	t     *testing.T
	db    *pgtest.Database
	pool  *pgxpool.Pool
	cut   *pgtest.Cutter
	point string
	fault func(c *consumer, conn *pgx.Conn) error
}

const application = "consumer"

func newConsumer(t *testing.T) *consumer {
	c := &consumer{t: t, db: pgtest.New(t), cut: &pgtest.Cutter{}}
	c.db.Exec(t, "CREATE TABLE effects (id text)")
	c.pool = c.cut.Pool(t, c.db, pgtest.Named(application))
	return c
}

// points are those between receiving an event and acknowledging it.
var points = []string{"received", "begun", "marked", "effected", "committed"}

// at is called at each point.
func (c *consumer) at(point string, conn *pgx.Conn) error {
	if point != c.point {
		return nil
	}
	c.point = ""
	return c.fault(c, conn)
}

// deliver handles the event and acknowledges it by returning nil.
func (c *consumer) deliver(b *pginbox.Inbox, id string) error {
	ctx := c.t.Context()
	if err := c.at("received", nil); err != nil {
		return err
	}
	tx, err := c.pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }() // after a COMMIT, or on a connection that is gone, it has nothing to do
	if err := c.at("begun", tx.Conn()); err != nil {
		return err
	}
	claimed, err := b.TryMark(ctx, tx, id, "", "")
	if err != nil {
		return err
	}
	if err := c.at("marked", tx.Conn()); err != nil {
		return err
	}
	if claimed {
		if _, err := tx.Exec(ctx, "INSERT INTO effects VALUES ($1)", id); err != nil {
			return err
		}
	}
	if err := c.at("effected", tx.Conn()); err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return err
	}
	return c.at("committed", nil)
}

var errCrash = errors.New("crash")

// TestFaultAtEveryPoint: whatever happens between receiving an event and acknowledging it, the
// event has one effect in the end. A crash cuts the connection without a word. Rows of the failure
// matrix: crash before processing; crash after the apply; duplicate delivery.
func TestFaultAtEveryPoint(t *testing.T) {
	c := newConsumer(t)
	b := newInbox(t, c.pool)
	n := 0
	for name, fault := range map[string]func(c *consumer, conn *pgx.Conn) error{
		"crash": func(_ *consumer, conn *pgx.Conn) error {
			if conn != nil {
				_ = conn.PgConn().Conn().Close() // the process would not ask either
			}
			return errCrash
		},
		"terminated session": func(c *consumer, _ *pgx.Conn) error {
			c.db.Terminate(c.t, application)
			return nil
		},
	} {
		for _, point := range points {
			n++
			id := fmt.Sprint("e", n)
			c.point, c.fault = point, fault
			attempts := 1
			for err := c.deliver(b, id); err != nil; err = c.deliver(b, id) {
				if !errors.Is(err, errCrash) && postgres.ClassOf(err) != topology.Transient {
					t.Fatalf("%s when %s: %v", name, point, err)
				}
				attempts++
			}
			if c.point != "" {
				t.Errorf("%s when %s: the point was not passed", name, point)
			}
			inTransaction := point == "begun" || point == "marked" || point == "effected"
			if attempts == 1 && (name == "crash" || inTransaction) {
				t.Errorf("%s when %s: nothing has failed", name, point)
			}
			if effects := c.db.Int(t, "SELECT count(*) FROM effects WHERE id = $1", id); effects != 1 {
				t.Errorf("%s when %s: %d effects after %d deliveries", name, point, effects, attempts)
			}
		}
	}
}

// TestCommitInDoubt: a COMMIT without an answer may have taken effect or not; the event that comes
// again has its effect once either way.
func TestCommitInDoubt(t *testing.T) {
	for fault, effects := range map[pgtest.CommitFault]int64{pgtest.CommitLost: 0, pgtest.CommitUnanswered: 1} {
		t.Run(fmt.Sprint("effects before it comes again ", effects), func(t *testing.T) {
			c := newConsumer(t)
			b := newInbox(t, c.pool)
			c.cut.Next(fault)
			if err := c.deliver(b, "e"); err == nil || c.cut.Cuts != 1 {
				t.Fatalf("%d cuts, %v", c.cut.Cuts, err)
			}
			if n := c.db.Int(t, "SELECT count(*) FROM effects"); n != effects {
				t.Errorf("%d effects before the event comes again", n)
			}
			if err := c.deliver(b, "e"); err != nil {
				t.Fatal(err)
			}
			if n := c.db.Int(t, "SELECT count(*) FROM effects"); n != 1 {
				t.Errorf("%d effects", n)
			}
		})
	}
}

// TestCommitComesLate: a COMMIT that its sender takes for lost reaches the server while a copy of
// the event is at work. The copy waits and is a duplicate.
func TestCommitComesLate(t *testing.T) {
	c := newConsumer(t)
	b := newInbox(t, c.pool)
	c.cut.Next(pgtest.CommitLate)
	if err := c.deliver(b, "e"); err == nil {
		t.Fatal("the commit was answered")
	}
	again := make(chan error, 1)
	go func() { again <- c.deliver(b, "e") }()
	pgtest.Await(t, "the copy waits", func() bool { return c.db.Waiting(t) == 1 })
	c.cut.Deliver()
	if err := <-again; err != nil {
		t.Fatal(err)
	}
	if n := c.db.Int(t, "SELECT count(*) FROM effects"); n != 1 {
		t.Errorf("%d effects", n)
	}
}

// TestServerCrash: what was marked and committed is there after a crash of the server, and what was
// not has left nothing. Row of the failure matrix: broker restart.
func TestServerCrash(t *testing.T) {
	server, db := pgtest.Own(t)
	if _, err := postgres.Migrate(t.Context(), db.Pool); err != nil {
		t.Fatal(err)
	}
	b := newInbox(t, db.Pool)
	mark(t, db.Pool, b, pginbox.Event{ID: "committed"})
	tx, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.TryMark(t.Context(), tx, "open", "", ""); err != nil {
		t.Fatal(err)
	}
	server.Kill(t)
	if err := tx.Commit(t.Context()); !postgres.Unavailable(err) {
		t.Errorf("the commit is answered by %v", err)
	}
	server.Resume(t)
	for id, want := range map[string]bool{"committed": true, "open": false} {
		var exists bool
		err := errors.New("not asked")
		for attempts := 0; err != nil && attempts < 10; attempts++ { // connections of the pool are dead
			exists, err = b.Exists(t.Context(), id)
		}
		if exists != want || err != nil {
			t.Errorf("%s is there: %v, %v", id, exists, err)
		}
	}
}
