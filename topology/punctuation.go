package topology

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
)

// Punctuator is what a node does when a schedule fires, without a record. Like a [Handler] it may
// read, write and scan stores, emit, and count. All its writes and outputs succeed or fail
// together.
//
// A record that the punctuator builds from nothing has at as its timestamp if Timestamp is 0, only
// its own headers, and no [Record.Source]. Its mode is that of the application, even if the record
// that moved the time has another mode.
type Punctuator func(c *Context, at time.Time) error

// OnStreamTime makes f run whenever the task's stream time passes a multiple of every, counted from
// the epoch. f runs together with the record that moved the stream time, after all nodes have
// handled that record. at is the newest multiple that was passed, so a jump over several of them
// makes f run once. The first record of a task only sets the time and fires nothing. A record that
// fails fires nothing either. Without records time stands still.
//
// The record and the punctuations that it fires are one unit. If one of them fails, the whole unit
// is undone, and the [Policy] of the node that failed decides whether the record is tried again. A
// punctuation never makes the record a dead letter, because the record did not cause the failure:
// the task stops instead.
//
// Several schedules fire in the order of the names of their nodes, and those of one node as
// declared. The schedule has no state beside the task's stream time, so that a restart neither
// loses nor repeats a firing.
//
// every is at least a millisecond, and in whole milliseconds; otherwise NewGraph fails.
func (t *Setup) OnStreamTime(every time.Duration, f Punctuator) {
	if s := t.schedule("OnStreamTime", every, f); s != nil {
		s.time = "stream time"
		t.graph.onStreamTime = append(t.graph.onStreamTime, s)
	}
}

// OnWallClock makes f run each time the wall clock has advanced by every, first that long after the
// task was opened, whether records come or not. at is the time of the clock, in milliseconds, UTC.
// After a stall f runs once, and then again at multiples of every after the opening.
//
// The work of f is committed like the work of a record. If f fails, its work is undone, and the
// [Policy] of the node that failed decides whether f is tried again, with the same at. If the
// policy says dead letter, the task stops.
//
// This is the only way in which user code gets to see a clock. at is kept with the work of the
// round, so that a round that runs again runs with the same one. It goes back if the clock is set
// back.
//
// every is at least a millisecond, and in whole milliseconds; otherwise NewGraph fails.
func (t *Setup) OnWallClock(every time.Duration, f Punctuator) {
	if s := t.schedule("OnWallClock", every, f); s != nil {
		s.time, s.next = "the wall clock", every
		t.graph.onWallClock = append(t.graph.onWallClock, s)
	}
}

// schedule is a punctuator with its interval.
type schedule struct {
	graph *Graph
	node  *node
	// scope is that of the node's handler: the emits are the same ones.
	scope *scope
	every time.Duration
	f     Punctuator
	// time says in texts which time the schedule goes by.
	time string
	// next is when a schedule of the wall clock is due, after the graph was made.
	next time.Duration
}

func (s *schedule) String() string { return fmt.Sprintf("punctuation on %s every %s", s.time, s.every) }

// schedule returns a schedule for the declaration that is called what, nil if it is wrong.
func (t *Setup) schedule(what string, every time.Duration, f Punctuator) *schedule {
	switch {
	case t.done:
		// Nothing else would tell: a schedule made later would be gone after a restart.
		_ = t.graph.fail(t.node, Fail(Fatal, errScheduleLate))
		return nil
	case every < time.Millisecond || every%time.Millisecond != 0:
		t.errs = append(t.errs, fmt.Errorf("%s(%s): the interval must be whole milliseconds, at least one",
			what, every))
		return nil
	case f == nil:
		t.errs = append(t.errs, fmt.Errorf("%s(%s): %w", what, every, errNilFunc))
		return nil
	}
	return &schedule{graph: t.graph, node: t.node, scope: t.scope, every: every, f: f}
}

// Reasons for failures of punctuations that no user code is to blame for, but the last one.
const (
	errForeignPunctuation = schemas.Reason("the punctuation was not made by this graph")
	errScheduleLate       = schemas.Reason("a schedule is declared after the factory has returned")
)

// noteNoDeadLetter explains a stop in place of a dead letter.
const noteNoDeadLetter = "the task stops because no record is to blame for the failure of a punctuation"

// prepareSchedules makes the order of firing independent of the order in which the nodes were made,
// and starts the schedules of the wall clock.
func (g *Graph) prepareSchedules() {
	byNode := func(a, b *schedule) int { return strings.Compare(a.node.name, b.node.name) }
	slices.SortStableFunc(g.onStreamTime, byNode)
	slices.SortStableFunc(g.onWallClock, byNode)
	if len(g.onWallClock) > 0 {
		g.made = g.config.Now()
	}
}

// fireStreamTime runs what the record at work has made due. It stops at the first failure.
func (g *Graph) fireStreamTime() {
	before, now := g.in.StreamTimeBefore, g.in.StreamTime
	if before == state.NoTime || now <= before {
		return
	}
	g.enter(Live) // the record says when, and not why
	for _, s := range g.onStreamTime {
		every := s.every.Milliseconds()
		passed := floorDiv(now, every)
		if passed == floorDiv(before, every) {
			continue
		}
		g.fire(s, time.UnixMilli(passed*every).UTC())
		if g.failure != nil {
			return
		}
	}
}

// floorDiv rounds down, also before the epoch, where Go's division rounds up.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// fire gives the turn to the node of s. The outcome is in g.failure; a panic passes through.
func (g *Graph) fire(s *schedule, at time.Time) {
	g.firing, g.node = s, s.node
	o := g.newOrigin()
	*o = origin{streamTime: g.in.StreamTime}
	*s.scope = scope{origin: o, timestamp: at.UnixMilli(), key: s.scope.key}
	if err := s.f(&g.context, at); err != nil {
		_ = g.fail(s.node, err)
	}
	if g.node != s.node {
		// As in guard: a node further down did not return. If it has failed, the failure is noted
		// already.
		_ = g.fail(g.node, errRecovered)
	}
	if g.failure == nil {
		g.firing = nil
	}
}

// Punctuation is one firing of a wall-clock schedule. [Graph.Due] returns it to the runtime, which
// passes it to [Graph.Punctuate]. It is a value: the runtime may keep it in a journal and run it
// again for as long as the graph lives.
type Punctuation struct {
	// At is the clock value that the user code gets, in milliseconds and UTC.
	At time.Time
	// StreamTime is the task's stream time, in milliseconds since the epoch. The runtime fills it
	// in, because it owns the stream time; Due leaves [state.NoTime].
	StreamTime int64
	// Attempt counts from 1. The runtime adds one before it plays the punctuation again after a
	// Retry verdict.
	Attempt int

	schedule *schedule
	// release is nil for the firing of a schedule. Copies share it.
	release *release
}

// IsRelease reports whether the punctuation tries the next record of a parked key, and is no firing
// of a schedule.
func (p *Punctuation) IsRelease() bool { return p.release != nil }

// Due returns the wall-clock schedule that has been due for the longest time at now, if there is
// one. It plans the next firing of that schedule: the first moment after now at a multiple of the
// interval after the graph was made. The caller calls Due until ok is false.
//
// The caller then owns the punctuation, through retries and aborts. The plan uses the difference
// between now and the result of [GraphConfig.Now] when the graph was made. If both come from
// [time.Now], setting the clock neither delays a schedule nor fires it early.
func (g *Graph) Due(now time.Time) (p Punctuation, ok bool) {
	var due *schedule
	for _, s := range g.onWallClock {
		if due == nil || s.next < due.next {
			due = s
		}
	}
	elapsed := now.Sub(g.made)
	if due == nil || elapsed < due.next {
		return Punctuation{}, false
	}
	last := elapsed - elapsed%due.every
	due.next = last + min(due.every, math.MaxInt64-last) // the longest interval must not overflow
	return Punctuation{
		At: time.UnixMilli(now.UnixMilli()).UTC(), StreamTime: state.NoTime, Attempt: 1, schedule: due,
	}, true
}

// NextDue returns when Due has its next punctuation. ok is false if there are no wall-clock
// schedules.
func (g *Graph) NextDue() (at time.Time, ok bool) {
	next := time.Duration(math.MaxInt64)
	for _, s := range g.onWallClock {
		next = min(next, s.next)
	}
	return g.made.Add(next), len(g.onWallClock) > 0
}

// Punctuate runs one punctuation and returns the verdict about it. Like [Graph.Process] it marks a
// savepoint of the state first, reverts to it unless the verdict is Accept, and never panics
// because of user code. The same punctuation over the same state has the same result.
//
// The verdict is Accept, Retry or Stop. Accept: outputs and state writes join the round; if there
// are none, and no counts, nothing needs to be committed. Retry: it is played again after Backoff
// with Attempt+1 and the same At, and the task does nothing before. A release is about a record:
// its verdict is Accept, DeadLetter, Stop, or Park if the record has failed again.
func (g *Graph) Punctuate(p Punctuation) graph.Verdict {
	if p.release != nil && p.release.parking.graph == g {
		return p.release.run(p)
	}
	g.begin(&graph.Input{StreamTime: p.StreamTime, StreamTimeBefore: p.StreamTime, Attempt: p.Attempt})
	g.runPunctuation(p)
	return g.conclude()
}

func (g *Graph) runPunctuation(p Punctuation) {
	defer g.endTurn()
	if p.schedule == nil || p.schedule.graph != g {
		_ = g.fail(nil, Fail(Fatal, errForeignPunctuation))
		return
	}
	g.fire(p.schedule, p.At)
}
