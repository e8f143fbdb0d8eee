package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/onceward/onceward/processors/postgres"
	"github.com/onceward/onceward/processors/postgres/internal/pgtest"
	"github.com/onceward/onceward/processors/postgres/pgoutbox"
	"github.com/onceward/onceward/processors/postgres/pgqueue"
	"github.com/onceward/onceward/topology"
)

// suite is all tests of the package, as testscript runs them.
type suite struct{ m *testing.M }

func (s suite) Run() int { return pgtest.Run(s.m) }

func TestMain(m *testing.M) {
	testscript.Main(suite{m}, map[string]func(){
		"onceward-postgres": main,
		"fill":              func() { os.Exit(fill()) },
	})
}

// fill migrates the database and puts entries into a queue and an outbox.
func fill() int {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer pool.Close()
	_, err = postgres.Migrate(ctx, pool)
	q, queueErr := pgqueue.New(pgqueue.Config{Name: "billing", Pool: pool})
	o, outboxErr := pgoutbox.New(pgoutbox.Config{Name: "payments", Pool: pool})
	if err = errors.Join(err, queueErr, outboxErr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	header := []topology.Header{{Key: "note", Value: []byte("secret header")}}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := q.Store(ctx, tx,
			pgqueue.Event{ID: "e1", Type: "paid", Aggregate: "order-7", Source: "payments 0 17", Payload: []byte("secret payload"), Headers: header},
			pgqueue.Event{ID: "e2", Aggregate: "order-7"}, pgqueue.Event{ID: "e1", Payload: []byte("another")})
		return errors.Join(err, o.Append(ctx, tx,
			pgoutbox.Event{ID: "p1", Topic: "payments", Aggregate: "alice", Value: []byte("secret payload"), Headers: header},
			pgoutbox.Event{ID: "p2", Topic: "payments"}))
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// TestScripts runs testdata/*.txtar, each with an empty database.
func TestScripts(t *testing.T) {
	pgtest.Empty(t) // skips the test where there is no server
	testscript.Run(t, testscript.Params{
		Dir:           "testdata",
		UpdateScripts: os.Getenv("UPDATE_SCRIPTS") == "1",
		Setup: func(env *testscript.Env) error {
			env.Setenv("DATABASE_URL", pgtest.Empty(t).URL)
			return nil
		},
	})
}
