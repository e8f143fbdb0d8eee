package topology

import (
	"errors"
	"fmt"
)

// addStateful adds a node that keeps state by key in one store, after which it is named. prepare
// gets the function that passes a record on, and returns what the node does with one record; what
// is wrong it notes in t.
func addStateful[K, V, K2, V2 any](
	s Stream[K, V], store AnyStore, what string, defined bool, opts []NodeOption,
	prepare func(t *Setup, next Emit[K2, V2]) Emit[K, V],
) *port[K2, V2] {
	b := s.builder(what + "(" + store.Name() + ")")
	n := b.add(&node{kind: processorNode, name: store.Name(), pos: caller()}, opts)
	if !defined {
		b.mistakeAt(n.pos, n.name, errNilFunc)
	}
	b.addStore(n, store)
	b.checkKeyed(n, s.rekeyed)
	p := addPort[K2, V2](b, n, "")
	connect(b, s.port, n, entrance(n, opening(n, p, prepare), onlyEntrance))
	return p
}

// addStore makes a store one of n's, whose results depend on rows that last.
func (b *Builder) addStore(n *node, store AnyStore) {
	if info := b.addOwnStore(n, store); info.lost {
		b.mistakeAt(n.pos, n.name, fmt.Errorf("store %s: LostOnRestart is for Stateful, Process and ProcessValues, whose code expects rows "+
			"to be gone; the results of this operator would be wrong after a restart, so leave it out, or take InMemory", info.name))
	}
}

// addOwnStore makes a store of the user's own code one of n's.
func (b *Builder) addOwnStore(n *node, store AnyStore) storeInfo {
	info, err := store.info()
	if err != nil {
		b.mistakeAt(n.pos, n.name, fmt.Errorf("store %s: %w", info.name, err))
	}
	n.stores = append(n.stores, info)
	return info
}

// prepare runs f as the factory of a node of this package, and returns what is wrong.
func (g *Graph) prepare(n *node, f func(t *Setup)) error {
	t := g.newSetup(n)
	f(t)
	t.done = true
	if err := errors.Join(t.errs...); err != nil {
		return fmt.Errorf("node %s: %w", n.name, err)
	}
	return nil
}
