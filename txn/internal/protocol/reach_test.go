package protocol

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// noOp stands for no outstanding effect.
const noOp EffectKind = 255

// node is a state of the machine with what is outstanding. Round numbers are folded: front 1, back
// 2. So there are few of them.
type node struct {
	state       State
	front, back EffectKind
}

func fold(s State) State {
	s.FrontRound, s.BackRound = 1, 2
	return s
}

// reachable is everything that a correct worker can bring the machine to, with any answers in any
// order.
type reachable struct {
	nodes []node
	next  map[node][]node
}

// events lists what can happen in a node: what the worker may report, and every answer to what is
// outstanding.
func (n node) events() []Event {
	out := []Event{{Kind: Full}, {Kind: Due}, {Kind: Dropped}}
	if n.state.CanCompute() {
		out = append(out, Event{Kind: Joined})
	}
	for _, k := range answers[n.front] {
		out = append(out, Event{Kind: k, Round: n.state.FrontRound})
	}
	for _, k := range answers[n.back] {
		out = append(out, Event{Kind: k, Round: n.state.BackRound})
	}
	return out
}

// after takes an event and follows the effects.
func (n node) after(t testing.TB, e Event) node {
	to, effects := Step(n.state, e)
	front, back := n.front, n.back
	switch {
	case e.Kind <= Dropped:
	case e.Round == n.state.FrontRound && front != noOp:
		front = noOp
	default:
		back = noOp
	}
	for _, f := range effects {
		if _, answered := answers[f.Kind]; !answered {
			continue
		}
		slot := &front
		if f.Round == to.BackRound {
			slot = &back
		}
		if *slot != noOp {
			t.Fatalf("[%s] %s: effect %s while %s is not answered", n.state, e.Kind, f, *slot)
		}
		*slot = f.Kind
	}
	return node{fold(to), front, back}
}

// explore visits every reachable node.
func explore(t testing.TB) reachable {
	start := node{fold(New(2)), noOp, noOp}
	r := reachable{next: map[node][]node{start: nil}}
	for todo := []node{start}; len(todo) > 0; todo = todo[1:] {
		n := todo[0]
		r.nodes = append(r.nodes, n)
		if n.state.Front == Broken {
			continue
		}
		for _, e := range n.events() {
			to := n.after(t, e)
			if to.state.Front == Broken && !slices.ContainsFunc(Arrows, func(a Arrow) bool {
				return a.From == n.state.Front && a.Event == e.Kind && a.To == Broken
			}) {
				t.Fatalf("[%s] %s breaks the machine without an arrow to Broken", n.state, e.Kind)
			}
			if _, seen := r.next[to]; !seen {
				r.next[to] = nil
				todo = append(todo, to)
			}
			r.next[n] = append(r.next[n], to)
		}
	}
	return r
}

// pairs lists the back phases that occur with every front phase.
func (r reachable) pairs() map[[2]Phase]bool {
	out := map[[2]Phase]bool{}
	for _, n := range r.nodes {
		out[[2]Phase{n.state.Front, n.state.Back}] = true
	}
	return out
}

func (r reachable) table() string {
	var out strings.Builder
	pairs := r.pairs()
	for front := None; front <= Broken; front++ {
		var backs []string
		for back := None; back <= Broken; back++ {
			if pairs[[2]Phase{front, back}] {
				backs = append(backs, back.String())
			}
		}
		if len(backs) > 0 {
			fmt.Fprintf(&out, "%-9s %s\n", front, strings.Join(backs, " "))
		}
	}
	return out.String()
}

// TestReachableStates checks every state that any order of answers can lead to: the outstanding
// effect fits the phase, and what is in flight ends if it is answered: from everywhere there is a
// way to a quiet or a broken machine.
func TestReachableStates(t *testing.T) {
	r := explore(t)
	ends := map[node]bool{}
	for changed := true; changed; {
		changed = false
		for _, n := range r.nodes {
			good := ends[n] || n.state.Quiet() || n.state.Front == Broken ||
				slices.ContainsFunc(r.next[n], func(to node) bool { return ends[to] })
			changed = changed || good != ends[n]
			ends[n] = good
		}
	}
	for _, n := range r.nodes {
		if !ends[n] {
			t.Errorf("[%s] with %s and %s outstanding never becomes quiet", n.state, n.front, n.back)
		}
		if n.state.Front == Broken {
			continue
		}
		if want := outstanding(n.state); n.front != want[0] || n.back != want[1] {
			t.Errorf("[%s]: %s and %s are outstanding, want %s", n.state, n.front, n.back, want)
		}
	}
	if len(r.nodes) < 40 {
		t.Errorf("only %d states were reached", len(r.nodes))
	}
}

// outstanding is what must be on its way in a state: of the front round and of the back round.
func outstanding(s State) [2]EffectKind {
	of := map[Phase]EffectKind{
		Flushing: Flush, Offsets: SendOffsets, Ending: End, Applying: Apply,
		Aborting: Abort, Settling: Settle, Doubting: Settle, Asking: Ask,
	}
	at := func(p Phase) EffectKind {
		if k, ok := of[p]; ok {
			return k
		}
		return noOp
	}
	out := [2]EffectKind{at(s.Front), at(s.Back)}
	if out[1] != noOp && slices.Contains([]Phase{Aborting, Settling, Doubting}, s.Front) {
		out[0] = noOp // held back: the round on top goes first
	}
	return out
}
