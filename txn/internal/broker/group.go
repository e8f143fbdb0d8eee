package broker

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/txn/internal/assign"
)

// Assignment receives the group's callbacks. They never run at the same time as each other, nor
// between Poll and Release.
type Assignment interface {
	// Assigned is called with added partitions before any of them is fetched. It must not block,
	// and pauses what must wait.
	Assigned(partitions map[string][]int32)
	// Revoked is called with partitions that are being handed over: nothing of them may be
	// processed once it returned.
	Revoked(ctx context.Context, partitions map[string][]int32)
	// Lost is called with partitions that another member owns already.
	Lost(partitions map[string][]int32)
	// Settled is called when an assignment has been taken over: after Revoked and Assigned, and
	// also where neither was called. It must not block.
	Settled()
	// JoinData is what the process says of itself, asked for at every join; the nonce is filled in
	// here. It must not block.
	JoinData() assign.Join
	// Planned is called with the plan of each new assignment, before the callbacks that it leads
	// to, and with whether this process leads the group. It must not block.
	Planned(plan assign.Plan, leader bool)
}

// GroupConfig is a process's membership.
type GroupConfig struct {
	Group string
	// Instance is the stable identity of the process (static membership, KIP-345).
	Instance string
	Topics   []string
	// Cluster is asked for stable offsets.
	Cluster *Cluster
	// Starts are where inputs without a committed offset begin, where that is not the start of the
	// log; nil for none.
	Starts           *Starts
	SessionTimeout   time.Duration
	RebalanceTimeout time.Duration
	FetchWaitMax     time.Duration
	// FetchBytesMax is the most that one fetch brings of a partition, FetchAllBytesMax of all
	// partitions of a broker.
	FetchBytesMax, FetchAllBytesMax int32
}

// Group is the one group member of the process.
type Group struct {
	cl       *kgo.Client
	cfg      GroupConfig
	conn     Config
	balancer *balancer
	begins   *begins
	assigned atomic.Bool
}

// Join makes the group client. Callbacks may come at once.
//
// Balancing is cooperative: only the partitions of tasks that move are revoked. Control records are
// kept, because a position that stays below a trailing marker turns into an out-of-range error once
// retention removes the marker. A position out of range is an error, never a jump: an offset is
// either committed or resolved explicitly. A partition is not fetched before Begin says where its
// task begins.
func Join(cfg Config, gc GroupConfig, a Assignment) (*Group, error) {
	g := &Group{cfg: gc, conn: cfg, balancer: newBalancer(a, cfg.Logger), begins: newBegins(gc.Cluster, gc.Starts)}
	versions := versions()
	versions.SetMaxKeyVersion(keyOffsetFetch, 6) // the last version that answers without waiting for offsets to be stable
	opts := append(cfg.options(),
		kgo.MaxVersions(versions),
		kgo.AdjustFetchOffsetsFn(g.begins.adjust),
		kgo.ConsumerGroup(gc.Group),
		kgo.InstanceID(gc.Instance),
		kgo.ConsumeTopics(gc.Topics...),
		kgo.Balancers(g.balancer),
		kgo.SessionTimeout(gc.SessionTimeout),
		kgo.HeartbeatInterval(min(gc.SessionTimeout/10, heartbeatMax)),
		kgo.RebalanceTimeout(gc.RebalanceTimeout),
		kgo.DisableAutoCommit(),
		kgo.MetadataMaxAge(metadataAge),
		kgo.BlockRebalanceOnPoll(),
		kgo.FetchIsolationLevel(brokenIsolation(cfg.Failpoints, kgo.ReadCommitted())),
		kgo.KeepControlRecords(),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchMaxWait(gc.FetchWaitMax),
		kgo.FetchMaxPartitionBytes(gc.FetchBytesMax),
		kgo.FetchMaxBytes(gc.FetchAllBytesMax),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, ps map[string][]int32) {
			if len(ps) > 0 {
				a.Assigned(ps)
			}
			g.assigned.Store(true)
			a.Settled() // kgo calls this last, with nothing added as well
		}),
		kgo.OnPartitionsRevoked(func(ctx context.Context, _ *kgo.Client, ps map[string][]int32) {
			if len(ps) == 0 {
				return
			}
			a.Revoked(ctx, ps)
			g.begins.remove(ps)
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, ps map[string][]int32) {
			if len(ps) == 0 {
				return
			}
			a.Lost(ps)
			g.begins.remove(ps)
		}),
	)
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("joining group %q: %w", gc.Group, err)
	}
	g.cl = cl
	return g, nil
}

// metadataAge is how late the group's leader plans for partitions that a topic has gained, at most.
const metadataAge = 30 * time.Second

// heartbeatMax is how late a member hears of a rebalance at most, if no peer tells it before. A
// partition that moves is not processed until all members have heard of the rebalance, twice.
const heartbeatMax = 500 * time.Millisecond

// Member returns the member id and the generation, as the group client knows them now. The id is
// empty and the generation negative while there is no membership.
func (g *Group) Member() (id string, generation int32) { return g.cl.GroupMetadata() }

// HasAssignment reports whether the group has ever told this member what it is assigned, and
// Assigned has returned. A member id comes earlier, with the answer to the join.
func (g *Group) HasAssignment() bool { return g.assigned.Load() }

// ForceRebalance joins again with data that differ from the last, so that the coordinator cannot
// ignore it. It does not wait.
func (g *Group) ForceRebalance() {
	g.balancer.nonce.Add(1)
	g.cl.ForceRebalance()
}

// Batch is what one poll has of one partition.
type Batch struct {
	Topic     string
	Partition int32
	Records   []*Record
	// HighWatermark and LastStableOffset are those of the last fetch.
	HighWatermark, LastStableOffset int64
}

// Poll waits for records and gives them to each; it returns everything that went wrong in fetching.
// Until Release no callback runs.
func (g *Group) Poll(ctx context.Context, recordsMax int, each func(Batch)) []*FetchError {
	fetches := g.cl.PollRecords(ctx, recordsMax)
	var errs []*FetchError
	fetches.EachError(func(topic string, partition int32, err error) {
		if ctx.Err() != nil {
			return
		}
		err = shortened(g.conn.denied(err, attempt{operation: Read, topic: topic, group: g.cfg.Group}))
		errs = append(errs, &FetchError{Topic: topic, Partition: partition, Err: err})
	})
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		if len(p.Records) > 0 {
			each(Batch{p.Topic, p.Partition, p.Records, p.HighWatermark, p.LastStableOffset})
		}
	})
	return errs
}

// FetchError is a partition that cannot be fetched. With a negative partition it is about the whole
// topic, with an empty topic about the whole session.
type FetchError struct {
	Topic     string
	Partition int32
	Err       error
}

func (e *FetchError) Error() string {
	if e.Topic == "" {
		return fmt.Sprintf("consuming: %v", e.Err)
	}
	return fmt.Sprintf("fetching %s[%d]: %v", e.Topic, e.Partition, e.Err)
}

// Unwrap returns the cause.
func (e *FetchError) Unwrap() error { return e.Err }

// Release ends what Poll began: callbacks may run again.
func (g *Group) Release() { g.cl.AllowRebalance() }

// Pause and Resume stop and restart fetching of partitions; both are idempotent.
func (g *Group) Pause(topic string, partition int32) {
	g.cl.PauseFetchPartitions(map[string][]int32{topic: {partition}})
}

// Resume is the opposite of Pause.
func (g *Group) Resume(topic string, partition int32) {
	g.cl.ResumeFetchPartitions(map[string][]int32{topic: {partition}})
}

// Close ends the client. As a static member it stays in the group until its session ends or
// LeaveGroup is called.
func (g *Group) Close() { g.cl.CloseAllowingRebalance() }
