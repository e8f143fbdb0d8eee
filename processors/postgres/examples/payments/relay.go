package main

import (
	"context"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/processors/postgres/pgoutbox"
)

// outbox has the steps from the COMMIT of the service until they are published.
func (s settings) outbox(pool *pgxpool.Pool) (*pgoutbox.Outbox, error) {
	return pgoutbox.New(pgoutbox.Config{
		Name:   s.prefix + "outbox",
		Pool:   pool,
		Client: []kgo.Opt{kgo.SeedBrokers(s.brokerList()...)},
		Logger: slog.Default(),
	})
}

// relay publishes steps, in the order of each payment.
func (s settings) relay(ctx context.Context, pool *pgxpool.Pool) error {
	outbox, err := s.outbox(pool)
	if err != nil {
		return err
	}
	return outbox.Run(ctx)
}
