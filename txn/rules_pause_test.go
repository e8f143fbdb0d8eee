package txn_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// TestPausedPartitionComesBack: rule 10.4. A partition is paused, revoked, and assigned again to
// the same client, whose own pause survives all that (TestClientPauseSurvivesRevoke). The reasons
// went with the task, so the next one is given its records: also those that came in between.
func TestPausedPartitionComesBack(t *testing.T) {
	for reason, then := range map[string]topology.Policy{
		"retrying": {Action: topology.Retry, Attempts: 5, Backoff: time.Hour, BackoffMax: time.Hour, Then: topology.Stop},
		"stopped":  {Action: topology.Stop},
	} {
		bubble(t, reason, func(t *testing.T) {
			b := newBroker(t, 2, "in", "out")
			k := newTaker(t, b)
			var failing atomic.Bool
			failing.Store(true)
			build := topology.NewBuilder("counting", topology.OnError(topology.Transient, then))
			topology.From(build, topology.Topic("in", schemas.String(), schemas.String())).
				Peek("flaky", func(r topology.Record[string, string]) error {
					if r.Key == "flaky" && failing.Load() {
						return topology.Fail(topology.Transient, schemas.Reason("not yet"))
					}
					return nil
				}).
				Into(topology.Topic("out", schemas.String(), schemas.String()))
			top, err := build.Build()
			if err != nil {
				t.Fatal(err)
			}
			app, _ := start(t, top, b.config(txn.Config{StateDir: t.TempDir(), Workers: 1}))
			waitFor(t, "both tasks", running(app, 2))
			paused := func() float64 { return scrape(t, app)[`onceward_partitions_paused{reason="`+reason+`"}`] }
			b.produce(t, &kgo.Record{Topic: "in", Partition: 0, Key: []byte("flaky"), Value: []byte("v")})
			waitFor(t, "the partition to be paused", func() bool { return paused() == 1 })
			failing.Store(false)
			k.moveFirst(true)
			waitFor(t, "the partition to move", k.holds)
			b.send(t, "in", "between", 3) // to the first partition
			k.moveFirst(false)
			waitFor(t, "the partition to come back", func() bool { return !k.holds() && running(app, 2)() })
			b.send(t, "in", "after", 3)
			b.read(t, "out", 7)
			if n := paused(); n != 0 {
				t.Errorf("%g partitions are paused still", n)
			}
		})
	}
}

// TestClientPauseSurvivesRevoke: rule 10.4, what it is made for. The client keeps a partition
// paused that was revoked and is assigned to it again, until it is resumed. When this fails the
// client has changed, and what package txn does about it can go.
func TestClientPauseSurvivesRevoke(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 2, "in")
		k := newTaker(t, b)
		var assigned atomic.Int64
		cl := b.client(t, kgo.ConsumerGroup("counting"), kgo.ConsumeTopics("in"),
			kgo.InstanceID("member"), kgo.Balancers(&taker{GroupBalancer: kgo.CooperativeStickyBalancer()}), kgo.DisableAutoCommit(),
			kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, ps map[string][]int32) { assigned.Add(int64(len(ps["in"]))) }),
		)
		waitFor(t, "both partitions", func() bool { return assigned.Load() == 2 })
		first := map[string][]int32{"in": {0}}
		cl.PauseFetchPartitions(first)
		k.moveFirst(true)
		waitFor(t, "the partition to move", k.holds)
		k.moveFirst(false)
		waitFor(t, "the partition to come back", func() bool { return assigned.Load() == 3 })
		poll := func() (from []int32) {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) { from = append(from, r.Partition) })
			return from
		}
		var before []int32
		b.produce(t, &kgo.Record{Topic: "in", Partition: 0}, &kgo.Record{Topic: "in", Partition: 1})
		waitFor(t, "the other partition's record", func() bool {
			before = append(before, poll()...)
			return slices.Contains(before, 1)
		})
		never(t, time.Minute, "the paused partition is fetched", func() bool {
			before = append(before, poll()...)
			return slices.Contains(before, 0)
		})
		cl.ResumeFetchPartitions(first)
		waitFor(t, "the record of the partition that was paused", func() bool { return slices.Contains(poll(), 0) })
	})
}
