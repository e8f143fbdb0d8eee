package assign

import (
	"cmp"
	"slices"
	"strings"

	"github.com/onceward/onceward/topology/graph"
)

// planner is a plan in the making.
type planner struct {
	members []*candidate // by key
	claims  map[partition]claim
	units   []*unit // by name
	tasks   []*planned
	// standbys is how many copies of each task with state the members ask for.
	standbys int
}

type partition struct {
	topic  string
	number int32
}

// claim is who holds a partition: the members with the highest generation among those that say so.
// More than one is a conflict.
type claim struct {
	generation int32
	holders    []*candidate
}

// candidate is a member that tasks may go to.
type candidate struct {
	Member
	key     string
	bounds  map[string]int32 // of the subtopologies that it knows, by identity; 0 is none
	local   map[graph.TaskID]int64
	stopped map[graph.TaskID]bool
	// warm are the tasks of which it has a warm copy, copied those of which it kept a copy by the
	// plan before. copies is how many it keeps by this one.
	warm, copied map[graph.TaskID]bool
	copies       int
	held         int // tasks that it held before
	total        int
	pinned       int32 // tasks that stay and do not count
	has          map[*unit][]*planned
}

// unit is a subtopology that is balanced.
type unit struct {
	Subtopology
	identity   string
	candidates []*candidate // that know it
	tasks      int          // that work
}

// planned is a task with its place.
type planned struct {
	unit      *unit
	partition int32
	owner     *candidate // holds it now, whether it may keep it or not
	target    *candidate
	pinned    bool // stopped, and stays where it is without counting as load
	// ready is the member that can go on with it at once: its owner, or one with a warm copy; nil
	// if there is none. moves is the member for which it waits there.
	ready, moves *candidate
	// copies are the members that keep copies. The plan waits for those of awaited to be warm: the
	// task moves to one, or an older copy goes.
	copies, awaited []*candidate
}

func (t *planned) id() graph.TaskID {
	return graph.TaskID{Subtopology: t.unit.Name, Partition: t.partition}
}

// accepts says whether c can run t.
func (c *candidate) accepts(t *planned) bool {
	bound, known := c.bounds[t.unit.identity]
	return known && (bound == 0 || t.partition < bound)
}

func newPlanner(r Request) *planner {
	p := &planner{claims: map[partition]claim{}}
	for _, m := range r.Members {
		c := &candidate{Member: m, key: m.Key(), bounds: map[string]int32{}, local: map[graph.TaskID]int64{},
			stopped: map[graph.TaskID]bool{}, warm: map[graph.TaskID]bool{}, copied: map[graph.TaskID]bool{}, has: map[*unit][]*planned{}}
		for _, l := range m.Join.Local {
			c.local[l.Task] = max(c.local[l.Task], l.Position)
		}
		for _, s := range m.Join.Stopped {
			c.stopped[s.Task] = true
		}
		for _, id := range m.Join.Warm {
			c.warm[id] = true
		}
		if r.Previous != nil {
			for _, copied := range r.Previous.CopiesOf(c.key) {
				c.copied[copied.Task] = true
			}
		}
		p.standbys = max(p.standbys, min(int(m.Join.Standbys), StandbysMax))
		p.members = append(p.members, c)
	}
	slices.SortFunc(p.members, func(a, b *candidate) int {
		return cmp.Or(strings.Compare(a.key, b.key), strings.Compare(a.ID, b.ID))
	})
	for _, c := range p.members {
		for topic, numbers := range c.Owned {
			for _, n := range numbers {
				p.claim(partition{topic, n}, c)
			}
		}
	}
	return p
}

func (p *planner) claim(at partition, c *candidate) {
	now, known := p.claims[at]
	switch {
	case !known || c.Generation > now.generation:
		now = claim{c.Generation, []*candidate{c}}
	case c.Generation == now.generation && !slices.Contains(now.holders, c):
		now.holders = append(now.holders, c)
	}
	p.claims[at] = now
}

// define chooses the subtopologies and makes their tasks. If several share a source, it chooses the
// one with the most members, then the one of which more is held now, so that the choice does not
// swing at half way.
func (p *planner) define(partitions map[string]int32) {
	known := map[string]*unit{}
	for _, c := range p.members {
		for _, s := range c.Join.Subtopologies {
			identity := s.identity()
			if _, twice := c.bounds[identity]; twice || s.Name == "" || len(s.Sources) == 0 {
				continue
			}
			c.bounds[identity] = max(s.PartitionsMax, 0)
			u := known[identity]
			if u == nil {
				s.Sources = s.sources()
				u = &unit{Subtopology: s, identity: identity}
				known[identity] = u
			}
			u.Stateful = u.Stateful || s.Stateful // an older build does not say it
			u.candidates = append(u.candidates, c)
		}
	}
	held := map[*unit]int{}
	byTopic := map[string][]*unit{}
	for _, u := range known {
		for _, topic := range u.Sources {
			byTopic[topic] = append(byTopic[topic], u)
		}
	}
	for at, c := range p.claims {
		for _, u := range byTopic[at.topic] {
			if slices.ContainsFunc(c.holders, func(h *candidate) bool { _, knows := h.bounds[u.identity]; return knows }) {
				held[u]++
			}
		}
	}
	all := make([]*unit, 0, len(known))
	for _, u := range known {
		all = append(all, u)
	}
	slices.SortFunc(all, func(a, b *unit) int {
		return cmp.Or(cmp.Compare(len(b.candidates), len(a.candidates)), cmp.Compare(held[b], held[a]), strings.Compare(a.identity, b.identity))
	})
	used, named := map[string]bool{}, map[string]bool{}
	for _, u := range all {
		if named[u.Name] || slices.ContainsFunc(u.Sources, func(topic string) bool { return used[topic] }) {
			continue
		}
		named[u.Name] = true
		for _, topic := range u.Sources {
			used[topic] = true
		}
		p.units = append(p.units, u)
	}
	slices.SortFunc(p.units, func(a, b *unit) int { return strings.Compare(a.identity, b.identity) })
	for _, u := range p.units {
		p.makeTasks(u, partitions)
	}
}

// makeTasks makes a task for every number that all sources have and some member accepts. Where a
// number of partitions is not known, those that are held are all that is known to be there.
func (p *planner) makeTasks(u *unit, partitions map[string]int32) {
	n, complete := int32(-1), true
	for _, topic := range u.Sources {
		count, known := partitions[topic]
		if complete = complete && known && count > 0; n < 0 || count < n {
			n = count
		}
	}
	numbers := map[int32]bool{}
	if complete {
		for i := range n {
			numbers[i] = true
		}
	} else {
		for at := range p.claims {
			if slices.Contains(u.Sources, at.topic) {
				numbers[at.number] = true
			}
		}
	}
	sorted := make([]int32, 0, len(numbers))
	for i := range numbers {
		sorted = append(sorted, i)
	}
	slices.Sort(sorted)
	for _, i := range sorted {
		t := &planned{unit: u, partition: i}
		if !slices.ContainsFunc(u.candidates, func(c *candidate) bool { return c.accepts(t) }) {
			continue
		}
		for _, topic := range u.Sources {
			if c := p.claims[partition{topic, i}]; len(c.holders) > 0 && t.owner == nil {
				t.owner = c.holders[0]
			}
		}
		if t.owner != nil {
			t.owner.held++
		}
		t.pinned = t.owner != nil && t.owner.stopped[t.id()] && t.owner.accepts(t)
		if !t.pinned {
			u.tasks++
		}
		p.tasks = append(p.tasks, t)
	}
}
