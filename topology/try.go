package topology

import "github.com/onceward/onceward/schemas"

// Try does f as a part of the unit at work that can be refused without it. It is for a node that
// takes up something else than the record at work, such as a record that it has kept back: what f
// meets, and what its emits meet in the nodes behind, is then not to be blamed on the record at
// work.
//
// What f fails with, a panic included, is judged by the [Policy] of the node that failed, as
// always. Where that ends in a dead letter, no trace of f is left in stores, outputs and counters;
// Try returns the failure as refused, the unit goes on, and the caller decides what becomes of what
// f was about. There is no dead letter. Everything else, such as a retry or a stop, fails the whole
// unit, and is the error, which is to be returned. Both are nil if f went well.
//
// In a punctuation that is also what becomes of Park and Delay, since there is no record that could
// wait. [graph.Failure.Again] says so: the failure is no reason to give up what f was about.
//
// What f has changed in memory is not undone. Calls may be nested. They cost a copy of what the
// counters of the unit have, and of the stream times of the task's stores.
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
