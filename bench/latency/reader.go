package latency

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/bench/workload"
)

// Reader follows the output as a consumer with read_committed would, and notes when each event
// came.
type Reader struct {
	cl       *kgo.Client
	topics   Topics
	schedule Schedule

	mu struct {
		sync.Mutex
		// at is by event: when it came, counted from the schedule's start; 0 means not yet.
		at []time.Duration
		// partition is by event: the partition of the output that it came from.
		partition []int32
		// order has the events in the order in which they came.
		order []uint64
		// next is the lowest event that has not come.
		next    uint64
		doubled uint64
		// offsets are by partition of the output: what is below them has been read.
		offsets map[int32]int64
		// sums are the last count and balance of each account, and wrong counts outputs that do not
		// follow from the one before.
		sums  map[uint64]workload.Sum
		wrong uint64
	}
}

// readerPause is how long the reader waits before it asks a broker, or for the leaders of
// partitions, again.
const readerPause = 100 * time.Millisecond

// NewReader returns a reader of the output from its start; Run reads. The caller closes it.
func NewReader(brokers []string, topics Topics, s Schedule) (*Reader, error) {
	partitions := map[int32]kgo.Offset{}
	for p := range topics.Partitions {
		partitions[p] = kgo.NewOffset().AtStart()
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topics.Out: partitions}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.FetchMinBytes(1), kgo.FetchMaxWait(500*time.Millisecond),
		// The client's own pauses of up to seconds would be measured as silences of the application
		// when a broker dies.
		kgo.MetadataMinAge(readerPause), kgo.RetryBackoffFn(func(int) time.Duration { return readerPause }))
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
	if r.mu.offsets == nil {
		r.mu.offsets, r.mu.sums = map[int32]int64{}, map[uint64]workload.Sum{}
	}
	for it := fetches.RecordIter(); !it.Done(); {
		rec := it.Next()
		r.mu.offsets[rec.Partition] = rec.Offset + 1
		if rec.Attrs.IsControl() {
			continue
		}
		event, err := eventOf(r.schedule, rec.Value)
		if err != nil {
			return fmt.Errorf("reading %s[%d] offset %d: %w", rec.Topic, rec.Partition, rec.Offset, err)
		}
		for uint64(len(r.mu.at)) <= event {
			r.mu.at, r.mu.partition = append(r.mu.at, 0), append(r.mu.partition, 0)
		}
		r.add(event, rec.Value)
		if r.mu.at[event] != 0 {
			r.mu.doubled++
			continue
		}
		r.mu.at[event], r.mu.partition[event] = now, rec.Partition
		r.mu.order = append(r.mu.order, event)
	}
	return nil
}

// add judges the count and the balance of an output, if the workload has them: they are those of
// the account's output before, and the event.
func (r *Reader) add(event uint64, output []byte) {
	sum, ok := workload.SumIn(output)
	if !ok {
		return
	}
	account := event % accounts
	if before := r.mu.sums[account]; sum != (workload.Sum{Count: before.Count + 1, Balance: before.Balance + amount(event)}) {
		r.mu.wrong++
	}
	r.mu.sums[account] = sum
}

// Anomalies are what must not be.
type Anomalies struct {
	// Lost events have not come, and Doubled ones came more than once.
	Lost    uint64 `json:"lost"`
	Doubled uint64 `json:"doubled"`
	// Wrong counts outputs whose count or balance does not follow from the account's output before.
	// They come from a state that has lost an event or has it twice.
	Wrong uint64 `json:"wrong_sums"`
}

// Anomalies returns what is wrong with the outputs of the first n events. All of them have had the
// time to come.
func (r *Reader) Anomalies(n uint64) (a Anomalies) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a.Doubled, a.Wrong = r.mu.doubled, r.mu.wrong
	for event := range n {
		if event >= uint64(len(r.mu.at)) || r.mu.at[event] == 0 {
			a.Lost++
		}
	}
	return a
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

// AwaitLanes waits until each lane (an input partition, and so a task) has shown an event that was
// due at or after the time, and returns per lane when the first of them came. Such an event was not
// even sent at that time, so a process that was killed before cannot have had a part in it.
func (r *Reader) AwaitLanes(ctx context.Context, lanes []int32, after time.Time) (map[int32]time.Time, error) {
	return r.awaitEach(ctx, lanes, after, r.topics.lane)
}

// AwaitOutputs is AwaitLanes of every partition of the output.
func (r *Reader) AwaitOutputs(ctx context.Context, after time.Time) (map[int32]time.Time, error) {
	var all []int32
	for p := range r.topics.Partitions {
		all = append(all, p)
	}
	return r.awaitEach(ctx, all, after, r.output)
}

func (r *Reader) awaitEach(
	ctx context.Context, wanted []int32, after time.Time, of func(event uint64) int32,
) (map[int32]time.Time, error) {
	from := r.schedule.DueAt(after)
	first := map[int32]time.Time{}
	r.mu.Lock()
	looked := r.cameAfter(after.Sub(r.schedule.Start)) // an event does not come before it is due
	r.mu.Unlock()
	err := r.await(ctx, func() (string, bool) {
		for ; looked < len(r.mu.order); looked++ {
			event := r.mu.order[looked]
			p := of(event)
			if _, known := first[p]; !known && event >= from && slices.Contains(wanted, p) {
				first[p] = r.schedule.Start.Add(r.mu.at[event])
			}
		}
		return fmt.Sprintf("%d of %d partitions go on", len(first), len(wanted)), len(first) == len(wanted)
	})
	return first, err
}

// AwaitOffsets waits until everything below the offsets, by partition of the output, has been read.
func (r *Reader) AwaitOffsets(ctx context.Context, offsets []int64) error {
	return r.await(ctx, func() (string, bool) {
		for p, end := range offsets {
			if at := r.mu.offsets[int32(p)]; at < end {
				return fmt.Sprintf("partition %d is read up to %d of %d", p, at, end), false
			}
		}
		return "", true
	})
}

// output returns the partition of the output that an event came from. The caller holds the lock.
func (r *Reader) output(event uint64) int32 { return r.mu.partition[event] }

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

// Latencies returns the latencies of the events from <= number < to, sorted. It fails if one of
// them has not come or has come twice.
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

// Pauses returns per lane the longest time without any output between two moments. Both ends count
// as output, so a lane that was silent all the time paused for all of it.
func (r *Reader) Pauses(from, to time.Time) map[int32]time.Duration {
	return r.pauses(from, to, r.topics.lane)
}

// Silences returns the same per partition of the output. Each of them has events of every lane if
// the output is partitioned by key.
func (r *Reader) Silences(from, to time.Time) map[int32]time.Duration {
	return r.pauses(from, to, r.output)
}

func (r *Reader) pauses(from, to time.Time, of func(event uint64) int32) map[int32]time.Duration {
	begin, end := from.Sub(r.schedule.Start), to.Sub(r.schedule.Start)
	last, longest := map[int32]time.Duration{}, map[int32]time.Duration{}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, event := range r.mu.order[r.cameAfter(begin):] {
		at := r.mu.at[event]
		if at >= end {
			break
		}
		p := of(event)
		longest[p] = max(longest[p], at-max(last[p], begin))
		last[p] = at
	}
	for p := range r.topics.Partitions {
		longest[p] = max(longest[p], end-max(last[p], begin))
	}
	return longest
}

// cameAfter returns where the events that came after a moment begin in the order. The caller holds
// the lock.
func (r *Reader) cameAfter(moment time.Duration) int {
	return sort.Search(len(r.mu.order), func(i int) bool { return r.mu.at[r.mu.order[i]] > moment })
}
