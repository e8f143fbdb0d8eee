package broker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/txn/internal/backoff"
)

// begins is where the consumer begins in each partition that it is assigned.
//
// The client asks the group for the offsets of all partitions that are added at once, and fetches
// none of them before it has all. One whose offset stays unstable would hold up the others for as
// long as that lasts. The client therefore asks for unstable offsets, and adjust replaces all of
// them: by the stable offset if there is one, else by a placeholder. The task of a partition with a
// placeholder reads its stable offset by itself, and Begin moves the consumer there. Until then the
// partition is paused: Assignment.Assigned has seen to that.
//
// It is safe for concurrent use.
type begins struct {
	cluster *Cluster
	starts  *Starts

	mu sync.Mutex
	// at is where a task begins, as it has said.
	at map[topicPartition]int64
	// given is the offset that the consumer was given in each partition: a number, logStart, or
	// unknown for a placeholder.
	given map[topicPartition]int64
	// adjusted is closed and replaced when partitions are added to given.
	adjusted chan struct{}
}

func newBegins(c *Cluster, s *Starts) *begins {
	return &begins{
		cluster: c, starts: s, at: map[topicPartition]int64{}, given: map[topicPartition]int64{}, adjusted: make(chan struct{}),
	}
}

// adjustMax is how long adjust waits for the stable offsets. Partitions that are added wait as
// well, so it is short: without an answer all of them get placeholders.
const adjustMax = 5 * time.Second

// Values of begins.given that are no number.
const (
	unknown  = -1
	logStart = -2
)

// adjust replaces the offsets that the client has been told.
func (b *begins) adjust(ctx context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	partitions := map[string][]int32{}
	for topic, ps := range offsets {
		for p := range ps {
			partitions[topic] = append(partitions[topic], p)
		}
	}
	within, cancel := context.WithTimeout(ctx, adjustMax)
	defer cancel()
	stable, _, err := b.cluster.offsetsOnce(within, partitions, true)
	if ctx.Err() != nil {
		return nil, ctx.Err() // a rebalance, after which the client asks again
	}
	if err != nil {
		b.cluster.cfg.Logger.Warn("the stable offsets are not known yet, and each task asks for its own", "error", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for topic, ps := range partitions {
		for _, p := range ps {
			offsets[topic][p], b.given[topicPartition{topic, p}] = kgo.NewOffset().At(0), unknown // taken as it is, without a look into the log
		}
	}
	for _, o := range stable {
		in := topicPartition{o.Topic, o.Partition}
		switch at, has := b.starts.known(in); {
		case o.At >= 0:
			offsets[o.Topic][o.Partition], b.given[in] = kgo.NewOffset().At(o.At).WithEpoch(o.LeaderEpoch), o.At
		case !has:
			offsets[o.Topic][o.Partition], b.given[in] = kgo.NewOffset().AtStart(), logStart
		case at >= 0:
			offsets[o.Topic][o.Partition], b.given[in] = kgo.NewOffset().At(at), at
		}
	}
	for in, at := range b.at { // of a task that was faster
		if _, asked := offsets[in.topic][in.partition]; asked && b.given[in] == unknown {
			offsets[in.topic][in.partition], b.given[in] = kgo.NewOffset().At(at), at
		}
	}
	close(b.adjusted)
	b.adjusted = make(chan struct{})
	return offsets, nil
}

// remove takes out partitions that are not assigned any more.
func (b *begins) remove(partitions map[string][]int32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for topic, ps := range partitions {
		for _, p := range ps {
			delete(b.at, topicPartition{topic, p})
			delete(b.given, topicPartition{topic, p})
		}
	}
}

// say notes where a task begins. It returns whether the consumer begins there too, once it has been
// given its offset.
func (b *begins) say(ctx context.Context, in topicPartition, at int64) (begins bool, err error) {
	for {
		b.mu.Lock()
		if ctx.Err() != nil { // given up: remove has come, or comes
			b.mu.Unlock()
			return false, ctx.Err()
		}
		b.at[in] = at
		given, adjusted := b.given[in]
		changed := b.adjusted
		b.mu.Unlock()
		if adjusted {
			return given == at || given == logStart, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// Begin has the consumer begin at an offset in a partition that is assigned and paused, before it
// is resumed for the first time: there the partition's task goes on. It waits until the client
// knows the partition. Where the client has a stable offset already nothing changes.
func (g *Group) Begin(ctx context.Context, topic string, partition int32, offset int64) error {
	fail := func(err error) error {
		return fmt.Errorf("beginning to consume %s[%d] at offset %d: %w", topic, partition, offset, err)
	}
	begins, err := g.begins.say(ctx, topicPartition{topic, partition}, offset)
	if err != nil {
		return fail(err)
	}
	if begins {
		return nil
	}
	pause := backoff.Backoff{Next: time.Millisecond, Max: 100 * time.Millisecond}
	at := kgo.EpochOffset{Epoch: g.begins.leaderEpoch(ctx, topic, partition, offset), Offset: offset}
	for {
		// The client passes over a partition in silence that it has not taken over yet.
		g.cl.SetOffsets(map[string]map[int32]kgo.EpochOffset{topic: {partition: at}})
		if g.cl.CommittedOffsets()[topic][partition] == at {
			return nil
		}
		if err := pause.Wait(ctx); err != nil {
			return fail(err)
		}
	}
}

// leaderEpoch returns the leader epoch that was committed with an offset, or -1 if the offset is
// not the committed one, or the epoch is not known. With it the client finds out whether the log
// was truncated below the offset (KIP-320).
func (b *begins) leaderEpoch(ctx context.Context, topic string, partition int32, offset int64) int32 {
	within, cancel := context.WithTimeout(ctx, adjustMax)
	defer cancel()
	stable, _, err := b.cluster.offsetsOnce(within, map[string][]int32{topic: {partition}}, true)
	if err != nil || len(stable) != 1 || stable[0].At != offset {
		return -1
	}
	return stable[0].LeaderEpoch
}
