package pgqueue_test

import (
	"context"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/processors/postgres/internal/pgtest"
	"github.com/onceward/onceward/processors/postgres/pgqueue"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// A consumer stores what it reads and acknowledges it at once. Workers bill each order once, and
// the events of an order in their order.
func Example() {
	pool, done := pgtest.ExampleDatabase() // pgxpool.New and postgres.Migrate
	defer done()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	if _, err := pool.Exec(ctx, "CREATE TABLE bills (order_id text, cents int)"); err != nil {
		log.Fatal(err)
	}

	queue, err := pgqueue.New(pgqueue.Config{
		Name:     "billing",
		Pool:     pool,
		Parallel: 2,
		Handle: func(ctx context.Context, tx pgx.Tx, e *pgqueue.Entry) (pgqueue.Decision, error) {
			var cents int
			if _, err := fmt.Sscan(string(e.Payload), &cents); err != nil {
				return pgqueue.Decision{}, topology.Fail(topology.Validation, schemas.Reason("the amount is not a number"))
			}
			if cents == 0 {
				return pgqueue.Decision{Status: pgqueue.Ignored, Reason: "nothing to pay"}, nil
			}
			_, err := tx.Exec(ctx, "INSERT INTO bills VALUES ($1, $2)", e.Aggregate, cents)
			return pgqueue.Decision{}, err
		},
	})
	if err != nil {
		log.Fatal(err)
	}

	receive := func(id, order, cents string) {
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			statuses, err := queue.Store(ctx, tx, pgqueue.Event{ID: id, Aggregate: order, Payload: []byte(cents)})
			fmt.Println(id, statuses)
			return err
		})
		if err != nil {
			log.Fatal(err) // not acknowledged: it comes again
		}
		// acknowledge it, or commit its offset, here
	}
	receive("event-1", "order-7", "1250")
	receive("event-1", "order-7", "1250") // delivered twice
	receive("event-2", "order-7", "0")
	receive("event-3", "order-8", "many")

	ended := make(chan error)
	go func() { ended <- queue.Run(ctx) }()
	unfinished := pgqueue.Filter{Statuses: []pgqueue.Status{pgqueue.Received, pgqueue.Claimed}}
	for {
		left, err := queue.List(ctx, unfinished, 1)
		if err != nil {
			log.Fatal(err)
		}
		if len(left) == 0 {
			break
		}
	}
	stop()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}

	all, err := queue.List(context.Background(), pgqueue.Filter{}, 10)
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range all {
		fmt.Printf("%s %s %q\n", e.ID, e.Status, e.Reason)
	}
	// Output:
	// event-1 [RECEIVED]
	// event-1 [DUPLICATE]
	// event-2 [RECEIVED]
	// event-3 [RECEIVED]
	// event-1 PROCESSED ""
	// event-1 DUPLICATE ""
	// event-2 IGNORED "nothing to pay"
	// event-3 QUARANTINED "the amount is not a number"
}
