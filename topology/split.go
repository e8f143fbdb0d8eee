package topology

import "errors"

// Split sends each record of a stream to exactly one of several named branches: to the first whose
// condition holds, in the order of the declarations, or else to the one that Otherwise names. A
// Split without Otherwise is a mistake that Build reports; end that branch unused if its records
// are not wanted.
type Split[K, V any] struct {
	b     *Builder
	node  *node
	cases []branch[K, V]
	// rekeyed is that of the stream.
	rekeyed   *node
	otherwise *port[K, V]
}

type branch[K, V any] struct {
	holds func(r Record[K, V]) (bool, error)
	port  *port[K, V]
}

// Split begins the branching of s. Branches are added with [Split.Case] and [Split.Otherwise].
func (s Stream[K, V]) Split(name string, opts ...NodeOption) *Split[K, V] {
	b := s.builder("Split(" + name + ")")
	split := &Split[K, V]{b: b, rekeyed: s.rekeyed}
	n := &node{kind: processorNode, name: name, pos: caller(), incomplete: "Split has no Otherwise branch"}
	split.node = b.add(n, opts)
	connect(b, s.port, n, once(n, split.build))
	return split
}

// Case adds a branch for the records for which holds returns true and no earlier branch was taken.
func (s *Split[K, V]) Case(name string, holds func(r Record[K, V]) (bool, error)) Stream[K, V] {
	pos := caller()
	s.claim(name, pos)
	if holds == nil {
		s.b.mistakeAt(pos, s.node.name+"."+name, errNilFunc)
	}
	p := addPort[K, V](s.b, s.node, name)
	if !s.b.closed {
		s.cases = append(s.cases, branch[K, V]{holds: holds, port: p})
	}
	return Stream[K, V]{b: s.b, port: p, rekeyed: s.rekeyed}
}

// Otherwise names the branch for all records that no Case has taken.
func (s *Split[K, V]) Otherwise(name string) Stream[K, V] {
	pos := caller()
	s.claim(name, pos)
	p := addPort[K, V](s.b, s.node, name)
	if s.otherwise != nil {
		s.b.mistakeAt(pos, s.node.name+"."+name, errors.New("a Split has one Otherwise branch"))
		return Stream[K, V]{b: s.b, port: p, rekeyed: s.rekeyed}
	}
	if !s.b.closed {
		s.otherwise = p
		s.node.incomplete = ""
	}
	return Stream[K, V]{b: s.b, port: p, rekeyed: s.rekeyed}
}

func (s *Split[K, V]) claim(name string, pos position) { s.b.claimOutlet(s.node, name, pos) }

func (s *Split[K, V]) build(g *Graph) (Emit[K, V], error) {
	type target struct {
		holds func(r Record[K, V]) (bool, error)
		next  Emit[K, V]
	}
	var targets []target
	for _, branch := range s.cases {
		next, err := link(g, branch.port)
		if err != nil {
			return nil, err
		}
		targets = append(targets, target{branch.holds, next})
	}
	otherwise, err := link(g, s.otherwise)
	if err != nil {
		return nil, err
	}
	return guard(g, s.node, func(c *Context, r Record[K, V]) error {
		for _, t := range targets {
			ok, err := t.holds(r)
			if err != nil {
				return err
			}
			if ok {
				return t.next(c, r)
			}
		}
		return otherwise(c, r)
	}), nil
}
