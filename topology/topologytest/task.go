package topologytest

import (
	"fmt"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// task is one task with its graph, its state and its inputs.
type task struct {
	driver *Driver
	// index is the place among the driver's tasks.
	index int
	id    graph.TaskID
	state *state.Task
	// stores are those of the subtopology, sorted by name.
	stores []graph.StoreInfo
	graph  *topology.Graph
	// inputs are sorted by topic.
	inputs     []*partition
	streamTime int64
	// delayed says that one of the inputs is a delayed retry topic.
	delayed bool
	// uncommitted counts the units of work since the last commit, rounds the commits.
	uncommitted int
	rounds      int64
	// opened is the driver's clock when the graph was made, openedAt the driver's elapsed then.
	opened   time.Time
	openedAt time.Duration
	stopped  error
	// undone says that a punctuation stopped the task.
	undone bool

	// The following fields are used with CommitByHand.

	// retry is the record that is being tried again.
	retry retry
	// kept is the part of the task at the last commit that is not in its state and its inputs.
	kept kept
}

// open makes the graph.
func (t *task) open() error {
	d := t.driver
	t.opened, t.openedAt = d.now, d.elapsed
	g, err := d.topology.NewGraph(t.id, t.state, topology.GraphConfig{
		Partitions: func(name string) int32 {
			if topic, ok := d.topics[name]; ok {
				return int32(len(topic.partitions))
			}
			return 0
		},
		MaxMessageBytes: func(name string) int32 { return d.settings.maxMessageBytes[name] },
		Compacted:       func(name string) bool { return d.settings.compacted[name] },
		Now:             d.Now,
		Mode:            d.settings.mode,
		GlobalTable:     d.globalTable,
		CheckViews:      true,
	})
	if err != nil {
		return err
	}
	t.graph = g
	t.stopped, t.undone = nil, false
	t.kept.parked = g.Parked()
	return nil
}

// loseRows empties the stores that nothing restores. It is called without uncommitted work.
func (t *task) loseRows() error {
	for _, s := range t.stores {
		if !s.LostOnRestart {
			continue
		}
		base := t.state.Positions()
		next := base.Clone()
		next.SetChangelog(state.Changelog{Store: s.Name}) // without its stream time
		if err := t.state.Database().Remove(base, next, state.IDOf(s.Name), state.Range{}); err != nil {
			return fmt.Errorf("emptying store %s of task %s: %w", s.Name, t.id, err)
		}
		t.state.Drop() // it reads the stream times again
	}
	return nil
}

// roundUnits is how many units of work are committed to the database together. It is large enough
// that the commit costs little. It is small enough that deleted rows do not pile up; scans have to
// skip them until the commit.
const roundUnits = 1024

// commit writes the overlay to the database, as a runtime does with a round, and lets stores expire
// rows. The time of a commit changes no read.
func (t *task) commit() error {
	t.uncommitted = 0
	if len(t.stores) == 0 {
		return nil
	}
	layer := t.state.Freeze()
	t.rounds++
	base := t.state.Positions()
	next := state.Positions{Round: state.RoundID{ProducerID: t.rounds}}
	for _, in := range t.inputs {
		next.Inputs = append(next.Inputs, state.Input{
			Topic: in.topic, Partition: in.number, Offset: in.position, StreamTime: t.streamTime,
		})
	}
	for _, s := range t.stores {
		next.Changelogs = append(next.Changelogs, state.Changelog{
			Store: s.Name, StreamTime: layer.StreamTime(state.IDOf(s.Name)),
		})
	}
	if err := t.state.Apply(layer, base, next); err != nil {
		return fmt.Errorf("committing task %s: %w", t.id, err)
	}
	if err := t.state.Expire(layer, next); err != nil {
		return fmt.Errorf("committing task %s: %w", t.id, err)
	}
	t.state.Retire(layer)
	return nil
}

// pending reports whether there is work: a record, a punctuation that is due, or the punctuation
// that stopped the task.
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
		if oldest == nil || t.turn(in) < t.turn(oldest) {
			oldest = in
		}
	}
	return oldest
}

// turn returns the time that orders the first record of an input among several inputs.
func (t *task) turn(p *partition) int64 {
	if p.turnOf != p.position {
		p.turn, p.turnOf = t.graph.EventTime(t.input(p)), p.position
	}
	return p.turn
}

// input returns the first record of an input, as the graph gets it.
func (t *task) input(p *partition) graph.Input {
	r := p.first()
	return graph.Input{
		Topic:            p.topic,
		Partition:        p.number,
		Offset:           p.position,
		Timestamp:        r.Timestamp,
		StreamTime:       max(t.streamTime, r.Timestamp),
		StreamTimeBefore: t.streamTime,
		Key:              r.Key,
		Value:            r.Value,
		Headers:          r.Headers,
	}
}

// step processes one record to its end. It returns false if there is nothing to do, or the task is
// stopped.
func (t *task) step() bool {
	if t.stopped != nil {
		return false
	}
	p := t.next()
	return p != nil && t.process(p)
}

// process processes the first record of an input. It returns false if that has stopped the task.
func (t *task) process(p *partition) bool {
	in := t.input(p)
	v := t.act(t.triedBefore(p), func(attempt int, firstFailure time.Time) graph.Verdict {
		in.Attempt, in.FirstFailure = attempt, firstFailure
		return t.graph.Process(in)
	})
	if v.Action == topology.Stop {
		return false
	}
	if v.Action == graph.Accept {
		t.streamTime = max(t.streamTime, v.EventTime)
	}
	p.advance()
	return t.did(unit{task: t, input: p})
}

// did notes a unit of work, and commits if it is time. It returns false if the commit has failed,
// which stops the task.
func (t *task) did(u unit) bool {
	if t.driver.settings.byHand {
		t.driver.round.units = append(t.driver.round.units, u)
		return true
	}
	if t.uncommitted++; t.uncommitted < roundUnits {
		return true
	}
	t.stopped = t.commit()
	return t.stopped == nil
}

// nextDue returns when the next wall-clock punctuation is due, as a value of the driver's elapsed.
func (t *task) nextDue() (at time.Duration, ok bool) {
	next, ok := t.graph.NextDue()
	return t.openedAt + next.Sub(t.opened), ok
}

// nextAgain returns when the next parked or delayed record is due, as a value of the driver's
// elapsed.
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
		if !ok || !t.fire(p) {
			return
		}
	}
}

// punctuate runs the punctuation that is due, if one is.
func (t *task) punctuate() {
	// Advances of the clock by records do not count: a jump of a record's time must fire nothing.
	p, ok := t.graph.Due(t.opened.Add(t.driver.elapsed - t.openedAt))
	if !ok {
		return
	}
	p.At = time.UnixMilli(t.driver.now.UnixMilli()).UTC()
	t.fire(p)
}

// fire runs a punctuation, or a parked record that is due. It returns false if that has stopped the
// task.
func (t *task) fire(p topology.Punctuation) bool {
	again := p
	p.StreamTime = t.streamTime
	v := t.act(retry{}, func(attempt int, _ time.Time) graph.Verdict {
		p.Attempt = attempt
		return t.graph.Punctuate(p)
	})
	t.undone = v.Action == topology.Stop
	switch {
	case t.undone:
		return false
	case v.Action == graph.Accept && !v.Wrote && len(v.Outputs) == 0 && len(v.Counts) == 0:
		return true // it has changed nothing
	case v.Action == graph.Accept && v.Released != "":
		t.streamTime = max(t.streamTime, v.EventTime)
	}
	return t.did(unit{task: t, punctuation: again})
}

// act runs a unit of work until its verdict is not Retry, follows the verdict, and returns it. The
// data of the returned verdict has been used. r has the number of earlier attempts.
func (t *task) act(r retry, try func(attempt int, firstFailure time.Time) graph.Verdict) graph.Verdict {
	v := try(r.attempts+1, r.firstFailure)
	for v.Action == topology.Retry {
		if r.firstFailure.IsZero() {
			r.firstFailure = t.driver.Now()
		}
		r.attempts++
		if err := t.keepAttempts(r); err != nil {
			t.stopped = err
			return graph.Verdict{Action: topology.Stop}
		}
		t.driver.pass(max(v.Backoff, time.Millisecond))
		v = try(r.attempts+1, r.firstFailure)
	}
	if r.attempts > 0 {
		t.retry = retry{}
	}
	if v.Action == topology.Stop {
		t.stopped = v.Failure
		return v
	}
	t.driver.deliver(&v)
	return v
}
