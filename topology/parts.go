package topology

import "fmt"

// step is one step of an aggregation; ok is false if there is no aggregate so far.
type step[K, V, A any] func(sofar A, ok bool, r Record[K, V]) (A, error)

// bound is a step with its record. A node that aggregates streams of several types sees nothing
// else of the records.
type bound[A any] func(sofar A, ok bool) (A, error)

// part is one stream of an aggregation.
type part[K, A any] struct {
	// builder is that of the stream.
	builder func(declaring string) *Builder
	// rekeyed is that of the stream.
	rekeyed *node
	// defined is false if the function of the step is nil.
	defined bool
	// connect makes n a child of the stream. Records with a null value end there if values is true.
	connect func(b *Builder, n *node, values bool, entry func(g *Graph) (Emit[K, bound[A]], error))
}

// partOf returns the part that takes one step for each record of s.
func partOf[K, V, A any](s Stream[K, V], defined bool, take step[K, V, A]) part[K, A] {
	return part[K, A]{
		builder: s.builder, rekeyed: s.rekeyed, defined: defined,
		connect: func(b *Builder, n *node, values bool, entry func(g *Graph) (Emit[K, bound[A]], error)) {
			connect(b, s.port, n, func(g *Graph) (Emit[K, V], error) {
				next, err := entry(g)
				if err != nil {
					return nil, err
				}
				x := &stepping[K, V, A]{take: take, next: next}
				x.bound = x.step
				err = g.prepare(n, func(t *Setup) { x.gate = newGate[K, V](t, values) })
				return guard(g, n, x.process), err
			})
		},
	}
}

// stepping passes the steps of a stream on in a graph.
type stepping[K, V, A any] struct {
	gate *gate[K, V]
	take step[K, V, A]
	next Emit[K, bound[A]]
	// bound is the method step. It is made once, so that a record costs no allocation.
	bound bound[A]
	// record is the one of the step.
	record Record[K, V]
}

func (x *stepping[K, V, A]) process(c *Context, r Record[K, V]) error {
	if x.gate.stops(&r) {
		return nil
	}
	x.record = r
	return x.next(c, WithValue(r, x.bound))
}

func (x *stepping[K, V, A]) step(sofar A, ok bool) (A, error) { return x.take(sofar, ok, x.record) }

// addAggregation adds a node that aggregates streams in one store, after which it is named. values
// is that of [part.connect]. prepare gets the function that passes a record on, and returns what
// the node does with one step.
func addAggregation[K, A, K2, V2 any](
	parts []part[K, A], store AnyStore, what string, values bool, opts []NodeOption,
	prepare func(t *Setup, next Emit[K2, V2]) Emit[K, bound[A]],
) *port[K2, V2] {
	declaring := what + "(" + store.Name() + ")"
	b := parts[0].builder(declaring)
	n := b.add(&node{kind: processorNode, name: store.Name(), pos: caller()}, opts)
	b.addStore(n, store)
	p := addPort[K2, V2](b, n, "")
	entry := opening(n, p, prepare)
	for _, part := range parts {
		if !part.defined {
			b.mistakeAt(n.pos, n.name, errNilFunc)
		}
		if part.builder(declaring) != b {
			b.mistakeAt(n.pos, n.name, fmt.Errorf("a stream cannot be aggregated: %w", errForeign))
			continue
		}
		b.checkKeyed(n, part.rekeyed)
		part.connect(b, n, values, entry)
	}
	return p
}
