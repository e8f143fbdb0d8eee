package transition

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"
)

// Machine declares the states of an aggregate, and the transitions between them.
type Machine[S ~string] struct {
	// Initial are the states in which an aggregate may begin; at least one.
	Initial []S
	// Next has every state as a key, with the states that may follow it. A final state has none,
	// and a state may follow itself.
	Next map[S][]S
}

// statesMax and stateBytesMax are limits of the stored form, which has one byte for each number.
const (
	statesMax     = 255
	stateBytesMax = 255
)

// check says all that is wrong with the declaration.
func (m Machine[S]) check() error {
	var errs []error
	mistake := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if n := len(m.Next); n == 0 || n > statesMax {
		mistake("the machine has %d states; it takes 1 to %d", n, statesMax)
	}
	if len(m.Initial) == 0 {
		mistake("the machine has no initial state")
	}
	m.checkStates("initial", m.Initial, mistake)
	for _, s := range slices.Sorted(maps.Keys(m.Next)) {
		switch {
		case s == "":
			mistake(`a state is ""; that stands for an aggregate that is not there`)
		case len(s) > stateBytesMax || !utf8.ValidString(string(s)):
			mistake("%q is no name of a state; it takes valid UTF-8 of 1 to %d bytes", s, stateBytesMax)
		}
		m.checkStates(fmt.Sprintf("after %q", s), m.Next[s], mistake)
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	reached := m.reach()[""]
	for _, s := range slices.Sorted(maps.Keys(m.Next)) {
		if !reached[s] {
			mistake("no transition leads to the state %q", s)
		}
	}
	return errors.Join(errs...)
}

// checkStates looks at a list of states.
func (m Machine[S]) checkStates(what string, states []S, mistake func(format string, args ...any)) {
	for i, s := range states {
		if _, ok := m.Next[s]; !ok {
			mistake("%s: %q is no key of Next, which has every state, final ones with nil", what, s)
		}
		if slices.Contains(states[:i], s) {
			mistake("%s: %q is there twice", what, s)
		}
	}
}

// reach returns which states can be entered after each state, and after "".
func (m Machine[S]) reach() map[S]map[S]bool {
	all := map[S]map[S]bool{}
	for _, from := range append(slices.Collect(maps.Keys(m.Next)), "") {
		reached := map[S]bool{}
		for queue := m.next(from); len(queue) > 0; queue = queue[1:] {
			if s := queue[0]; !reached[s] {
				reached[s] = true
				queue = append(queue, m.next(s)...)
			}
		}
		all[from] = reached
	}
	return all
}

// next returns a copy.
func (m Machine[S]) next(from S) []S {
	if from == "" {
		return slices.Clone(m.Initial)
	}
	return slices.Clone(m.Next[from])
}

// rules is a machine as the handler asks it. It does not change, and all tasks share it.
type rules[S ~string] struct {
	next      map[S][]S
	reach     map[S]map[S]bool
	versioned bool
}

func rulesOf[S ~string](m Machine[S], versioned bool) *rules[S] {
	r := &rules[S]{next: map[S][]S{"": m.next("")}, reach: m.reach(), versioned: versioned}
	for s := range m.Next {
		r.next[s] = m.next(s)
	}
	return r
}

// has reports whether an aggregate can be in s.
func (r *rules[S]) has(s S) bool {
	_, ok := r.next[s]
	return ok && s != ""
}

// judge says why t is refused; the zero refusal accepts it. The id of t has not been accepted
// before.
func (r *rules[S]) judge(t Transition[S], at Aggregate[S], exists bool) (Refusal, string) {
	switch {
	case !slices.Contains(r.next[t.From], t.To):
		return Illegal, "the machine has no such transition"
	case !exists && t.From != "":
		return MissingAggregate, "there is no aggregate, and the transition creates none"
	case !exists:
		return 0, ""
	case r.versioned:
		return r.judgeVersion(t, at)
	case t.From == at.State:
		return 0, ""
	case t.From == "" || slices.Contains(at.Before, t.From):
		return Stale, "the aggregate has left the state that the transition leaves"
	case r.reach[at.State][t.From]:
		return OutOfOrder, "the aggregate has not come to the state that the transition leaves"
	}
	return Illegal, "the aggregate can never be in the state that the transition leaves"
}

func (r *rules[S]) judgeVersion(t Transition[S], at Aggregate[S]) (Refusal, string) {
	switch {
	case t.Version < at.First:
		return Stale, "the version of the transition is before that with which the aggregate begins"
	case t.Version <= at.Version:
		return Corruption, "the version of the transition was accepted under another id"
	case t.Version-1 > at.Version:
		return OutOfOrder, "transitions are missing before the version of this one"
	case t.From != at.State:
		return Corruption, "the transition has the next version, and leaves a state that the aggregate is not in"
	}
	return 0, ""
}
