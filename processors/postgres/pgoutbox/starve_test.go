package pgoutbox

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/processors/postgres/internal/pgtest"
)

// TestFailingEntriesLeaveRoom: entries that fail each time, and are more than a batch, do not keep
// others from being published.
func TestFailingEntriesLeaveRoom(t *testing.T) {
	onStage(t, func(s *stage) {
		missing := s.c.Name(s.t, "missing")
		for i := range 10 {
			s.append(Event{ID: fmt.Sprint("x", i), Topic: missing, Aggregate: fmt.Sprint("missing ", i)})
		}
		s.append(s.numbered("a", 20, "one", "")...)
		s.start(s.outbox("relay", func(c *Config) {
			c.BatchRecords, c.RetryMin, c.RetryMax = 4, time.Millisecond, time.Millisecond
			c.Client = append(c.Client, kgo.UnknownTopicRetries(1))
		}))
		pgtest.Await(s.t, "the others are published", func() bool { return s.with(Published) == 20 })
	})
}

// halfDead is a cluster of two brokers. The broker of the topic "dead" refuses every record, as one
// does that is not the leader any more; "works" has the other broker.
func halfDead(t *testing.T) (seeds []string) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(2), kfake.SeedTopics(1, "dead", "works"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	for i, topic := range []string{"works", "dead"} {
		if err := c.MoveTopicPartition(topic, 0, int32(i)); err != nil {
			t.Fatal(err)
		}
	}
	c.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if c.CurrentNode() == 0 {
			return nil, nil, false
		}
		req := r.(*kmsg.ProduceRequest)
		resp := req.ResponseKind().(*kmsg.ProduceResponse)
		for _, topic := range req.Topics {
			refused := kmsg.NewProduceResponseTopic()
			refused.Topic, refused.TopicID = topic.Topic, topic.TopicID
			for _, p := range topic.Partitions {
				partition := kmsg.NewProduceResponseTopicPartition()
				partition.Partition, partition.ErrorCode = p.Partition, kerr.NotLeaderForPartition.Code
				refused.Partitions = append(refused.Partitions, partition)
			}
			resp.Topics = append(resp.Topics, refused)
		}
		return resp, nil, true
	})
	return c.ListenAddrs()
}

// onHalfDead returns a stage on such a cluster, and a relay on it.
func onHalfDead(t *testing.T, change func(c *Config)) (*stage, *Outbox) {
	t.Helper()
	s := &stage{t: t, db: pgtest.New(t), seeds: halfDead(t), topic: "works"}
	return s, s.outbox("relay", func(c *Config) {
		c.Client = append(c.Client, kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }))
		change(c)
	})
}

// TestDeadPartitionLeavesRoom: a batch in which each record is of a partition that takes none is no
// reason to try this batch for ever. Row of the failure matrix: failing dependency.
func TestDeadPartitionLeavesRoom(t *testing.T) {
	s, o := onHalfDead(t, func(c *Config) { c.BatchRecords, c.DeliveryTimeout = 4, time.Second })
	s.append(dead(10)...)
	s.append(s.numbered("a", 4)...)
	s.start(o)
	pgtest.Await(t, "the others are published", func() bool { return s.with(Published) == 4 })
}

func dead(n int) (all []Event) {
	for i := range n {
		all = append(all, Event{ID: fmt.Sprint("x", i), Topic: "dead"})
	}
	return all
}

// TestDeadPartitionIsNotWaitedFor: a batch ends when its other records are published, long before
// the time of a record is over. A batch of which nothing was published waits for all of that time.
func TestDeadPartitionIsNotWaitedFor(t *testing.T) {
	s, o := onHalfDead(t, func(c *Config) { c.DeliveryTimeout = time.Hour })
	o.straggleMax = 100 * time.Millisecond
	s.append(append(dead(1), s.numbered("a", 4)...)...)
	s.start(o)
	pgtest.Await(t, "the others are published", func() bool { return s.with(Published) == 4 })
	failing, err := o.List(t.Context(), Filter{Failing: true}, 10)
	if err != nil || len(failing) != 1 || !strings.Contains(failing[0].Reason, errNoAnswer.Error()) {
		t.Errorf("failing are %+v, %v", failing, err)
	}
}

// TestBatchIsBounded: a batch has no more bytes than the relay wants in memory, and one entry at
// least.
func TestBatchIsBounded(t *testing.T) {
	onStage(t, func(s *stage) {
		o := s.outbox("relay", nil)
		o.batchBytes = 1000
		batches := 0
		o.setAt(func(_ context.Context, point string) error {
			if point == "committed" {
				batches++
			}
			return nil
		})
		events := s.numbered("a", 6, "one")
		for i := range events {
			events[i].Value = make([]byte, 400)
		}
		events[4].Value = make([]byte, 2000)
		s.append(events...)
		stop := s.start(o)
		s.awaitPublished()
		stop()
		s.judge()
		if batches != 4 { // two, two, the long one, the last one
			s.t.Errorf("%d batches, want 4", batches)
		}
		if n := testutil.ToFloat64(o.metrics.published); n != 6 {
			s.t.Errorf("%v are published", n)
		}
	})
}
