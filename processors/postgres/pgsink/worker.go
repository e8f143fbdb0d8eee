package pgsink

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/processors/postgres"
	"github.com/onceward/onceward/processors/postgres/internal/work"
	"github.com/onceward/onceward/topology"
)

// The limits of a queue and of a batch, beside BatchRecords. A partition that is paused costs another fetch, so a queue has room for many.
const (
	queueRecordsMax = 20_000
	queueBytesMax   = 8 << 20
	batchBytesMax   = 4 << 20
)

// worker applies the records of one partition while this instance owns it. Its goroutine owns next; the queue is shared with the poll loop.
type worker struct {
	partition
	sink       *Sink
	session    *session
	topicID    [16]byte
	generation int64
	next       int64 // where the offset is

	ctx      context.Context
	cancel   context.CancelFunc
	stopOnce sync.Once
	stop     chan struct{} // closed when no further batch is to begin
	done     chan struct{} // closed when the goroutine has ended
	wake     chan struct{} // has a token when the queue got records

	mu struct {
		sync.Mutex
		queue  []*kgo.Record
		bytes  int
		behind int64 // the offset behind the last record that was pushed
		stable int64 // the last stable offset
		paused bool
	}
}

func newWorker(e *session, p partition, topicID [16]byte, at position) *worker {
	w := &worker{
		partition: p, sink: e.sink, session: e, topicID: topicID, generation: at.generation, next: at.next,
		stop: make(chan struct{}), done: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	w.mu.behind = at.next
	w.ctx, w.cancel = context.WithCancel(e.ctx)
	return w
}

// finish lets the batch at work end, and no other begin.
func (w *worker) finish() { w.stopOnce.Do(func() { close(w.stop) }) }

// abort has the batch at work rolled back.
func (w *worker) abort() {
	w.finish()
	w.cancel()
}

// stopped says whether nothing further may begin.
func (w *worker) stopped() bool {
	select {
	case <-w.stop:
		return true
	default:
		return w.ctx.Err() != nil
	}
}

func (w *worker) asMap() map[string][]int32 { return map[string][]int32{w.topic: {w.n}} }

// received returns the offset behind the last record that was pushed.
func (w *worker) received() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.behind
}

// push puts records at the end of the queue, and pauses the partition if the queue is full. It does not block.
func (w *worker) push(records []*kgo.Record, stable int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.stable = stable
	for _, r := range records {
		if r.Offset < w.mu.behind {
			continue // a fetch from before the offset that was asked for
		}
		w.mu.behind = r.Offset + 1
		w.mu.queue = append(w.mu.queue, r)
		w.mu.bytes += size(r)
	}
	if full := len(w.mu.queue) >= w.sink.queueMax || w.mu.bytes >= queueBytesMax; full && !w.mu.paused {
		w.mu.paused = true
		w.session.client.PauseFetchPartitions(w.asMap())
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func size(r *kgo.Record) int { return len(r.Key) + len(r.Value) + 100 }

// take takes a batch off the queue, and resumes the partition when there is room.
func (w *worker) take() (batch []*kgo.Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, bytes := 0, 0
	for n < len(w.mu.queue) && n < w.sink.config.BatchRecords && (n == 0 || bytes+size(w.mu.queue[n]) <= batchBytesMax) {
		bytes += size(w.mu.queue[n])
		n++
	}
	batch = w.mu.queue[:n:n]
	w.mu.queue = w.mu.queue[n:]
	w.mu.bytes -= bytes
	if w.mu.paused && len(w.mu.queue) <= w.sink.queueMax/2 && w.mu.bytes <= queueBytesMax/2 {
		w.mu.paused = false
		w.session.client.ResumeFetchPartitions(w.asMap())
	}
	return batch
}

// run applies batches until it is stopped. What it cannot go on from ends the session.
func (w *worker) run() {
	defer close(w.done)
	defer w.cancel()
	for !w.stopped() {
		batch := w.take()
		if len(batch) == 0 {
			w.sink.metrics.of(w.sink.metrics.pending, w).Set(0)
			select {
			case <-w.wake:
			case <-w.stop:
			case <-w.ctx.Done():
			}
			continue
		}
		w.sink.metrics.of(w.sink.metrics.pending, w).Set(max(0, time.Since(batch[0].Timestamp).Seconds()))
		if err := w.apply(batch); err != nil {
			if !errors.Is(err, errStopped) {
				w.session.end(err)
			}
			return
		}
	}
}

// errStopped: the worker was told to stop. Records whose COMMIT is in doubt are left to the next owner, and are not refused.
var errStopped = errors.New("stopped")

// How many failures it takes until records are applied one by one, and until those of a record that fails alone count as its attempts.
const (
	contendedApart  = 3
	contendedCounts = 100
	serverApart     = 5
	serverCounts    = 5
)

// apply applies records in one transaction, or one by one if that fails.
func (w *worker) apply(records []*kgo.Record) error {
	var first time.Time // of the failures
	attempts := 0       // those that count
	for failures := 1; ; failures++ {
		err := w.attempt(records)
		switch {
		case err == nil:
			return nil
		case w.ctx.Err() != nil || errors.Is(err, errStopped):
			return errStopped
		case errors.Is(err, errFenced):
			return err
		}
		if first.IsZero() {
			first = time.Now()
		}
		class, d := postgres.ClassOf(err), work.Pause(failures, pauseMin, pauseMax)
		alone, counts := len(records) == 1, false
		switch faultOf(err) {
		case ofSink:
			if hopeless(err) {
				return fmt.Errorf("topic %s, partition %d: %w", w.topic, w.n, err)
			}
		case ofContention:
			if !alone && failures >= contendedApart {
				return w.oneByOne(records)
			}
			if counts = alone && failures >= w.sink.contendedCounts && !isOwn(err); !counts {
				d = work.Pause(failures, contentionMin, contentionMax)
			}
		case ofServer:
			if !alone && failures >= serverApart {
				return w.oneByOne(records)
			}
			counts = alone && failures >= serverCounts && w.works()
		case ofRecord:
			if !alone {
				return w.oneByOne(records) // to name the record
			}
			switch class {
			case topology.Config, topology.Corruption, topology.Fatal:
				return &Failure{w.topic, w.n, records[0].Offset, class, err}
			case topology.Transient, topology.Overload:
				counts = true
			default:
				// One that an earlier statement has failed in silence may have met contention. The second time it has not.
				if !errors.Is(err, work.ErrSwallowed) || failures > 1 {
					return w.refuse(records[0], err, attempts+1, first)
				}
				counts = true
			}
		}
		if counts {
			if attempts++; attempts >= w.sink.config.Attempts {
				return w.refuse(records[0], err, attempts, first)
			}
		}
		w.sink.metrics.retries.WithLabelValues(w.sink.config.Name, class.String()).Inc()
		w.sink.config.Logger.Warn("records could not be applied and are tried again", "topic", w.topic, "partition", w.n, "offset", records[0].Offset,
			"records", len(records), "class", class, "failures", failures, "reason", work.Reason(err))
		if !work.Wait(w.ctx, w.stop, d) {
			return errStopped
		}
	}
}

func (w *worker) oneByOne(records []*kgo.Record) error {
	for i := range records {
		if err := w.apply(records[i : i+1]); err != nil {
			return err
		}
	}
	return nil
}

// attempt applies records in one transaction, once.
func (w *worker) attempt(records []*kgo.Record) error {
	return w.pass(records, w.sink.metrics.applied.Add, func(ctx context.Context, tx pgx.Tx) error { return w.sink.call(ctx, tx, records) })
}

// pass runs f and moves the offset behind the records, in a slot of those that may be at work at once.
func (w *worker) pass(records []*kgo.Record, count func(float64), f func(ctx context.Context, tx pgx.Tx) error) error {
	select {
	case w.sink.slots <- struct{}{}:
		defer func() { <-w.sink.slots }()
	case <-w.stop:
		return errStopped
	case <-w.ctx.Done():
		return errStopped
	}
	if w.stopped() {
		return errStopped // while it waited for the slot
	}
	if err := w.sink.at(w.ctx, "received", w); err != nil {
		return err
	}
	next := records[len(records)-1].Offset + 1
	if err := w.transact(w.ctx, next, f); err != nil {
		return err
	}
	w.next = next
	count(float64(len(records)))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sink.metrics.of(w.sink.metrics.lag, w).Set(float64(max(0, w.mu.stable-next)))
	return nil
}

// call calls Apply.
func (s *Sink) call(ctx context.Context, tx pgx.Tx, records []*kgo.Record) error {
	return work.Call(func() error { return s.config.Apply(ctx, tx, records) })
}
