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

// The limits of a queue and of a batch, beside BatchRecords. A partition that is paused costs
// another fetch, so a queue has room for many.
const (
	queueRecordsMax = 20_000
	queueBytesMax   = 8 << 20
	batchBytesMax   = 4 << 20
)

// worker applies the records of one partition while this instance owns it. Its goroutine owns next;
// the queue is shared with the poll loop.
type worker struct {
	partition
	sink       *Sink
	session    *session
	topicID    [16]byte
	generation int64
	next       int64     // where the offset is
	rest       time.Time // since when only ends of transactions are behind it; zero where there is none

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
		behind int64 // the offset behind all that was fetched: records, and ends of transactions
		epoch  int32 // the leader epoch of what is before it
		stable int64 // the last stable offset
		paused bool

		passed int64     // next, for the gauges
		oldest time.Time // of the records at work; zero where none is
	}
}

func newWorker(e *session, p partition, topicID [16]byte, at position) *worker {
	w := &worker{
		partition: p, sink: e.sink, session: e, topicID: topicID, generation: at.generation, next: at.next,
		stop: make(chan struct{}), done: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	w.mu.behind, w.mu.epoch, w.mu.passed = at.next, at.epoch, at.next
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

// received returns the offset behind all that was fetched, and the leader epoch of what is before
// it.
func (w *worker) received() (behind int64, epoch int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.behind, w.mu.epoch
}

// push puts records at the end of the queue, and pauses the partition if the queue is full. It does
// not block.
func (w *worker) push(records []*kgo.Record, stable int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.stable = stable
	for _, r := range records {
		if r.Offset < w.mu.behind {
			continue // a fetch from before the offset that was asked for
		}
		w.mu.behind, w.mu.epoch = r.Offset+1, r.LeaderEpoch
		if r.Attrs.IsControl() {
			continue // it only moves the offset
		}
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

// batch is records to apply, and where the offset is behind them: at the next record, or, where
// none was fetched, behind ends of transactions and records that were aborted. They may be the last
// that the partition has, and Kafka deletes them like others: an offset that stays in front of them
// would be out of range then.
type batch struct {
	records []*kgo.Record
	next    int64
	epoch   int32 // the leader epoch of what is before next
}

// part returns the batch of one of the records.
func (b batch) part(i int) batch {
	if i == len(b.records)-1 {
		return batch{b.records[i:], b.next, b.epoch}
	}
	return batch{b.records[i : i+1], b.records[i+1].Offset, b.records[i].LeaderEpoch}
}

// take takes a batch off the queue, and resumes the partition when there is room. It has no records
// if there are none.
func (w *worker) take() (b batch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, bytes := 0, 0
	for n < len(w.mu.queue) && n < w.sink.config.BatchRecords && (n == 0 || bytes+size(w.mu.queue[n]) <= batchBytesMax) {
		bytes += size(w.mu.queue[n])
		n++
	}
	b.records = w.mu.queue[:n:n]
	w.mu.queue = w.mu.queue[n:]
	if b.next, b.epoch = w.mu.behind, w.mu.epoch; len(w.mu.queue) > 0 {
		b.next, b.epoch = w.mu.queue[0].Offset, b.records[n-1].LeaderEpoch
	}
	w.mu.bytes -= bytes
	if w.mu.paused && len(w.mu.queue) <= w.sink.queueMax/2 && w.mu.bytes <= queueBytesMax/2 {
		w.mu.paused = false
		w.session.client.ResumeFetchPartitions(w.asMap())
	}
	return b
}

// run applies batches until it is stopped. An error from which it cannot continue ends the session.
func (w *worker) run() {
	defer close(w.done)
	defer w.cancel()
	if err := w.sendLetters(); err != nil { // those that an owner before has left
		if !errors.Is(err, errStopped) {
			w.session.end(err)
		}
		return
	}
	for !w.stopped() {
		b := w.take()
		if len(b.records) == 0 {
			w.isAtWork(b)
			if !w.idle(b) {
				continue
			}
		}
		if err := w.apply(b); err != nil {
			if !errors.Is(err, errStopped) {
				w.session.end(err)
			}
			return
		}
		w.rest = time.Time{}
	}
}

// restMax is how long the offset stays in front of ends of transactions that no record follows.
// Where records follow, it moves with them.
const restMax = 5 * time.Second

// idle waits for records. It returns true when the offset has been in front of ends of transactions
// for long enough.
func (w *worker) idle(b batch) bool {
	var enough <-chan time.Time
	if b.next > w.next {
		if w.rest.IsZero() {
			w.rest = time.Now()
		}
		t := time.NewTimer(w.sink.restMax - time.Since(w.rest))
		defer t.Stop()
		enough = t.C
	}
	select {
	case <-enough:
		return true
	case <-w.wake:
	case <-w.stop:
	case <-w.ctx.Done():
	}
	return false
}

// errStopped: the worker was told to stop. Records whose COMMIT is in doubt are left to the next
// owner, and are not refused.
var errStopped = errors.New("stopped")

// How many failures it takes until records are applied one by one, and until those of a record that
// fails alone count as its attempts.
const (
	contendedApart  = 3
	contendedCounts = 100
	serverApart     = 5
	serverCounts    = 5
)

// apply applies the records of a batch in one transaction, or one by one if that fails.
func (w *worker) apply(b batch) error {
	w.isAtWork(b)
	var first time.Time // of the failures
	attempts := 0       // those that count
	for failures := 1; ; failures++ {
		err := w.attempt(b)
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
		alone, counts := len(b.records) == 1, false
		switch faultOf(err) {
		case ofSink:
			if hopeless(err) {
				return fmt.Errorf("topic %s, partition %d: %w", w.topic, w.n, err)
			}
		case ofContention:
			if len(b.records) > 1 && failures >= contendedApart {
				return w.oneByOne(b)
			}
			if counts = alone && failures >= w.sink.contendedCounts && !work.Own(err); !counts {
				d = work.Pause(failures, contentionMin, contentionMax)
			}
		case ofServer:
			if len(b.records) > 1 && failures >= serverApart {
				return w.oneByOne(b)
			}
			counts = alone && failures >= serverCounts && w.works()
		case ofRecord:
			if !alone {
				return w.oneByOne(b) // to name the record
			}
			switch class {
			case topology.Config, topology.Corruption, topology.Fatal:
				return &Failure{w.topic, w.n, b.records[0].Offset, class, err}
			case topology.Transient, topology.Overload:
				counts = true
			default:
				// One that an earlier statement has failed in silence may have met contention. The
				// second time it has not.
				if !errors.Is(err, work.ErrSwallowed) || failures > 1 {
					return w.refuse(b, err, attempts+1, first)
				}
				counts = true
			}
		}
		if counts {
			if attempts++; attempts >= w.sink.config.Attempts {
				return w.refuse(b, err, attempts, first)
			}
		}
		w.sink.metrics.retries.WithLabelValues(w.sink.config.Name, class.String()).Inc()
		w.sink.config.Logger.Warn("records could not be applied and are tried again", "topic", w.topic, "partition", w.n, "offset", w.next,
			"records", len(b.records), "class", class, "failures", failures, "reason", work.Reason(err))
		if !work.Wait(w.ctx, w.stop, d) {
			return errStopped
		}
	}
}

func (w *worker) oneByOne(b batch) error {
	for i := range b.records {
		if err := w.apply(b.part(i)); err != nil {
			return err
		}
	}
	return nil
}

// attempt applies the records of a batch in one transaction, once.
func (w *worker) attempt(b batch) error {
	return w.pass(b, w.sink.metrics.applied.Add, func(ctx context.Context, tx pgx.Tx) error {
		if len(b.records) == 0 {
			return nil // only the offset moves
		}
		return w.sink.call(ctx, tx, b.records)
	})
}

// pass runs f and moves the offset behind a batch, in a slot of those that may be at work at once.
func (w *worker) pass(b batch, count func(float64), f func(ctx context.Context, tx pgx.Tx) error) error {
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
	if err := w.transact(w.ctx, b, f); err != nil {
		return err
	}
	w.next = b.next
	count(float64(len(b.records)))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.passed = w.next
	w.show()
	return nil
}

// call calls Apply.
func (s *Sink) call(ctx context.Context, tx pgx.Tx, records []*kgo.Record) error {
	return work.Call(func() error { return s.config.Apply(ctx, tx, records) })
}
