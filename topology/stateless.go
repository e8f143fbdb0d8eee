package topology

import (
	"cmp"
	"errors"
	"fmt"
)

// addOperator adds a node with one parent. make gets the function that passes a record on from the
// node's only outlet, and returns what the node does with one record; errors that do not come from
// further down are the node's.
func addOperator[K, V, K2, V2 any](
	s Stream[K, V], name, what string, defined bool, opts []NodeOption,
	make func(g *Graph, n *node, next Emit[K2, V2]) Emit[K, V],
) Stream[K2, V2] {
	return addStep(s, name, what, defined, opts,
		func(g *Graph, n *node, next Emit[K2, V2]) Emit[K, V] { return guard(g, n, make(g, n, next)) })
}

// addStep is addOperator for what takes its turn itself, with take and leave, which saves a call
// for each record. It is for the operators that do next to nothing else.
func addStep[K, V, K2, V2 any](
	s Stream[K, V], name, what string, defined bool, opts []NodeOption,
	make func(g *Graph, n *node, next Emit[K2, V2]) Emit[K, V],
) Stream[K2, V2] {
	b := s.builder(what + "(" + name + ")")
	n := b.add(&node{kind: processorNode, name: name, pos: caller()}, opts)
	if !defined {
		b.mistakeAt(n.pos, name, errNilFunc)
	}
	p := addPort[K2, V2](b, n, "")
	connect(b, s.port, n, once(n, func(g *Graph) (Emit[K, V], error) {
		next, err := link(g, p)
		if err != nil {
			return nil, err
		}
		return make(g, n, next), nil
	}))
	return Stream[K2, V2]{b: b, port: p, rekeyed: s.rekeyed}
}

// guard keeps track of which node is at work and turns its errors into the failure of the record.
func guard[K, V any](g *Graph, n *node, f Emit[K, V]) Emit[K, V] {
	return func(c *Context, r Record[K, V]) error {
		caller := g.take(n)
		return g.leave(n, caller, f(c, r))
	}
}

// take gives the turn to n, and returns who had it.
func (g *Graph) take(n *node) (caller *node) {
	caller, g.node = g.node, n
	return caller
}

// leave gives the turn of n, which has ended with err, back to its caller, unless something has
// failed.
func (g *Graph) leave(n, caller *node, err error) error {
	if err != nil || g.failure != nil || g.node != n {
		return g.failTurn(n, err)
	}
	g.node = caller
	return nil
}

// failTurn returns the failure of the record, which a turn of n has ended with.
func (g *Graph) failTurn(n *node, err error) error {
	switch {
	case err != nil:
		return g.fail(n, err)
	case g.failure != nil:
		// Something further down has failed, or a store has, and user code did not pass the error
		// on.
		return g.failure
	}
	// A node further down did not return: user code has recovered its panic.
	return g.fail(g.node, errRecovered)
}

// Filter passes on the records for which keep returns true.
func (s Stream[K, V]) Filter(
	name string, keep func(r Record[K, V]) (bool, error), opts ...NodeOption,
) Stream[K, V] {
	return addStep(s, name, "Filter", keep != nil, opts,
		func(g *Graph, n *node, next Emit[K, V]) Emit[K, V] {
			return func(c *Context, r Record[K, V]) error {
				caller := g.take(n)
				ok, err := keep(r)
				if ok && err == nil {
					err = next(c, r)
				}
				return g.leave(n, caller, err)
			}
		})
}

// Peek calls see with every record and passes the record on. It is for looking: an effect outside
// of the topology is not part of the transaction, and happens again when the record does.
func (s Stream[K, V]) Peek(name string, see func(r Record[K, V]) error, opts ...NodeOption) Stream[K, V] {
	return addStep(s, name, "Peek", see != nil, opts,
		func(g *Graph, n *node, next Emit[K, V]) Emit[K, V] {
			return func(c *Context, r Record[K, V]) error {
				caller := g.take(n)
				err := see(r)
				if err == nil {
					err = next(c, r)
				}
				return g.leave(n, caller, err)
			}
		})
}

// Merge returns the records of s and of all others as one stream. Merged sources are read by the
// same task, so their topics need the same number of partitions; records of one partition number
// are taken in the order of their timestamps, or of their [EventTime].
func (s Stream[K, V]) Merge(name string, others ...Stream[K, V]) Stream[K, V] {
	b := s.builder("Merge(" + name + ")")
	n := b.add(&node{kind: processorNode, name: name, pos: caller()}, nil)
	if len(others) == 0 {
		b.mistakeAt(n.pos, name, errors.New("there is nothing to merge with"))
	}
	merged := Stream[K, V]{b: b, port: addPort[K, V](b, n, "")}
	entry := once(n, func(g *Graph) (Emit[K, V], error) { return link(g, merged.port) })
	merging := map[*port[K, V]]bool{}
	for _, stream := range append([]Stream[K, V]{s}, others...) {
		switch {
		case stream.b != b:
			b.mistakeAt(n.pos, name, fmt.Errorf("a stream cannot be merged: %w", errForeign))
		case merging[stream.port]:
			b.mistakeAt(n.pos, name, errors.New("a stream is merged twice, which would double its records"))
		default:
			merging[stream.port] = true
			merged.rekeyed = cmp.Or(merged.rekeyed, stream.rekeyed)
			connect(b, stream.port, n, entry)
		}
	}
	return merged
}

// Map passes on what f makes of each record. See [Record] for what a record built from nothing
// inherits, and [MapValues] and [SelectKey] for the simpler cases.
//
// A changed key does not move the record to another task: use [Stream.Repartition] or [GroupBy]
// before state is kept by the new key. Where an operator of this package keeps state by key after
// Map without one, Build refuses, even if f keeps the key: see [Stream.Copartitioned].
func Map[K, V, K2, V2 any](
	s Stream[K, V], name string, f func(r Record[K, V]) (Record[K2, V2], error), opts ...NodeOption,
) Stream[K2, V2] {
	return addStep(s, name, "Map", f != nil, opts,
		func(g *Graph, n *node, next Emit[K2, V2]) Emit[K, V] {
			return func(c *Context, r Record[K, V]) error {
				caller := g.take(n)
				out, err := f(r)
				if err == nil {
					if out.origin == nil {
						from := scopeOf(&r)
						inherit(&out, &from)
					}
					err = next(c, out)
				}
				return g.leave(n, caller, err)
			}
		}).rekeys()
}

// MapValues passes on each record with the value that f makes of its value.
func MapValues[K, V, V2 any](
	s Stream[K, V], name string, f func(value V) (V2, error), opts ...NodeOption,
) Stream[K, V2] {
	return addStep(s, name, "MapValues", f != nil, opts,
		func(g *Graph, n *node, next Emit[K, V2]) Emit[K, V] {
			return func(c *Context, r Record[K, V]) error {
				caller := g.take(n)
				v, err := f(r.Value)
				if err == nil {
					err = next(c, WithValue(r, v))
				}
				return g.leave(n, caller, err)
			}
		})
}

// MapValuesWithRecord is [MapValues] for a value that is made of more than the value before it: of
// the key, the timestamp, the headers or the position of the record.
func MapValuesWithRecord[K, V, V2 any](
	s Stream[K, V], name string, f func(r Record[K, V]) (V2, error), opts ...NodeOption,
) Stream[K, V2] {
	return addStep(s, name, "MapValuesWithRecord", f != nil, opts,
		func(g *Graph, n *node, next Emit[K, V2]) Emit[K, V] {
			return func(c *Context, r Record[K, V]) error {
				caller := g.take(n)
				v, err := f(r)
				if err == nil {
					err = next(c, WithValue(r, v))
				}
				return g.leave(n, caller, err)
			}
		})
}

// MapHeaders passes on each record with the headers that f returns, whose slice f gives away. The
// key stays, and with it the task of the record.
func MapHeaders[K, V any](
	s Stream[K, V], name string, f func(r Record[K, V]) ([]Header, error), opts ...NodeOption,
) Stream[K, V] {
	return addOperator(s, name, "MapHeaders", f != nil, opts,
		func(g *Graph, n *node, next Emit[K, V]) Emit[K, V] {
			return func(c *Context, r Record[K, V]) error {
				headers, err := f(r)
				if err != nil {
					return err
				}
				r.Headers = headers
				return next(c, r)
			}
		})
}

// SelectKey passes on each record with the key that f returns. It does not move the record to
// another task: use [Stream.Repartition] before state is kept by the new key. Where an operator of
// this package keeps state by key after it without one, Build refuses: see [Stream.Copartitioned].
func SelectKey[K, V, K2 any](
	s Stream[K, V], name string, f func(r Record[K, V]) (K2, error), opts ...NodeOption,
) Stream[K2, V] {
	return addStep(s, name, "SelectKey", f != nil, opts,
		func(g *Graph, n *node, next Emit[K2, V]) Emit[K, V] {
			return func(c *Context, r Record[K, V]) error {
				caller := g.take(n)
				k, err := f(r)
				if err == nil {
					err = next(c, WithKey(r, k))
				}
				return g.leave(n, caller, err)
			}
		}).rekeys()
}

// FlatMap passes on every record that f emits, in that order. The error of emit is to be returned.
// See [Record] for what a record built from nothing inherits. The key may be another one, as after
// [SelectKey].
func FlatMap[K, V, K2, V2 any](
	s Stream[K, V], name string, f func(r Record[K, V], emit func(Record[K2, V2]) error) error,
	opts ...NodeOption,
) Stream[K2, V2] {
	return addOperator(s, name, "FlatMap", f != nil, opts,
		func(g *Graph, n *node, next Emit[K2, V2]) Emit[K, V] {
			from := &scope{}
			checked := emitFrom(g, n, from, next)
			emit := func(r Record[K2, V2]) error { return checked(&g.context, r) }
			return func(c *Context, r Record[K, V]) error {
				*from = scopeOf(&r)
				return f(r, emit)
			}
		}).rekeys()
}

// FlatMapValues passes on, for each record, one record for each value that f returns, in that order
// and with the record's key.
func FlatMapValues[K, V, V2 any](
	s Stream[K, V], name string, f func(value V) ([]V2, error), opts ...NodeOption,
) Stream[K, V2] {
	return addOperator(s, name, "FlatMapValues", f != nil, opts,
		func(_ *Graph, _ *node, next Emit[K, V2]) Emit[K, V] {
			return func(c *Context, r Record[K, V]) error {
				values, err := f(r.Value)
				if err != nil {
					return err
				}
				for _, v := range values {
					if err := next(c, WithValue(r, v)); err != nil {
						return err
					}
				}
				return nil
			}
		})
}

// emitFrom returns next for the use of user code in node n: a record built from nothing is
// completed, and a call outside of n's turn is an error.
func emitFrom[K, V any](g *Graph, n *node, from *scope, next Emit[K, V]) Emit[K, V] {
	return func(c *Context, r Record[K, V]) error {
		if g.node != n {
			return g.misuse(n)
		}
		if r.origin == nil {
			inherit(&r, from)
		}
		return next(c, r)
	}
}
