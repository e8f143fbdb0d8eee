package benchtopics

import (
	"context"
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestCluster(t *testing.T) {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	ctx := t.Context()
	c, err := Connect(broker.ListenAddrs())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Create(ctx, 2, map[string]string{"cleanup.policy": "compact"}, "app-1-a", "app-1-b", "app-10-a"); err != nil {
		t.Fatal(err)
	}
	if err := c.Create(ctx, 2, nil, "app-1-a"); err == nil {
		t.Error("a topic is made twice")
	}
	configs, err := c.adm.DescribeTopicConfigs(ctx, "app-1-b")
	if err != nil {
		t.Fatal(err)
	}
	policy := ""
	for _, config := range configs[0].Configs {
		if config.Key == "cleanup.policy" {
			policy = config.MaybeValue()
		}
	}
	if policy != "compact" {
		t.Errorf("the policy is %q", policy)
	}

	record := kgo.Record{Topic: "app-1-a", Value: []byte("v")}
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ConsumerGroup("readers"), kgo.ConsumeTopics("app-1-a"))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.ProduceSync(ctx, &record).FirstErr(); err != nil {
		t.Fatal(err)
	}
	for partition, want := range []int64{1, 0} {
		if end, err := c.End(ctx, "app-1-a", int32(partition)); err != nil || end != want {
			t.Errorf("partition %d ends at %d, %v", partition, end, err)
		}
	}
	if _, err := c.End(ctx, "app-1-a", 2); err == nil {
		t.Error("a partition that is not there has an end")
	}

	if err := c.AwaitShares(ctx, "readers", "app-1-a", 1); err != nil {
		t.Error(err)
	}
	stopped, stop := context.WithCancel(ctx)
	stop()
	if err := c.AwaitEmpty(stopped, "readers"); !errors.Is(err, context.Canceled) {
		t.Errorf("a group with a member is empty: %v", err)
	}
	cl.LeaveGroup()
	for _, group := range []string{"readers", "never there"} {
		if err := errors.Join(c.AwaitEmpty(ctx, group), c.DeleteGroup(ctx, group)); err != nil {
			t.Errorf("group %s: %v", group, err)
		}
	}

	if err := errors.Join(c.DeletePrefix(ctx, "app-1-"), c.Delete(ctx, "never-there")); err != nil {
		t.Error(err)
	}
	err = Poll(ctx, "the topics to be gone", func() (bool, error) { // what the client knows may be some milliseconds old
		listed, err := c.adm.ListTopics(ctx)
		if err == nil && !listed.Has("app-10-a") {
			t.Error("another application's topic is gone")
		}
		return len(listed) == 1, err
	})
	if err != nil {
		t.Error(err)
	}
}
