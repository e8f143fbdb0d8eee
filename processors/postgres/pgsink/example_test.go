package pgsink_test

import (
	"context"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/processors/postgres/internal/pgtest"
	"github.com/onceward/onceward/processors/postgres/pgsink"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// A sink keeps the balance of each account. Nothing in Apply guards against a record that is read
// twice: none is applied twice.
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
	if _, err := pool.Exec(ctx, "CREATE TABLE balances (account text PRIMARY KEY, cents bigint NOT NULL)"); err != nil {
		log.Fatal(err)
	}
	producer, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...), kgo.DefaultProduceTopic("payments"))
	if err != nil {
		log.Fatal(err)
	}
	defer producer.Close()
	for _, payment := range []struct{ account, cents string }{{"alice", "1250"}, {"bob", "300"}, {"alice", "many"}, {"alice", "-250"}} {
		r := &kgo.Record{Key: []byte(payment.account), Value: []byte(payment.cents)}
		if err := producer.ProduceSync(ctx, r).FirstErr(); err != nil {
			log.Fatal(err)
		}
	}

	sink, err := pgsink.New(pgsink.Config{
		Name:     "balances",
		Topics:   []string{"payments"},
		Pool:     pool,
		Client:   []kgo.Opt{kgo.SeedBrokers(broker.ListenAddrs()...)},
		Parallel: 2,
		Apply: pgsink.Each(func(ctx context.Context, tx pgx.Tx, r *kgo.Record) error {
			var cents int64
			if _, err := fmt.Sscan(string(r.Value), &cents); err != nil {
				return topology.Fail(topology.Validation, schemas.Reason("the amount is not a number"))
			}
			_, err := tx.Exec(ctx, `INSERT INTO balances VALUES ($1, $2)
				ON CONFLICT (account) DO UPDATE SET cents = balances.cents + EXCLUDED.cents`, string(r.Key), cents)
			return err
		}),
	})
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- sink.Run(ctx) }()

	var balance int64
	for balance != 1000 { // a reader sees whole batches
		err := pool.QueryRow(ctx, "SELECT coalesce(sum(cents), 0) FROM balances WHERE account = 'alice'").Scan(&balance)
		if err != nil {
			log.Fatal(err)
		}
	}
	refused, err := pgsink.Quarantined(ctx, pool, "balances", 10)
	if err != nil {
		log.Fatal(err)
	}
	stop()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}
	fmt.Println("alice has", balance, "cents")
	for _, f := range refused {
		fmt.Printf("offset %d is in quarantine: %s: %s\n", f.Record.Offset, f.Class, f.Reason)
	}
	// Output:
	// alice has 1000 cents
	// offset 2 is in quarantine: validation: the amount is not a number
}
