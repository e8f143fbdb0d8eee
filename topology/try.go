package topology

import "github.com/onceward/onceward/schemas"

// Try runs f as a part of the unit of work that can fail alone. It is for a node that processes
// something beside the record at work, such as a deferred record. A failure of f, or of the nodes
// behind its emits, is then not the failure of the record at work.
//
// The [Policy] of the node that failed decides about a failure of f, panics included.
//   - Dead letter: all traces of f in stores, outputs and counters are undone. Try returns the
//     failure as refused, the unit goes on, and the caller decides about the subject of f. No dead
//     letter is written.
//   - Any other decision, such as retry or stop, fails the whole unit. Try returns it as the error,
//     which the caller must return.
//
// Both results are nil if f succeeded.
//
// In a punctuation that also holds for Park and Delay, because there is no record that could wait.
// [graph.Failure.Again] says so: the failure is no reason to give up what f was about.
//
// Changes of f in memory are not undone. Calls may be nested. A call costs a copy of the unit's
// counters and of the stream times of the task's stores.
func (c *Context) Try(f func() error) (refused *Failure, err error) {
	g := c.graph
	n := g.node
	switch {
	case g.failure != nil:
		return nil, g.failure
	case n == nil:
		return nil, Fail(Fatal, errTryLate)
	}
	undo, waited := g.savepoint(), g.waited
	g.try(n, f)
	switch {
	case g.failure == nil:
		return nil, nil
	case !g.refuses():
		return nil, g.failure
	}
	refused = g.failure
	undo()
	g.failure, g.node, g.waited = nil, n, waited
	return refused, nil
}

const errTryLate = schemas.Reason("Try is called while no node handles anything")

// try calls f in the turn of n. The outcome is in g.failure.
func (g *Graph) try(n *node, f func() error) {
	defer func() {
		if p := recover(); p != nil && g.failure == nil {
			_ = g.fail(g.node, newPanicError(p))
			g.failure.Stack = stack()
		}
	}()
	if err := f(); err != nil {
		_ = g.fail(n, err)
	}
	if g.node != n {
		// As in guard: a node further down did not return. If it has failed, the failure is noted
		// already.
		_ = g.fail(g.node, errRecovered)
	}
}

// refuses reports whether the failure ends in a dead letter if it is the record at work that is to
// blame. That no record is at work, or that there is no topic for dead letters, does not matter
// here.
func (g *Graph) refuses() bool {
	action := g.policy().at(g.in.Attempt)
	if g.firing != nil && (action == Park || action == Delay) {
		g.failure.Again = true // there is no record that could be kept and tried again
		return true
	}
	return action == DeadLetter
}

// savepoint returns what takes stores, outputs and counters of the unit back to where they are.
func (g *Graph) savepoint() (undo func()) {
	revert := func() {}
	if g.state != nil {
		revert = g.state.Savepoint()
	}
	outputs := len(g.outputs)
	counts := make([]int64, len(g.touched))
	for i, c := range g.touched {
		counts[i] = c.n
	}
	return func() {
		revert()
		g.outputs = g.outputs[:outputs]
		for i, c := range g.touched[:len(counts)] {
			c.n = counts[i]
		}
		for _, c := range g.touched[len(counts):] {
			c.n, c.touched = 0, false
		}
		g.touched = g.touched[:len(counts)]
	}
}
