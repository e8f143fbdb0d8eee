package assign

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// warmest returns the member with the fewest tasks that has a warm copy of t, nil if none has one.
// It may get more than its share: the others follow once they have copies, see hold.
func (p *planner) warmest(t *planned) *candidate {
	t.ready = p.lightest(t, func(c *candidate) bool { return c.warm[t.id()] })
	return t.ready
}

// hold leaves each task with state where it can go on at once, if the member that is to have it has
// no warm copy. That member begins one, and the task moves with a later plan.
func (p *planner) hold() {
	for _, t := range p.tasks {
		if !t.unit.Stateful || t.ready == nil || t.target == t.ready || t.target.warm[t.id()] || !t.target.keepsCopies() {
			continue
		}
		t.moves = t.target
		p.follow(t, t.moves)
		t.awaited = append(t.awaited, t.moves)
		p.move(t, t.ready)
	}
}

// keepsCopies says whether copies can be given to the member: an older build does not know of them.
func (c *candidate) keepsCopies() bool { return c.Join.Standbys > 0 }

// follow lets a member keep a copy of t, if it has none and can.
func (p *planner) follow(t *planned, c *candidate) {
	if !t.unit.Stateful || !c.keepsCopies() || slices.Contains(t.copies, c) {
		return
	}
	t.copies = append(t.copies, c)
	c.copies++
}

// copy gives each task with state its copies. They stay where they are while no member has more
// than its share, and are in another rack than the task and its other copies where that is
// possible. The copy of a member to which the task moves comes on top.
//
// While some members keep no copies, as in a rolling change, the others have no more than their
// share of all. Otherwise the first one would get the copies of all tasks.
func (p *planner) copy() {
	if p.standbys == 0 {
		return
	}
	tasks, members, keep := 0, 0, 0
	for _, t := range p.tasks {
		if t.unit.Stateful && t.target != nil {
			tasks++
		}
	}
	for _, c := range p.members {
		if len(c.bounds) == 0 {
			continue
		}
		members++
		if c.keepsCopies() {
			keep++
		}
	}
	share := ceil(p.standbys*tasks, members)
	most := share
	if keep == members {
		most = math.MaxInt
	}
	for _, only := range []placement{{share, true, true}, {most, false, true}, {share, true, false}, {most, false, false}} {
		for _, t := range p.tasks {
			for t.unit.Stateful && t.target != nil && t.standbys() < p.standbys {
				c := t.copyAt(only)
				if c == nil {
					break
				}
				p.follow(t, c)
			}
		}
	}
	for _, t := range p.tasks {
		p.keepWarm(t)
	}
}

// keepWarm leaves a warm copy where it was for each copy of t that is not warm yet. It goes with a
// later plan: the member of the new copy forces a rebalance once that is warm.
func (p *planner) keepWarm(t *planned) {
	var cold []*candidate
	for _, c := range t.copies {
		if c != t.moves && c != t.target && !c.warm[t.id()] {
			cold = append(cold, c)
		}
	}
	for _, c := range t.unit.candidates {
		if len(cold) == 0 {
			return
		}
		if c.warm[t.id()] && c.copied[t.id()] && c != t.target && !slices.Contains(t.copies, c) {
			p.follow(t, c)
			t.awaited = append(t.awaited, cold[0])
			cold = cold[1:]
		}
	}
}

// standbys returns how many copies the task has but for one that it moves to.
func (t *planned) standbys() int {
	if t.moves != nil {
		return len(t.copies) - 1
	}
	return len(t.copies)
}

// placement restricts where a copy may go.
type placement struct {
	// most is how many copies a member may have with it.
	most int
	// stays allows members only that have a copy or some of the state.
	stays bool
	// rack allows racks only in which neither the task nor another copy of it is.
	rack bool
}

// copyAt chooses the member of the next copy, nil if there is none.
func (t *planned) copyAt(only placement) *candidate {
	var best *candidate
	for _, c := range t.unit.candidates {
		_, has := c.local[t.id()]
		switch {
		case c == t.target, slices.Contains(t.copies, c), !c.accepts(t), !c.keepsCopies():
			continue
		case c.copies >= only.most, only.rack && t.sharesRack(c), only.stays && !c.copied[t.id()] && !has:
			continue
		}
		further := 0
		if best != nil && only.stays {
			further = cmp.Compare(best.local[t.id()], c.local[t.id()])
		}
		if best == nil || cmp.Or(further, compareCopies(c, best)) < 0 {
			best = c
		}
	}
	return best
}

// compareCopies is by copies, then by tasks, then by key.
func compareCopies(a, b *candidate) int {
	return cmp.Or(cmp.Compare(a.copies, b.copies), cmp.Compare(a.total, b.total), strings.Compare(a.key, b.key))
}

// sharesRack reports whether the task, or one of its copies, is in the rack of c.
func (t *planned) sharesRack(c *candidate) bool {
	same := func(other *candidate) bool { return c.Join.Rack != "" && other.Join.Rack == c.Join.Rack }
	return same(t.target) || slices.ContainsFunc(t.copies, same)
}

// copies lists what the members are to copy.
func (p *planner) copies() (out []Copy) {
	for _, t := range p.tasks {
		for _, c := range t.copies {
			out = append(out, Copy{Task: t.id(), Member: c.key, Awaited: slices.Contains(t.awaited, c)})
		}
	}
	slices.SortFunc(out, func(a, b Copy) int { return cmp.Or(strings.Compare(a.Member, b.Member), compareTasks(a.Task, b.Task)) })
	return out
}
