package txn_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/txn"
)

// unstable has the broker answer that the offset of in[partition] is not stable, to every request
// for stable offsets that names it, until the function that it returns is called. A pending commit
// hides nothing from other requests. The other partitions of "in" have the offsets committed.
func (b *testBroker) unstable(partition int32, committed map[int32]int64) (end func()) {
	var over atomic.Bool
	b.ControlKey(keyOffsetFetch, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		if over.Load() {
			return nil, nil, false
		}
		b.KeepControl()
		req := kreq.(*kmsg.OffsetFetchRequest)
		if !req.RequireStable || len(req.Groups) != 1 || !namesPartition(req.Groups[0].Topics, partition) {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
		group := kmsg.NewOffsetFetchResponseGroup()
		group.Group = req.Groups[0].Group
		for _, topic := range req.Groups[0].Topics {
			rt := kmsg.NewOffsetFetchResponseGroupTopic()
			rt.Topic = topic.Topic
			for _, p := range topic.Partitions {
				rp := kmsg.NewOffsetFetchResponseGroupTopicPartition()
				rp.Partition, rp.Offset, rp.LeaderEpoch = p, -1, -1
				if at, has := committed[p]; has {
					rp.Offset = at
				}
				if p == partition {
					rp.Offset, rp.ErrorCode = -1, kerr.UnstableOffsetCommit.Code
				}
				rt.Partitions = append(rt.Partitions, rp)
			}
			group.Topics = append(group.Topics, rt)
		}
		resp.Groups = append(resp.Groups, group)
		return resp, nil, true
	})
	return func() { over.Store(true) }
}

func namesPartition(topics []kmsg.OffsetFetchRequestGroupTopic, partition int32) bool {
	for _, topic := range topics {
		for _, p := range topic.Partitions {
			if topic.Topic == "in" && p == partition {
				return true
			}
		}
	}
	return false
}

// TestUnstableOffsetHoldsUpNoNeighbour: rule 7.1. A task whose committed offset is not stable
// waits, and its neighbour processes its records: the one that is assigned together with it, and
// the one that runs already. When the offset is stable the task goes on there, from wherever the
// group has committed it or its input begins.
func TestUnstableOffsetHoldsUpNoNeighbour(t *testing.T) {
	put := func(t *testing.T, b *testBroker, partition int32, n int) {
		t.Helper()
		for range n {
			b.produce(t, &kgo.Record{Topic: "in", Partition: partition, Key: []byte{'k', '0' + byte(partition)}, Value: []byte("v")})
		}
	}
	bubble(t, "assigned together, first life", func(t *testing.T) {
		b := newBroker(t, 2, "in", "out")
		end := b.unstable(0, nil)
		put(t, b, 0, 5)
		put(t, b, 1, 5)
		app, _ := start(t, countTopology(t), b.config(txn.Config{StateDir: t.TempDir(), Workers: 1}))
		b.read(t, "out", 5)
		if running(app, 2)() {
			t.Error("the task was opened although its offset is not stable")
		}
		end()
		b.read(t, "out", 10)
	})
	bubble(t, "assigned together, later life", func(t *testing.T) {
		b := newBroker(t, 2, "in", "out")
		cfg := b.config(txn.Config{StateDir: t.TempDir(), Workers: 1})
		_, stop := start(t, countTopology(t), cfg)
		put(t, b, 0, 5)
		put(t, b, 1, 5)
		b.read(t, "out", 10)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		end := b.unstable(0, b.committed(t))
		app, _ := start(t, countTopology(t), cfg)
		put(t, b, 1, 5)
		b.read(t, "out", 15)
		time.Sleep(time.Minute)
		if running(app, 2)() {
			t.Error("the task was opened although its offset is not stable")
		}
		var checked atomic.Bool // whether the log was truncated (rule 11.4), by the leader epoch that was committed with the offset
		b.ControlKey(keyEpochEnd, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
			b.KeepControl()
			for _, topic := range kreq.(*kmsg.OffsetForLeaderEpochRequest).Topics {
				for _, p := range topic.Partitions {
					if topic.Topic == "in" && p.Partition == 0 {
						checked.Store(true)
					}
				}
			}
			return nil, nil, false
		})
		end()
		waitFor(t, "the task to run", running(app, 2))
		if err := b.MoveTopicPartition("in", 0, 0); err != nil { // to a higher leader epoch
			t.Fatal(err)
		}
		waitFor(t, "the log to be checked", checked.Load)
		put(t, b, 0, 5)
		check(t, b.read(t, "out", 20), 10)
	})
	bubble(t, "running already", func(t *testing.T) {
		b := newBroker(t, 2, "in", "out")
		cfg := b.config(txn.Config{StateDir: t.TempDir(), Workers: 1, Instance: "one"})
		one, _ := start(t, countTopology(t), cfg)
		waitFor(t, "both tasks", running(one, 2))
		cfg.StateDir, cfg.Instance = t.TempDir(), "two"
		two, stop := start(t, countTopology(t), cfg)
		waitFor(t, "a task each", func() bool { return running(one, 1)() && running(two, 1)() })
		away := two.Status().Tasks[0].ID.Partition
		put(t, b, 0, 5)
		put(t, b, 1, 5)
		b.read(t, "out", 10)
		end := b.unstable(away, b.committed(t))
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		waitFor(t, "the task to come", func() bool { return len(one.Status().Tasks) == 2 })
		put(t, b, 0, 5)
		put(t, b, 1, 5)
		b.read(t, "out", 15)
		end()
		check(t, b.read(t, "out", 20), 10)
	})
}
