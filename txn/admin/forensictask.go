package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/broker"
)

// forensicTask is one task of a forensic run.
type forensicTask struct {
	id         graph.TaskID
	sub        graph.Subtopology
	graph      *topology.Graph
	stores     []state.Declaration
	state      *state.Task
	inputs     []*forensicQueue // one for each source of sub
	streamTime int64
	stopped    bool
	// leaves says that the records that are still parked stay so.
	leaves bool
}

const (
	// forensicTurn is how many records a task takes before the next one has its turn, so that what
	// lies between them stays small.
	forensicTurn = 1024
	// forensicBytes is how much state a task holds before it goes to its database.
	forensicBytes = 4 << 20
	// forensicAttempts is how often a parked record is tried: a policy may know no end.
	forensicAttempts = 100
)

// forensicQueue is an input of a task: a partition that is read, or a repartition topic in memory.
type forensicQueue struct {
	topic     string
	partition int32
	// from is where the reading has begun.
	from int64
	// next and end are the offsets that are left to be read; of a repartition topic next is that of
	// the next record.
	next, end int64
	reader    *broker.Reader // nil for a repartition topic
	records   []graph.Input
}

// fill reads on if nothing is left in memory.
func (q *forensicQueue) fill(ctx context.Context) error {
	moved := time.Now()
	for len(q.records) == 0 && q.reader != nil && q.next < q.end {
		got, err := q.reader.Fetch(ctx, q.next, fetchWait)
		if err != nil {
			return err
		}
		for _, r := range got.Records {
			if r.Offset < q.end && !r.Attrs.IsControl() {
				q.records = append(q.records, forensicInput(r))
			}
		}
		if got.Next == q.next && time.Since(moved) > heldMax {
			return fmt.Errorf("%s[%d] goes no further than offset %d", q.topic, q.partition, q.next)
		}
		q.next = min(got.Next, q.end)
	}
	return nil
}

func forensicInput(r *broker.Record) graph.Input {
	in := graph.Input{
		Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli(),
		TimestampType: graph.TimestampType(max(r.Attrs.TimestampType(), 0)), Key: r.Key, Value: r.Value,
	}
	for _, h := range r.Headers {
		in.Headers = append(in.Headers, graph.Header{Key: h.Key, Value: h.Value})
	}
	return in
}

// work gives a task its turn, and reports whether it did anything.
func (f *forensic) work(ctx context.Context, t *forensicTask) (worked bool, err error) {
	for range forensicTurn {
		if t.stopped {
			return worked, nil
		}
		if err := ctx.Err(); err != nil {
			return worked, err
		}
		q, err := t.oldest(ctx)
		if err != nil || q == nil {
			return worked, err
		}
		in := q.records[0]
		q.records = q.records[1:]
		worked = true
		if err := f.process(t, in); err != nil {
			return worked, err
		}
	}
	return worked, nil
}

// oldest returns the input whose first record is the oldest by its event time, nil if there is
// none.
func (t *forensicTask) oldest(ctx context.Context) (oldest *forensicQueue, err error) {
	var first int64
	for _, q := range t.inputs {
		if err := q.fill(ctx); err != nil {
			return nil, err
		}
		if len(q.records) == 0 {
			continue
		}
		in := q.records[0]
		in.StreamTimeBefore = t.streamTime
		if at := t.graph.EventTime(in); oldest == nil || at < first {
			oldest, first = q, at
		}
	}
	return oldest, nil
}

// release tries parked records again, those that come next of all tasks, and reports whether there
// were any.
func (f *forensic) release() (released bool, err error) {
	var first time.Time
	for _, t := range f.tasks {
		if at, ok := t.graph.NextRelease(); ok && !t.stopped && !t.leaves && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	if first.IsZero() {
		return false, nil
	}
	f.ahead = max(f.ahead, time.Until(first)+time.Millisecond)
	for _, t := range f.tasks {
		for !t.stopped && !t.leaves {
			p, ok := t.graph.DueRelease()
			if !ok {
				break
			}
			p.StreamTime = t.streamTime
			v := t.graph.Punctuate(p)
			t.leaves = v.Action == graph.Park && v.Failure != nil && v.Failure.Attempt >= forensicAttempts
			if err := f.take(t, graph.Input{Topic: v.Released, Partition: t.id.Partition, Offset: -1}, v); err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// process takes one record to its end.
func (f *forensic) process(t *forensicTask, in graph.Input) error {
	in.StreamTimeBefore, in.StreamTime = t.streamTime, max(t.streamTime, in.Timestamp)
	var v graph.Verdict
	for in.Attempt = 1; ; in.Attempt++ {
		if v = t.graph.Process(in); v.Action != graph.Retry {
			break
		}
		if in.FirstFailure.IsZero() {
			in.FirstFailure = time.Now()
		}
	}
	return f.take(t, in, v)
}

// take does what a verdict on a record says.
func (f *forensic) take(t *forensicTask, in graph.Input, v graph.Verdict) error {
	if v.Action == graph.Stop {
		t.stopped = true
		f.report.Stopped = append(f.report.Stopped, ForensicStop{
			Task: t.id.String(), Topic: in.Topic, Partition: in.Partition, Offset: in.Offset, Reason: v.Failure.Error(),
		})
		return nil
	}
	if v.Action == graph.Accept && (in.Offset >= 0 || v.Released != "") {
		t.streamTime = max(t.streamTime, v.EventTime)
	}
	for _, c := range v.Counts {
		f.outcomes[graph.OutcomeCount{Node: c.Node, Outcome: c.Outcome}] += c.N
	}
	for i := range v.Outputs {
		if err := f.deliver(v.Outputs[i].Clone()); err != nil {
			return err
		}
	}
	if t.state.OpenBytes() < forensicBytes {
		return nil
	}
	layer, at := t.state.Freeze(), t.state.Positions()
	if err := t.state.Apply(layer, at, at); err != nil {
		return err
	}
	t.state.Retire(layer)
	return nil
}

// deliver takes a record that would have been produced.
func (f *forensic) deliver(out graph.Output) error {
	if q, ok := f.queues[partitionOf{out.Topic, out.Partition}]; ok && q.reader == nil {
		q.records = append(q.records, graph.Input{
			Topic: out.Topic, Partition: out.Partition, Offset: q.next, Timestamp: out.Timestamp, Key: out.Key, Value: out.Value,
			Headers: out.Headers,
		})
		q.next++
		return nil
	}
	f.report.Outputs[out.Topic]++
	if f.options.Output == nil {
		return nil
	}
	return f.options.Output(out)
}
