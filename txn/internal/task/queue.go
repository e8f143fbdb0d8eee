package task

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/txn/internal/broker"
)

// OrderWaitDefault is how long a task waits for its lagging inputs by default. It is long against a
// fetch, and short against the time after which an operator asks what the task is doing.
const OrderWaitDefault = time.Second

// inbound is what the dispatcher has handed over and the worker has not taken yet. It is the only
// part of a task under a lock.
type inbound struct {
	sync.Mutex
	batches [][]*broker.Record // per input
	bytes   []int64            // per input, everything that the worker has not consumed yet
	ends    []int64            // per input, the last stable offset, -1 while it is not known
	read    []reach            // per input, how far the dispatcher has come
	held    *atomic.Int64      // of all tasks, see Spec; nil counts nothing
	closed  bool
}

// hold counts bytes of an input, or gives them back. The caller holds the lock.
func (in *inbound) hold(input int, bytes int64) {
	in.bytes[input] += bytes
	if in.held != nil && !in.closed {
		in.held.Add(bytes)
	}
}

// reach is the end of what was handed over: the offset after the last record and that record's
// leader epoch. The zero value is nothing.
type reach struct {
	next  int64
	epoch int32
}

// queue holds the records of a task in the order in which they are to be processed: first what is
// to be run again, then the inputs merged by timestamp.
//
// # Waiting for an input
//
// The oldest of the first records is only known when every input shows its first record, or has
// none. An input without a queued record lags until it is known to be at the end of its partition:
// until the offset after its last record has reached the last stable offset. While one lags,
// records of the others are held back, for waitMax at most. An input that was waited for in vain is
// not waited for again before it shows a record or its end. So a partition without a leader, or one
// whose last offsets compaction has removed, costs one wait and not one a burst.
//
// Kafka Streams (max.task.idle.ms, KIP-695) waits without a bound for an input that lags or whose
// lag is unknown, and applies the bound to inputs that are caught up. Here one partition that
// cannot be read must not hold up its neighbours for ever, and a task does not wait for an input
// that is caught up. Order is kept among the records that are there, not with records that are yet
// to be written.
type queue struct {
	in     inbound
	inputs []fifo
	again  []Entry // next one last
	// waitMax bounds the wait for lagging inputs; 0 is no wait.
	waitMax time.Duration
	// heldSince is when the present wait has begun, zero while there is none.
	heldSince time.Time
	// delayedLast says that the last record that was taken had been delayed.
	delayedLast bool
}

// fifo is one input's records in offset order.
type fifo struct {
	records []*broker.Record
	head    int
	// next is the offset after the last record that was queued, or where the task starts if there
	// was none.
	next int64
	// end is the last stable offset, -1 while it is not known.
	end int64
	// givenUp says that it was waited for in vain.
	givenUp bool
	// eventTime finds the time of a record that goes by another one than its timestamp; nil if none
	// does. timed is the first record if its time was found, which is time then: it is looked for
	// once a record.
	eventTime func(r *broker.Record) int64
	timed     *broker.Record
	time      int64
	// delay is how long its records wait after their timestamps, 0 for all but delayed retry
	// topics.
	delay time.Duration
}

// dueAt is when the first record may be processed: the zero time for one that need not wait.
func (f *fifo) dueAt() time.Time {
	if f.delay == 0 {
		return time.Time{}
	}
	return f.records[f.head].Timestamp.Add(f.delay)
}

func (f *fifo) len() int { return len(f.records) - f.head }

// firstTime returns the time of the first record, in milliseconds since the epoch.
func (f *fifo) firstTime() int64 {
	r := f.records[f.head]
	if f.eventTime == nil {
		return r.Timestamp.UnixMilli()
	}
	if f.timed != r {
		f.timed, f.time = r, f.eventTime(r)
	}
	return f.time
}

// lags reports whether the partition may have a record that belongs before those of other inputs.
// Delayed records have no such order.
func (f *fifo) lags() bool { return f.delay == 0 && f.len() == 0 && (f.end < 0 || f.next < f.end) }

func (f *fifo) push(records []*broker.Record) {
	// The queue of a task that is behind is never empty. So the room of the taken records is used
	// again as soon as it is half of the whole. The remaining records then move into it without an
	// overlap, and no record moves more than once on average.
	if f.head >= f.len() {
		left := copy(f.records, f.records[f.head:])
		clear(f.records[f.head:])
		f.records, f.head = f.records[:left], 0
	}
	f.records = append(f.records, records...)
	f.next = max(f.next, records[len(records)-1].Offset+1)
}

func (f *fifo) pop() *broker.Record {
	r := f.records[f.head]
	f.records[f.head] = nil
	f.head++
	return r
}

func newQueue(inputs []state.Input, waitMax time.Duration) *queue {
	q := &queue{inputs: make([]fifo, len(inputs)), waitMax: waitMax}
	q.in.batches = make([][]*broker.Record, len(inputs))
	q.in.bytes = make([]int64, len(inputs))
	q.in.ends = make([]int64, len(inputs))
	q.in.read = make([]reach, len(inputs))
	for i := range inputs {
		q.inputs[i].next, q.inputs[i].end, q.in.ends[i] = inputs[i].Offset, -1, -1
	}
	return q
}

// enqueue adds records of one input, at least one, and returns the bytes that wait for that input.
// ok is false when the task is closed.
func (q *queue) enqueue(input int, records []*broker.Record) (waiting int64, ok bool) {
	var n int64
	for _, r := range records {
		n += recordBytes(r)
	}
	q.in.Lock()
	defer q.in.Unlock()
	if q.in.closed {
		return 0, false
	}
	q.in.batches[input] = append(q.in.batches[input], records...)
	q.in.hold(input, n)
	last := records[len(records)-1]
	q.in.read[input] = reach{last.Offset + 1, last.LeaderEpoch}
	return q.in.bytes[input], true
}

// SetEnd notes the last stable offset of an input as the broker gave it, with records or without.
// It may be called from any goroutine. With the records of the same answer the order does not
// matter; an older answer changes nothing.
func (t *Task) SetEnd(input int, lastStableOffset int64) { t.queue.setEnd(input, lastStableOffset) }

func (q *queue) setEnd(input int, lastStableOffset int64) {
	q.in.Lock()
	defer q.in.Unlock()
	q.in.ends[input] = max(q.in.ends[input], lastStableOffset)
}

// Read returns where the records of one input that were ever handed over end, and the leader epoch
// of the last of them; ok is false while there was none. It may be called from any goroutine.
func (t *Task) Read(input int) (next int64, leaderEpoch int32, ok bool) {
	q := t.queue
	q.in.Lock()
	defer q.in.Unlock()
	r := q.in.read[input]
	return r.next, r.epoch, r != reach{}
}

// pull moves what was handed over to the worker's side.
func (q *queue) pull() {
	q.in.Lock()
	defer q.in.Unlock()
	for i, b := range q.in.batches {
		f := &q.inputs[i]
		f.end = q.in.ends[i]
		if len(b) > 0 {
			f.push(b)
			q.in.batches[i] = nil
		}
		f.givenUp = f.givenUp && f.lags()
	}
}

// consumed gives back the bytes of a record.
func (q *queue) consumed(input int, bytes int64) {
	q.in.Lock()
	defer q.in.Unlock()
	q.in.hold(input, -bytes)
}

func (q *queue) waiting(input int) int64 {
	q.in.Lock()
	defer q.in.Unlock()
	return q.in.bytes[input]
}

// next takes the next record: one whose delay is over, or of several inputs the one whose first
// record is the oldest by timestamp, ties by input. While there are both they take turns: an outage
// leaves delayed records in large numbers, which may only be delayed again, and the others keep
// half of their speed at least. There is none while the queue waits for an input; what is to be run
// again has its order already and does not wait.
func (q *queue) next(now time.Time) (e Entry, fresh, ok bool) {
	if n := len(q.again); n > 0 {
		e = q.again[n-1]
		q.again = q.again[:n-1]
		return e, false, true
	}
	best, due, lagging := -1, -1, false
	for i := range q.inputs {
		f := &q.inputs[i]
		if f.len() == 0 {
			lagging = lagging || f.lags() && !f.givenUp
			continue
		}
		if f.delay > 0 {
			if at := f.dueAt(); !now.Before(at) && (due < 0 || at.Before(q.inputs[due].dueAt())) {
				due = i
			}
			continue
		}
		if best < 0 || f.firstTime() < q.inputs[best].firstTime() {
			best = i
		}
	}
	switch {
	case due >= 0 && !q.delayedLast:
		best = due
	case best >= 0 && !(lagging && q.holds(now)):
		q.heldSince = time.Time{}
	case due >= 0:
		best = due // it has waited long enough, and no other input may give a record now
	default:
		return Entry{}, false, false
	}
	q.delayedLast = best == due
	return Entry{Input: best, Record: q.inputs[best].pop()}, true, true
}

// holds reports whether the records that are there have to wait longer for the inputs that lag, and
// gives those up if not.
//
// The time of one wait is counted once and not for each input, so that inputs that begin to lag one
// after another do not add up.
func (q *queue) holds(now time.Time) bool {
	if q.heldSince.IsZero() {
		q.heldSince = now
	}
	if now.Sub(q.heldSince) < q.waitMax {
		return true
	}
	for i := range q.inputs {
		f := &q.inputs[i]
		f.givenUp = f.givenUp || f.lags()
	}
	return false
}

// waitsUntil is when next gives up its wait for lagging inputs, zero if the last call did not wait.
// Records, or an end, that are handed over before may end the wait earlier.
func (q *queue) waitsUntil() time.Time {
	if q.heldSince.IsZero() {
		return time.Time{}
	}
	return q.heldSince.Add(q.waitMax)
}

// WaitsUntil is when Next gives up the wait for a lagging input that made it return nothing
// although records are queued; zero if it did not wait. The worker commits what it has, instead of
// waiting with an open transaction, and asks again then, or after the next Pull.
func (t *Task) WaitsUntil() time.Time { return t.queue.waitsUntil() }

// putBack makes entries the next ones, in their order.
func (q *queue) putBack(entries []Entry) {
	for i := len(entries) - 1; i >= 0; i-- {
		q.again = append(q.again, entries[i])
	}
}

func (q *queue) close() {
	q.in.Lock()
	defer q.in.Unlock()
	if q.in.held != nil && !q.in.closed {
		for _, bytes := range q.in.bytes {
			q.in.held.Add(-bytes)
		}
	}
	q.in.closed = true
	for i := range q.in.batches {
		q.in.batches[i] = nil
	}
}
