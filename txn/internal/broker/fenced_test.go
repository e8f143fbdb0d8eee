package broker_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/txn/internal/broker"
)

// TestFenced: the group tells the older one of two static members with one instance id from the newer one.
func TestFenced(t *testing.T) {
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "in"))
	if err != nil {
		t.Fatal(err)
	}
	defer fake.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cluster, err := broker.Connect(ctx, broker.Config{Brokers: fake.ListenAddrs(), Logger: slog.New(slog.DiscardHandler)}, "group")
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	join := func() (member string, generation int32) {
		assigned := make(chan struct{}, 1)
		client, err := kgo.NewClient(kgo.SeedBrokers(fake.ListenAddrs()...), kgo.ConsumerGroup("group"), kgo.InstanceID("twin"),
			kgo.ConsumeTopics("in"), kgo.OnPartitionsAssigned(func(context.Context, *kgo.Client, map[string][]int32) {
				select {
				case assigned <- struct{}{}:
				default:
				}
			}))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.CloseAllowingRebalance)
		select {
		case <-assigned:
		case <-ctx.Done():
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
	older, generation := join()
	if fenced(older, generation) {
		t.Error("the only member is fenced")
	}
	newer, next := join()
	if !fenced(older, generation) {
		t.Error("the older member is not fenced")
	}
	if fenced(newer, next) {
		t.Error("the newer member is fenced")
	}
}
