package pgoutbox_test

import (
	"context"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/processors/postgres/internal/pgtest"
	"github.com/onceward/onceward/processors/postgres/pgoutbox"
)

// A service stores a payment and the event that tells of it in one transaction. A relay publishes
// the event when the transaction has committed.
func Example() {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "payments"))
	if err != nil {
		log.Fatal(err)
	}
	defer broker.Close()
	pool, done := pgtest.ExampleDatabase() // pgxpool.New and postgres.Migrate
	defer done()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	if _, err := pool.Exec(ctx, "CREATE TABLE payments (id text PRIMARY KEY, account text, cents int)"); err != nil {
		log.Fatal(err)
	}

	outbox, err := pgoutbox.New(pgoutbox.Config{
		Name:   "payments",
		Pool:   pool,
		Client: []kgo.Opt{kgo.SeedBrokers(broker.ListenAddrs()...)},
	})
	if err != nil {
		log.Fatal(err)
	}
	pay := func(id, account string, cents int) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "INSERT INTO payments VALUES ($1, $2, $3)", id, account, cents); err != nil {
				return err
			}
			event := pgoutbox.Event{ID: "paid-" + id, Topic: "payments", Aggregate: account, Value: fmt.Append(nil, cents)}
			return outbox.Append(ctx, tx, event)
		})
	}
	ended := make(chan error)
	go func() { ended <- outbox.Run(ctx) }()

	if err := pay("1", "alice", 1250); err != nil {
		log.Fatal(err)
	}
	if err := pay("1", "alice", 1250); err != nil { // rolled back, with the event
		fmt.Println("the second payment has failed")
	}
	if err := pay("2", "alice", 300); err != nil {
		log.Fatal(err)
	}

	consumer, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...), kgo.ConsumeTopics("payments"))
	if err != nil {
		log.Fatal(err)
	}
	defer consumer.Close()
	for read := 0; read < 2; {
		fetches := consumer.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			log.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			read++
			fmt.Printf("%s %s: %s=%s\n", r.Key, r.Value, r.Headers[0].Key, r.Headers[0].Value)
		})
	}
	stop()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}
	// Output:
	// the second payment has failed
	// alice 1250: onceward.event-id=paid-1
	// alice 300: onceward.event-id=paid-2
}
