package admin

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// TestWithoutGroupCheck is the negative control of the look at the group: without it the request
// itself is refused, because it comes from outside of a group that has members. A transaction would
// not be.
func TestWithoutGroupCheck(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		ctx, network := t.Context(), virtual.NewNetwork(t, 1)
		broker := virtual.NewKafka(t, network, 1, kfake.SeedTopics(1, "in", "out"), kfake.SeedTopics(1, "app-rounds"))
		b := topology.NewBuilder("app")
		topology.From(b, topology.Topic("in", schemas.Bytes(), schemas.Bytes())).Into(topology.Topic("out", schemas.Bytes(), schemas.Bytes()))
		top, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		c, err := ConnectWith(ctx, Config{Brokers: broker.Brokers(), Dialer: network.Host("admin").Dial})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		compact := "compact"
		if _, err := c.adm.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Name: "cleanup.policy", Value: &compact}}, "app-rounds"); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := c.cl.ProduceSync(ctx, &kgo.Record{Topic: "in", Value: []byte("v")}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		assigned := make(chan struct{}, 8)
		member := broker.Client(t, "member", kgo.ConsumerGroup("app"), kgo.ConsumeTopics("in"), kgo.DisableAutoCommit(),
			kgo.OnPartitionsAssigned(func(context.Context, *kgo.Client, map[string][]int32) { assigned <- struct{}{} }))
		select {
		case <-assigned:
		case <-time.After(time.Hour):
			t.Fatal("the member is not assigned anything")
		}
		defer func() { skipGroupCheck = false }()
		for _, skipGroupCheck = range []bool{false, true} {
			report, err := c.Application(top).Reset(ctx, Options{}, Offsets{"in": 2})
			if !errors.Is(err, ErrRefused) {
				t.Fatalf("with a member, and the look left out (%t), the reset returned %+v and %v, want a refusal", skipGroupCheck, report, err)
			}
			if joined := strings.Contains(err.Error(), "has joined the group"); joined != skipGroupCheck {
				t.Errorf("with the look left out (%t) it was refused by: %v", skipGroupCheck, err)
			}
		}
		member.Close()
		if _, err := c.Application(top).Reset(ctx, Options{}, Offsets{"in": 2}); err != nil {
			t.Errorf("without members the reset failed: %v", err)
		}
	})
}
