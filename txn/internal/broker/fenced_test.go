package broker_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/txn/internal/broker"
)

// TestFenced: the group tells the older one of two static members with one instance id from the
// newer one.
func TestFenced(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		ctx, network := t.Context(), virtual.NewNetwork(t, 1)
		kafka := virtual.NewKafka(t, network, 1, kfake.SeedTopics(1, "in"))
		cluster, err := broker.Connect(ctx, broker.Config{
			Brokers: kafka.Brokers(), Dialer: network.Host("observer").Dial, Logger: slog.New(slog.DiscardHandler),
		}, "group")
		if err != nil {
			t.Fatal(err)
		}
		defer cluster.Close()
		join := func(host string) (member string, generation int32) {
			assigned := make(chan struct{}, 1)
			client := kafka.Client(t, host, kgo.ConsumerGroup("group"), kgo.InstanceID("twin"), kgo.ConsumeTopics("in"),
				kgo.OnPartitionsAssigned(func(context.Context, *kgo.Client, map[string][]int32) {
					select {
					case assigned <- struct{}{}:
					default:
					}
				}))
			select {
			case <-assigned:
			case <-time.After(time.Hour):
				t.Fatal("it is assigned nothing")
			}
			return client.GroupMetadata()
		}
		fenced := func(member string, generation int32) bool {
			t.Helper()
			yes, err := cluster.Fenced(ctx, member, generation, "twin")
			if err != nil {
				t.Fatal(err)
			}
			return yes
		}
		older, generation := join("older")
		if fenced(older, generation) {
			t.Error("the only member is fenced")
		}
		newer, next := join("newer")
		if !fenced(older, generation) {
			t.Error("the older member is not fenced")
		}
		if fenced(newer, next) {
			t.Error("the newer member is fenced")
		}
	})
}
