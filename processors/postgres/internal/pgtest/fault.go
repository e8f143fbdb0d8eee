package pgtest

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// CommitFault is what happens to a COMMIT on its way.
type CommitFault int

const (
	// CommitLost: it does not reach the server, and the connection is cut.
	CommitLost CommitFault = iota + 1
	// CommitUnanswered: it reaches the server, and the connection is cut before the answer.
	CommitUnanswered
	// CommitLate: the client sees its connection cut, and what it has sent reaches the server when
	// [Cutter.Deliver] says so.
	CommitLate
)

// Full has the server say, of each write to the tables, that its disk is full, until heal is
// called.
func (db *Database) Full(t testing.TB, tables ...string) (heal func()) {
	t.Helper()
	db.Exec(t, `CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN RAISE 'could not extend file: no space left on device' USING ERRCODE = 'disk_full'; END $$`)
	for _, table := range tables {
		db.Exec(t, "CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE ON "+table+" FOR EACH ROW EXECUTE FUNCTION full_disk()")
	}
	return func() {
		t.Helper()
		db.Exec(t, "DROP FUNCTION full_disk CASCADE")
	}
}

// Cutter cuts connections of a pool while they commit.
type Cutter struct {
	mu     sync.Mutex
	faults []CommitFault // of the next commits; 0 is none
	late   []func()
	Cuts   int // how many connections were cut; read it when nothing is at work
}

// Pool returns a pool on the database whose connections the cutter can cut.
func (c *Cutter) Pool(t testing.TB, db *Database, change func(c *pgxpool.Config)) *pgxpool.Pool {
	return db.NewPool(t, func(config *pgxpool.Config) {
		dial := config.ConnConfig.DialFunc
		config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &cutConn{Conn: conn, cutter: c}, nil
		}
		if change != nil {
			change(config)
		}
	})
}

// Next says what happens to the next commits, one each.
func (c *Cutter) Next(faults ...CommitFault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = append(c.faults, faults...)
}

// Happened returns how many commits have been cut.
func (c *Cutter) Happened() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Cuts
}

// Deliver lets the commits that are late reach the server.
func (c *Cutter) Deliver() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, deliver := range c.late {
		deliver()
	}
	c.late = nil
}

func (c *Cutter) take() (f CommitFault) {
	if len(c.faults) > 0 {
		f, c.faults = c.faults[0], c.faults[1:]
	}
	if f != 0 {
		c.Cuts++
	}
	return f
}

// errCut is the error of a connection that the other side has reset.
var errCut = &net.OpError{Op: "write", Net: "test", Err: syscall.ECONNRESET}

// commitMessage is pgx's simple query of a COMMIT.
var commitMessage = []byte("Q\x00\x00\x00\x0bcommit\x00")

type cutConn struct {
	net.Conn
	cutter *Cutter
	mu     sync.Mutex
	cut    bool
}

func (c *cutConn) Write(b []byte) (int, error) {
	if c.isCut() {
		return 0, errCut
	}
	if !bytes.Equal(b, commitMessage) {
		return c.Conn.Write(b)
	}
	c.cutter.mu.Lock()
	defer c.cutter.mu.Unlock()
	switch f := c.cutter.take(); f {
	case CommitLost:
		c.setCut()
		return 0, errors.Join(errCut, c.Conn.Close())
	case CommitUnanswered:
		if n, err := c.Conn.Write(b); err != nil {
			return n, err
		}
		answer := make([]byte, 1)
		if _, err := c.Conn.Read(answer); err != nil { // the server has answered, so it has committed
			return 0, err
		}
		c.setCut()
		return 0, errors.Join(errCut, c.Conn.Close())
	case CommitLate:
		c.setCut()
		late := bytes.Clone(b)
		c.cutter.late = append(c.cutter.late, func() {
			// An error is one more way for the commit not to arrive.
			_, _ = c.Conn.Write(late)
			_, _ = c.Conn.Read(make([]byte, 1))
			_ = c.Conn.Close()
		})
		return 0, errCut
	}
	return c.Conn.Write(b)
}

func (c *cutConn) Read(b []byte) (int, error) {
	if c.isCut() {
		return 0, errCut
	}
	return c.Conn.Read(b)
}

// Close leaves the connection of a late commit open: the server must not see its end before the
// commit.
func (c *cutConn) Close() error {
	if c.isCut() {
		return nil
	}
	return c.Conn.Close()
}

func (c *cutConn) isCut() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cut
}

func (c *cutConn) setCut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = true
}
