package assign

import (
	"cmp"
	"slices"
	"strings"

	"github.com/onceward/onceward/topology/graph"
)

func (p *planner) give(t *planned, c *candidate) {
	t.target = c
	if t.pinned {
		c.pinned++
		return
	}
	c.total++
	c.has[t.unit] = append(c.has[t.unit], t)
}

func (p *planner) move(t *planned, to *candidate) {
	from := t.target
	from.total--
	from.has[t.unit] = slices.DeleteFunc(from.has[t.unit], func(o *planned) bool { return o == t })
	p.give(t, to)
}

// place gives every task a member. The holder comes first, then the member to which its move was
// pending, then the member that had it and was restarted. Then come a member that has a warm copy,
// a member that has some of its state and room for it, and the member that has the fewest.
func (p *planner) place(r Request) {
	promised := map[graph.TaskID]string{}
	if r.Previous != nil {
		for _, m := range r.Previous.Pending {
			promised[m.Task] = m.To
		}
	}
	var free []*planned
	for _, t := range p.tasks {
		if t.owner != nil && t.owner.accepts(t) {
			t.ready = t.owner
			p.give(t, t.owner)
			continue
		}
		free = append(free, t)
	}
	try := func(choose func(t *planned) *candidate) {
		free = slices.DeleteFunc(free, func(t *planned) bool {
			c := choose(t)
			if c != nil {
				p.give(t, c)
			}
			return c != nil
		})
	}
	named := func(keys map[graph.TaskID]string) func(t *planned) *candidate {
		return func(t *planned) *candidate {
			key, ok := keys[t.id()]
			i := slices.IndexFunc(p.members, func(c *candidate) bool { return ok && c.key == key && c.accepts(t) })
			if i < 0 {
				return nil
			}
			return p.members[i]
		}
	}
	try(named(promised))
	try(named(r.Last))
	try(p.warmest)
	try(p.furthest)
	try(p.fewest)
}

// furthest returns the member with the most of t's state, nil if no member with state has room: a
// restore whose result would not stay is not begun.
func (p *planner) furthest(t *planned) *candidate {
	share, shareOf := p.share(), ceil(t.unit.tasks, len(t.unit.candidates))
	var best *candidate
	for _, c := range t.unit.candidates {
		position, has := c.local[t.id()]
		if !has || !c.accepts(t) || c.total >= share || len(c.has[t.unit]) >= shareOf {
			continue
		}
		if best == nil || cmp.Or(cmp.Compare(position, best.local[t.id()]), cmp.Compare(best.total, c.total)) > 0 {
			best = c
		}
	}
	return best
}

// share is the most tasks that a member has when all have equally many.
func (p *planner) share() int {
	tasks, members := 0, 0
	for _, u := range p.units {
		tasks += u.tasks
	}
	for _, c := range p.members {
		if len(c.bounds) > 0 {
			members++
		}
	}
	return ceil(tasks, members)
}

func ceil(n, by int) int { return (n + by - 1) / max(by, 1) }

func (p *planner) fewest(t *planned) *candidate {
	return p.lightest(t, func(*candidate) bool { return true })
}

// lightest returns the member with the fewest tasks of those that can run t and are fit, nil if
// there is none.
func (p *planner) lightest(t *planned, fit func(c *candidate) bool) *candidate {
	var best *candidate
	for _, c := range t.unit.candidates {
		if c.accepts(t) && fit(c) && (best == nil || p.compareLoad(t.unit, c, best) < 0) {
			best = c
		}
	}
	return best
}

// compareLoad is by tasks of u, then by all tasks, then by key.
func (p *planner) compareLoad(u *unit, a, b *candidate) int {
	return cmp.Or(cmp.Compare(len(a.has[u]), len(b.has[u])), cmp.Compare(a.total, b.total), strings.Compare(a.key, b.key))
}

// even moves tasks until no two members differ by more than one, first in every subtopology and
// then in total. Each move of the first kind lowers the sum of squares of the subtopology's counts.
// Each move of the second kind lowers that of the totals without raising the first. So both end.
// Tasks that cannot move, or that not all members accept, may leave larger differences.
func (p *planner) even() {
	for _, u := range p.units {
		for p.evenOnce(u.candidates, []*unit{u}, func(c *candidate) int { return len(c.has[u]) }) {
		}
	}
	for p.evenOnce(p.members, p.units, func(c *candidate) int { return c.total }) {
	}
}

// evenOnce moves one task of units from the member with the most to the member with the fewest, and
// reports whether it did.
func (p *planner) evenOnce(among []*candidate, units []*unit, load func(*candidate) int) bool {
	order := slices.Clone(among)
	slices.SortFunc(order, func(a, b *candidate) int {
		return cmp.Or(cmp.Compare(load(a), load(b)), cmp.Compare(a.total, b.total), cmp.Compare(a.held, b.held), strings.Compare(a.key, b.key))
	})
	for _, from := range slices.Backward(order) {
		for _, to := range order {
			if load(from)-load(to) < 2 {
				break
			}
			if t := cheapest(from, to, units); t != nil {
				p.move(t, to)
				return true
			}
		}
	}
	return false
}

// cheapest returns the task that is best moved from one member to the other, nil if there is none.
// It is of a subtopology of which from has more. A task that to holds comes first, then one that
// from does not hold yet, then one of which to keeps a copy, a warm one before others. Of equals
// the one comes first of which to has the most state.
func cheapest(from, to *candidate, units []*unit) *planned {
	var best *planned
	cost := func(t *planned) int {
		switch {
		case t.owner == to:
			return 0
		case t.owner != from:
			return 1
		case to.warm[t.id()]:
			return 2
		case to.copied[t.id()]: // else a copy would be begun in vain
			return 3
		}
		return 4
	}
	state := func(t *planned) int64 {
		if position, has := to.local[t.id()]; has {
			return position
		}
		return -1
	}
	for _, u := range units {
		if len(from.has[u]) <= len(to.has[u]) {
			continue
		}
		for _, t := range from.has[u] {
			if t.pinned || !to.accepts(t) {
				continue
			}
			if best == nil || cmp.Or(cmp.Compare(cost(t), cost(best)), cmp.Compare(state(best), state(t)),
				cmp.Compare(len(best.unit.candidates), len(t.unit.candidates)), compareTasks(best.id(), t.id())) < 0 {
				best = t
			}
		}
	}
	return best
}
