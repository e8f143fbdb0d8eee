package topologytest

import (
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
)

// task is one task with its graph, its state and its inputs.
type task struct {
	driver     *Driver
	id         topology.TaskID
	state      *state.Task
	graph      *topology.Graph
	inputs     []*partition
	streamTime int64
	// opened is the driver's clock, and openedAt what the driver's elapsed was, when the graph was made.
	opened   time.Time
	openedAt time.Duration
	stopped  error
	// undone says that it was a punctuation that stopped the task.
	undone bool
}

// open makes the graph.
func (t *task) open() error {
	d := t.driver
	t.opened, t.openedAt = d.now, d.elapsed
	graph, err := d.topology.NewGraph(t.id, t.state, topology.GraphConfig{
		Partitions: func(name string) int32 {
			if topic, ok := d.topics[name]; ok {
				return int32(len(topic.partitions))
			}
			return 0
		},
		MaxMessageBytes: func(name string) int32 { return d.settings.maxMessageBytes[name] },
		Compacted:       func(name string) bool { return d.settings.compacted[name] },
		Now:             d.Now,
	})
	if err != nil {
		return err
	}
	t.graph = graph
	t.stopped, t.undone = nil, false
	return nil
}

// pending reports whether there is work: a record, a punctuation that is due, or one that stopped the task.
func (t *task) pending() bool {
	due, ok := t.nextDue()
	return t.next() != nil || t.undone || ok && due <= t.driver.elapsed
}

// next returns the input whose first record is the oldest, nil if there is none.
func (t *task) next() *partition {
	var oldest *partition
	for _, in := range t.inputs {
		if in.empty() || t.driver.now.Before(in.dueAt()) {
			continue
		}
		if in.delay > 0 {
			return in
		}
		if oldest == nil || in.first().Timestamp < oldest.first().Timestamp {
			oldest = in
		}
	}
	return oldest
}

// step processes one record to its end. It returns false if there is nothing to do, or the task is stopped.
func (t *task) step() bool {
	if t.stopped != nil {
		return false
	}
	p := t.next()
	if p == nil {
		return false
	}
	r := p.first()
	in := topology.Input{
		Topic:            p.topic,
		Partition:        p.number,
		Offset:           p.position,
		Timestamp:        r.Timestamp,
		StreamTime:       max(t.streamTime, r.Timestamp),
		Key:              r.Key,
		Value:            r.Value,
		Headers:          r.Headers,
		StreamTimeBefore: t.streamTime,
	}
	if p.delay > 0 {
		in.StreamTime = t.streamTime
	}
	var released *topology.Released
	action := t.act(func(attempt int, firstFailure time.Time) topology.Verdict {
		in.Attempt, in.FirstFailure = attempt, firstFailure
		v := t.graph.Process(in)
		released = v.Released
		return v
	})
	if action == topology.Stop {
		return false
	}
	if action == topology.Accept {
		t.streamTime = in.StreamTime
		if released != nil {
			t.streamTime = max(t.streamTime, released.Timestamp)
		}
	}
	p.advance()
	return true
}

// nextDue returns when the next punctuation by the wall clock is due, in the measure of the driver's elapsed.
func (t *task) nextDue() (at time.Duration, ok bool) {
	next, ok := t.graph.NextDue()
	return t.openedAt + next.Sub(t.opened), ok
}

// nextAgain returns when the next record that was parked or delayed is due, in the measure of the driver's elapsed.
func (t *task) nextAgain() (at time.Duration, ok bool) {
	next, ok := t.graph.NextRelease()
	for _, in := range t.inputs {
		if in.delay > 0 && !in.empty() && (!ok || in.dueAt().Before(next)) {
			next, ok = in.dueAt(), true
		}
	}
	return t.driver.elapsed + max(next.Sub(t.driver.now), 0), ok
}

// release runs the parked records that are due.
func (t *task) release() {
	for t.stopped == nil {
		p, ok := t.graph.DueRelease()
		if !ok {
			return
		}
		p.StreamTime = t.streamTime
		var released *topology.Released
		action := t.act(func(attempt int, _ time.Time) topology.Verdict {
			v := t.graph.Punctuate(p)
			released = v.Released
			return v
		})
		if action == topology.Accept && released != nil {
			t.streamTime = max(t.streamTime, released.Timestamp)
		}
		t.undone = action == topology.Stop
	}
}

// punctuate runs the punctuation that is due, if one is.
func (t *task) punctuate() {
	// What records have added to the clock is left out, so that a leap of theirs fires nothing.
	p, ok := t.graph.Due(t.opened.Add(t.driver.elapsed - t.openedAt))
	if !ok {
		return
	}
	p.At = time.UnixMilli(t.driver.now.UnixMilli()).UTC()
	p.StreamTime = t.streamTime
	action := t.act(func(attempt int, _ time.Time) topology.Verdict {
		p.Attempt = attempt
		return t.graph.Punctuate(p)
	})
	t.undone = action == topology.Stop
}

// act runs a unit of work until its verdict is not Retry, does what the verdict says, and returns its action.
func (t *task) act(unit func(attempt int, firstFailure time.Time) topology.Verdict) topology.Action {
	var firstFailure time.Time
	v := unit(1, firstFailure)
	for attempt := 2; v.Action == topology.Retry; attempt++ {
		if firstFailure.IsZero() {
			firstFailure = t.driver.Now()
		}
		t.driver.pass(max(v.Backoff, time.Millisecond))
		v = unit(attempt, firstFailure)
	}
	if v.Action == topology.Stop {
		t.stopped = v.Failure
		return v.Action
	}
	t.driver.deliver(v.Outputs)
	for _, c := range v.Counts {
		t.driver.counts[outcome{c.Node, c.Outcome}] += c.N
	}
	return v.Action
}
