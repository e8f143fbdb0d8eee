package task

import (
	"fmt"
	"sync"

	"github.com/onceward/onceward/txn/internal/broker"
)

// Entry is one record of one input of a task.
type Entry struct {
	// Input is the index of the input in the task's sorted inputs.
	Input  int
	Record *broker.Record
}

// Bytes is the memory of the entry.
func (e Entry) Bytes() int64 { return recordBytes(e.Record) }

// String names the record by its place.
func (e Entry) String() string {
	return fmt.Sprintf("%s[%d] offset %d", e.Record.Topic, e.Record.Partition, e.Record.Offset)
}

// recordOverhead is what a queued record costs beside its bytes.
const recordOverhead = 128

func recordBytes(r *broker.Record) int64 {
	n := recordOverhead + len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += len(r.Headers[i].Key) + len(r.Headers[i].Value)
	}
	return int64(n)
}

// inbound is what the dispatcher has handed over and the worker has not taken yet. It is the only part of a task under a lock.
type inbound struct {
	sync.Mutex
	batches [][]*broker.Record // per input
	bytes   []int64            // per input, everything that the worker has not consumed yet
	closed  bool
}

// queue holds the records of a task in the order in which they are to be processed: first what is to be run again, then the inputs
// merged by timestamp.
type queue struct {
	in     inbound
	inputs []fifo
	again  []Entry // next one last
}

// fifo is one input's records in offset order.
type fifo struct {
	records []*broker.Record
	head    int
}

func (f *fifo) len() int { return len(f.records) - f.head }

func (f *fifo) push(records []*broker.Record) {
	if f.head == len(f.records) {
		f.records, f.head = f.records[:0], 0
	}
	f.records = append(f.records, records...)
}

func (f *fifo) pop() *broker.Record {
	r := f.records[f.head]
	f.records[f.head] = nil
	f.head++
	return r
}

func newQueue(inputs int) *queue {
	q := &queue{inputs: make([]fifo, inputs)}
	q.in.batches = make([][]*broker.Record, inputs)
	q.in.bytes = make([]int64, inputs)
	return q
}

// enqueue adds records of one input and returns the bytes that wait for that input. ok is false when the task is closed.
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
	q.in.bytes[input] += n
	return q.in.bytes[input], true
}

// pull moves what was handed over to the worker's side.
func (q *queue) pull() {
	q.in.Lock()
	defer q.in.Unlock()
	for i, b := range q.in.batches {
		if len(b) > 0 {
			q.inputs[i].push(b)
			q.in.batches[i] = nil
		}
	}
}

// consumed gives back the bytes of a record.
func (q *queue) consumed(input int, bytes int64) {
	q.in.Lock()
	defer q.in.Unlock()
	q.in.bytes[input] -= bytes
}

func (q *queue) waiting(input int) int64 {
	q.in.Lock()
	defer q.in.Unlock()
	return q.in.bytes[input]
}

// next takes the next record: of several inputs the one whose first record is the oldest by timestamp, ties by input.
func (q *queue) next() (e Entry, fresh, ok bool) {
	if n := len(q.again); n > 0 {
		e = q.again[n-1]
		q.again = q.again[:n-1]
		return e, false, true
	}
	best := -1
	for i := range q.inputs {
		f := &q.inputs[i]
		if f.len() == 0 {
			continue
		}
		if best < 0 || f.records[f.head].Timestamp.Before(q.inputs[best].records[q.inputs[best].head].Timestamp) {
			best = i
		}
	}
	if best < 0 {
		return Entry{}, false, false
	}
	return Entry{Input: best, Record: q.inputs[best].pop()}, true, true
}

// putBack makes entries the next ones, in their order.
func (q *queue) putBack(entries []Entry) {
	for i := len(entries) - 1; i >= 0; i-- {
		q.again = append(q.again, entries[i])
	}
}

func (q *queue) close() {
	q.in.Lock()
	defer q.in.Unlock()
	q.in.closed = true
	for i := range q.in.batches {
		q.in.batches[i] = nil
	}
}
