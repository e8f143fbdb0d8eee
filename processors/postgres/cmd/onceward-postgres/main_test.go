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
	"github.com/onceward/onceward/processors/postgres/pgrequests"
	"github.com/onceward/onceward/topology"
)

// suite is all tests of the package, as testscript runs them.
type suite struct{ m *testing.M }

func (s suite) Run() int { return pgtest.Run(s.m) }

func TestMain(m *testing.M) {
	testscript.Main(suite{m}, map[string]func(){
		"onceward-postgres": main,
		"fill":              func() { os.Exit(fill()) },
		"replay":            func() { os.Exit(replay(os.Args[1:])) },
	})
}

// fill migrates the database, and fills a queue, an outbox, a sink, an inbox and a store of
// requests.
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
	header := []topology.Header{{Key: "note", Value: []byte("secret header")}, {Key: "note", Value: []byte("another")}}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := q.Store(ctx, tx,
			pgqueue.Event{ID: "e1", Type: "paid", Aggregate: "order-7", Source: "payments 0 17", Payload: []byte("secret payload"), Headers: header},
			pgqueue.Event{ID: "e2", Aggregate: "order-7"}, pgqueue.Event{ID: "e1", Payload: []byte("another")})
		return errors.Join(err, o.Append(ctx, tx,
			pgoutbox.Event{ID: "p1", Topic: "payments", Aggregate: "alice", Value: []byte("secret payload"), Headers: header},
			pgoutbox.Event{ID: "p2", Topic: "payments"}))
	})
	if err == nil {
		err = fillRequests(ctx, pool)
	}
	if err == nil {
		err = fillSink(ctx, pool)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// fillRequests starts four requests. The locks have expired. All but k3 have external effects.
func fillRequests(ctx context.Context, pool *pgxpool.Pool) error {
	s, err := pgrequests.New(pool, "shop")
	if err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		for _, r := range []pgrequests.Request{
			{Scope: pgrequests.Scope{Tenant: "acme", Client: "alice", Operation: "pay", Key: "k1"}, Hash: [32]byte{1}, External: true},
			{Scope: pgrequests.Scope{Operation: "pay", Key: "k2\u009b2J"}, Hash: [32]byte{1}, External: true},
			{Scope: pgrequests.Scope{Operation: "pay", Key: "k3"}, Hash: [32]byte{1}},
			{Scope: pgrequests.Scope{Operation: "pay", Key: "k4"}, Hash: [32]byte{1}, External: true},
		} {
			if _, err := s.StartOrReplay(ctx, tx, r); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, "UPDATE onceward.requests SET locked_until = now() - interval '1 minute'")
		return err
	})
}

// replay sends a copy of a request of fillRequests, with a key and perhaps a tenant and a client, and
// prints what becomes of it.
func replay(args []string) int {
	ctx := context.Background()
	args = append(args, "", "")
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer pool.Close()
	s, err := pgrequests.New(pool, "shop")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		start, err := s.StartOrReplay(ctx, tx, pgrequests.Request{
			Scope: pgrequests.Scope{Tenant: args[1], Client: args[2], Operation: "pay", Key: args[0]}, Hash: [32]byte{1}, External: true,
		})
		fmt.Println(start.Outcome, start.Response.Status, start.Response.Header, string(start.Response.Body))
		return err
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// fillSink stores two offsets of a sink and a record in quarantine, and marks of an inbox, of which
// one is old.
func fillSink(ctx context.Context, pool *pgxpool.Pool) error {
	_, err := pool.Exec(ctx, `
		INSERT INTO onceward.sink_offsets (sink, topic, partition, topic_id, next_offset, generation, owner)
		SELECT 'balances', 'captures', n, gen_random_uuid(), 17 + n, 3, 'host a' FROM generate_series(0, 1) AS n;
		INSERT INTO onceward.sink_quarantine (sink, topic, partition, record_offset, topic_id, record_time, time_type, record_key, record_value,
			header_keys, header_values, class, reason, attempts, first_failure)
		VALUES ('balances', 'captures', 0, 12, gen_random_uuid(), 0, 0, 'secret key', 'secret payload', '{note}', '{secret header}',
			'validation', 'the amount is not a number', 1, now());
		INSERT INTO onceward.inbox (service, event_id, outcome, event_type, subject, marked_at)
		VALUES ('billing', 'new', 1, '', '', now()), ('billing', 'old', 1, '', '', now() - interval '181 days')`)
	return err
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
