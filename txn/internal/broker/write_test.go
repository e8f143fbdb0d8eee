package broker_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/onceward/onceward/e2e/proxy"
	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/txn/internal/broker"
)

// TestWriteEndsWithItsContext: a write whose reply is lost, and whose brokers then stay out of
// reach, ends with its context. An orderly end of an application waits for such writes.
func TestWriteEndsWithItsContext(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		network := virtual.NewNetwork(t, 1)
		kafka := virtual.NewKafka(t, network, 1, kfake.SeedTopics(1, "rounds"))
		host := network.Host("writer")
		cluster, err := broker.Connect(t.Context(), broker.Config{
			Brokers: kafka.Brokers(), Dialer: host.Dial, Logger: slog.New(slog.DiscardHandler),
		}, "group")
		if err != nil {
			t.Fatal(err)
		}
		defer cluster.Close()
		write := func(ctx context.Context) <-chan error {
			written := make(chan error, 1)
			go func() { written <- cluster.Write(ctx, &broker.Record{Topic: "rounds", Value: []byte("v")}) }()
			return written
		}
		if err := <-write(t.Context()); err != nil {
			t.Fatal(err)
		}
		lost := host.Add(proxy.Match{Key: proxy.KeyProduce, Direction: proxy.ToClient, Limit: 1}, proxy.Drop())
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		written := write(ctx)
		<-time.After(time.Second)
		if lost.Counts().Matched != 1 {
			t.Fatal("no reply was lost")
		}
		host.Down()
		select {
		case err := <-written:
			if err == nil || ctx.Err() == nil {
				t.Errorf("the write ended with %v, and its context is %v", err, ctx.Err())
			}
		case <-time.After(time.Hour):
			t.Error("the write goes on an hour after its context has ended")
		}
		host.Up()
	})
}
