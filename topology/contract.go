package topology

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// An Aspect is what a clause of a consumer contract is about.
type Aspect uint8

// The aspects.
const (
	// KeyAssumption: what has to be true of record keys.
	KeyAssumption Aspect = iota + 1
	// SideEffects: what happens outside of the topology's topics and stores.
	SideEffects
	// IdempotencyKey: by which id a repetition is recognised, here or behind.
	IdempotencyKey
	// OnDuplicate: what becomes of a record that comes again.
	OnDuplicate
	// OutOfOrder: what becomes of a record that comes too early or too late.
	OutOfOrder
	// OnPoison: what becomes of a record that nothing can process, beyond what policies say.
	OnPoison
	// OnReplay: what is different when records are read again.
	OnReplay
	// Retention: how long what the node knows is kept.
	Retention

	aspects = int(Retention) + 1
)

var aspectNames = [aspects]string{
	KeyAssumption: "key assumption", SideEffects: "side effects", IdempotencyKey: "idempotency key",
	OnDuplicate: "on duplicate", OutOfOrder: "out of order", OnPoison: "on poison", OnReplay: "on replay", Retention: "retention",
}

// String returns the aspect in words, such as "on duplicate".
func (a Aspect) String() string {
	if a < KeyAssumption || int(a) >= aspects {
		return fmt.Sprintf("aspect(%d)", uint8(a))
	}
	return aspectNames[a]
}

// Clause is what a node says about itself, for those who have to rely on the topology and cannot
// read its code.
type Clause struct {
	// Node is the name of the node.
	Node   string
	Aspect Aspect
	// Text is one sentence of the program.
	Text string
}

// Clause adds a sentence to the consumer contract, and returns n. It changes nothing else, the
// fingerprint included.
func (n *Node[K, V]) Clause(a Aspect, text string) *Node[K, V] {
	switch {
	case n.b.closed:
		n.b.mistakeAt(caller(), n.node.name, errClosed)
	case a < KeyAssumption || int(a) >= aspects:
		n.Mistake(fmt.Errorf("Clause: %s is no aspect of a contract", a))
	case text == "" || strings.ContainsAny(text, "\n\r"):
		n.Mistake(errors.New("Clause: the text is one line"))
	default:
		n.node.clause(a, text)
	}
	return n
}

// clause is [Node.Clause] for the operators of this package.
func (n *node) clause(a Aspect, text string) *node {
	n.clauses = append(n.clauses, Clause{Node: n.name, Aspect: a, Text: text})
	return n
}

// Clauses returns what nodes have declared with [Node.Clause], by aspect, then by node, then as
// declared. The caller may change the result.
func (t *Topology) Clauses() []Clause {
	var clauses []Clause
	for _, s := range t.subtopologies {
		for _, n := range s.nodes {
			clauses = append(clauses, n.clauses...)
		}
	}
	slices.SortStableFunc(clauses, func(a, b Clause) int {
		if a.Aspect != b.Aspect {
			return int(a.Aspect) - int(b.Aspect)
		}
		return strings.Compare(a.Node, b.Node)
	})
	return clauses
}

// Reaction is the policy of a node, or of the topology where Node is empty, for errors of a class.
type Reaction struct {
	Node   string
	Class  Class
	Policy Policy
}

// Reactions returns the policies of the topology in the order of the classes, and behind them those
// of nodes that differ from them, sorted by node. The caller may change the result.
func (t *Topology) Reactions() []Reaction {
	var all, own []Reaction
	for c := Transient; c <= Fatal; c++ {
		all = append(all, Reaction{Class: c, Policy: t.policies[c]})
	}
	for _, s := range t.subtopologies {
		for _, n := range s.nodes {
			for c := Transient; c <= Fatal; c++ {
				if p, ok := n.policies[c]; ok && p != t.policies[c] {
					own = append(own, Reaction{Node: n.name, Class: c, Policy: p})
				}
			}
		}
	}
	slices.SortStableFunc(own, func(a, b Reaction) int { return strings.Compare(a.Node, b.Node) })
	return append(all, own...)
}
