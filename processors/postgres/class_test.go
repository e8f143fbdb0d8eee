package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onceward/onceward/processors/postgres"
	"github.com/onceward/onceward/processors/postgres/internal/pgtest"
	"github.com/onceward/onceward/topology"
)

func TestClassOf(t *testing.T) {
	state := func(code string) error { return fmt.Errorf("insert: %w", &pgconn.PgError{Code: code}) }
	for _, c := range []struct {
		err         error
		class       topology.Class
		unavailable bool
	}{
		{nil, 0, false},
		{errors.New("?"), topology.Poison, false},
		{topology.Fail(topology.Config, state("40001")), topology.Config, false},
		{state("40001"), topology.Transient, false},
		{state("40P01"), topology.Transient, false},
		{state("55P03"), topology.Transient, false},
		{state("57014"), topology.Transient, false},
		{state("57P01"), topology.Transient, true},
		{state("25P03"), topology.Transient, true},
		{state("25006"), topology.Transient, true},
		{state("08006"), topology.Transient, true},
		{state("53300"), topology.Overload, true},
		{state("53100"), topology.Overload, true},
		{state("22003"), topology.Validation, false},
		{state("23505"), topology.Validation, false},
		{state("42P01"), topology.Config, false},
		{state("42501"), topology.Config, false},
		{state("XX001"), topology.Corruption, false},
		{state("XX000"), topology.Poison, false},
		{state("?"), topology.Poison, false},
		{fmt.Errorf("read: %w", io.ErrUnexpectedEOF), topology.Transient, true},
		{context.DeadlineExceeded, topology.Transient, false},
		{context.Canceled, topology.Transient, false},
		{pgconn.ErrConnClosed, topology.Transient, true},
		{pgx.ErrNoRows, topology.Poison, false},
	} {
		if got := postgres.ClassOf(c.err); got != c.class {
			t.Errorf("%v is %s, want %s", c.err, got, c.class)
		}
		if got := c.err != nil && postgres.Unavailable(c.err); got != c.unavailable {
			t.Errorf("%v: unavailable is %v", c.err, got)
		}
	}
}

// TestClassOfLostConnection: what the driver returns of a session that the server has ended is
// unavailable, and so is a server that is not there.
func TestClassOfLostConnection(t *testing.T) {
	db := pgtest.New(t)
	conn, err := pgx.Connect(t.Context(), db.URL)
	if err != nil {
		t.Fatal(err)
	}
	db.Exec(t, "SELECT pg_terminate_backend($1)", int32(conn.PgConn().PID()))
	for range 2 { // the second time the connection is known to be closed
		_, err := conn.Exec(t.Context(), "SELECT 1")
		if !postgres.Unavailable(err) || postgres.ClassOf(err) != topology.Transient {
			t.Errorf("%v is taken for %s", err, postgres.ClassOf(err))
		}
	}
	_, err = pgx.Connect(t.Context(), "postgres://onceward@127.0.0.1:1/none")
	if !postgres.Unavailable(err) || postgres.ClassOf(err) != topology.Transient {
		t.Errorf("%v is taken for %s", err, postgres.ClassOf(err))
	}
}
