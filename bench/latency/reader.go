package latency

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Reader follows the output as a consumer with read_committed would, and notes when each event came.
type Reader struct {
	cl       *kgo.Client
	topics   Topics
	schedule Schedule

	mu struct {
		sync.Mutex
		// at is by event: when it came, counted from the schedule's start; 0 means not yet.
		at []time.Duration
		// order has the events in the order in which they came.
		order []uint64
		// next is the lowest event that has not come.
		next    uint64
		doubled uint64
	}
}

// NewReader returns a reader of the output from its start; Run reads. The caller closes it.
func NewReader(brokers []string, topics Topics, s Schedule) (*Reader, error) {
	partitions := map[int32]kgo.Offset{}
	for p := range topics.Partitions {
		partitions[p] = kgo.NewOffset().AtStart()
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topics.Out: partitions}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMinBytes(1), kgo.FetchMaxWait(500*time.Millisecond))
	if err != nil {
		return nil, fmt.Errorf("the measurement's reader: %w", err)
	}
	return &Reader{cl: cl, topics: topics, schedule: s}, nil
}

// Close ends the client.
func (r *Reader) Close() { r.cl.Close() }

// Run reads until ctx ends, which is no error.
func (r *Reader) Run(ctx context.Context) error {
	for {
		fetches := r.cl.PollFetches(ctx)
		now := time.Since(r.schedule.Start)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // how a reader ends
		}
		if err := errors.Join(fetchErrors(fetches)...); err != nil {
			return err
		}
		if err := r.note(fetches, now); err != nil {
			return err
		}
	}
}

func fetchErrors(fetches kgo.Fetches) []error {
	var errs []error
	fetches.EachError(func(topic string, partition int32, err error) {
		errs = append(errs, fmt.Errorf("reading %s[%d]: %w", topic, partition, err))
	})
	return errs
}

func (r *Reader) note(fetches kgo.Fetches, now time.Duration) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for it := fetches.RecordIter(); !it.Done(); {
		rec := it.Next()
		event, err := eventOf(r.schedule, rec.Value)
		if err != nil {
			return fmt.Errorf("reading %s[%d] offset %d: %w", rec.Topic, rec.Partition, rec.Offset, err)
		}
		for uint64(len(r.mu.at)) <= event {
			r.mu.at = append(r.mu.at, 0)
		}
		if r.mu.at[event] != 0 {
			r.mu.doubled++
			continue
		}
		r.mu.at[event] = now
		r.mu.order = append(r.mu.order, event)
	}
	return nil
}

// readerPoll is how often the waits below look. What they return does not depend on it.
const readerPoll = 2 * time.Millisecond

// AwaitAll waits until every event below n has come.
func (r *Reader) AwaitAll(ctx context.Context, n uint64) error {
	return r.await(ctx, func() (string, bool) {
		for r.mu.next < uint64(len(r.mu.at)) && r.mu.at[r.mu.next] != 0 {
			r.mu.next++
		}
		return fmt.Sprintf("event %d of %d has not come, %d have", r.mu.next, n, len(r.mu.order)), r.mu.next >= n
	})
}

// AwaitLanes waits until each lane (an input partition, and so a task) has shown an event that was due at or after the time, and
// returns per lane when the first of them came. Such an event was not even sent at that time, so a process that was killed before
// cannot have had a part in it.
func (r *Reader) AwaitLanes(ctx context.Context, lanes []int32, after time.Time) (map[int32]time.Time, error) {
	from := r.schedule.DueAt(after)
	first, looked := map[int32]time.Time{}, 0
	err := r.await(ctx, func() (string, bool) {
		for ; looked < len(r.mu.order); looked++ {
			event := r.mu.order[looked]
			lane := r.topics.lane(event)
			if _, known := first[lane]; !known && event >= from && slices.Contains(lanes, lane) {
				first[lane] = r.schedule.Start.Add(r.mu.at[event])
			}
		}
		return fmt.Sprintf("%d of %d partitions go on", len(first), len(lanes)), len(first) == len(lanes)
	})
	return first, err
}

// await waits until done, which is called with the lock held, says so.
func (r *Reader) await(ctx context.Context, done func() (state string, ok bool)) error {
	tick := time.NewTicker(readerPoll)
	defer tick.Stop()
	for {
		r.mu.Lock()
		state, ok := done()
		r.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the output: %s: %w", state, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// Latencies returns the latencies of the events from <= number < to, sorted. It fails if one of them has not come or has come twice.
func (r *Reader) Latencies(from, to uint64) ([]time.Duration, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.doubled > 0 {
		return nil, fmt.Errorf("%d events came more than once", r.mu.doubled)
	}
	if uint64(len(r.mu.at)) < to || from >= to {
		return nil, fmt.Errorf("events %d to %d were asked for and %d have come", from, to, len(r.mu.order))
	}
	out := make([]time.Duration, 0, to-from)
	for event := from; event < to; event++ {
		if r.mu.at[event] == 0 {
			return nil, fmt.Errorf("event %d has not come", event)
		}
		out = append(out, r.mu.at[event]-r.schedule.offset(event))
	}
	slices.Sort(out)
	return out, nil
}

// Pauses returns per lane the longest time without any output between two moments. Both ends count as output, so a lane that was
// silent all the time paused for all of it.
func (r *Reader) Pauses(from, to time.Time) map[int32]time.Duration {
	begin, end := from.Sub(r.schedule.Start), to.Sub(r.schedule.Start)
	times := map[int32][]time.Duration{}
	for lane := range r.topics.Partitions {
		times[lane] = []time.Duration{begin, end}
	}
	r.mu.Lock()
	for event, at := range r.mu.at {
		if at > begin && at < end {
			lane := r.topics.lane(uint64(event))
			times[lane] = append(times[lane], at)
		}
	}
	r.mu.Unlock()
	longest := map[int32]time.Duration{}
	for lane, ts := range times {
		slices.Sort(ts)
		for i := 1; i < len(ts); i++ {
			longest[lane] = max(longest[lane], ts[i]-ts[i-1])
		}
	}
	return longest
}
