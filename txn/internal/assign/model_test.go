package assign

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/onceward/onceward/topology/graph"
)

// The model of a group: a coordinator with static members, and processes that follow its
// assignments as the Kafka client does. After every step the model checks that no partition is open
// in two processes that could commit it in the same generation.

// system is what is judged: the real functions, or broken ones.
type system struct {
	balance func(Request) Result
	// due filters what the policy wants.
	due func(at time.Time, why Reason, ok bool) (time.Time, Reason, bool)
	// fixedNonce forces with the same data as before.
	fixedNonce bool
	// stateless members have nothing in their join data that changes by itself.
	stateless bool
	// standbys is how many copies of each task with state the members ask for.
	standbys int32
}

var sound = system{
	balance: Balance,
	due:     func(at time.Time, why Reason, ok bool) (time.Time, Reason, bool) { return at, why, ok },
}

// topologies are the versions that processes run.
var topologies = map[int]Join{
	1: {Fingerprint: [8]byte{1}, Subtopologies: []Subtopology{
		{Name: "in", Sources: []string{"in"}, Stateful: true}, {Name: "left", Sources: []string{"left", "right"}, Stateful: true},
		{Name: "rep", Sources: []string{"rep"}},
	}},
	2: {Fingerprint: [8]byte{2}, Subtopologies: []Subtopology{
		{Name: "extra", Sources: []string{"extra"}}, {Name: "in", Sources: []string{"in"}, Stateful: true},
		{Name: "left", Sources: []string{"left", "right"}, Stateful: true}, {Name: "rep", Sources: []string{"rep"}},
	}},
	3: {Fingerprint: [8]byte{3}, Subtopologies: []Subtopology{
		{Name: "in", Sources: []string{"in"}, Stateful: true}, {Name: "left", Sources: []string{"left", "third"}, Stateful: true},
		{Name: "rep", Sources: []string{"rep"}},
	}},
}

var modelPartitions = map[string]int32{"in": 6, "left": 5, "right": 5, "third": 5, "rep": 4, "extra": 3}

const (
	modelSession = 45 * time.Second
	modelRevoke  = 30 * time.Second
	// modelCopy is how long a copy takes to be warm.
	modelCopy = 2 * time.Second
)

type parts map[partition]bool

// process is one life or several of an instance.
type process struct {
	key        string
	version    int
	alive      bool
	away       bool // evicted, and does not know it yet
	memberID   string
	generation int32
	claims     parts // what the client says that it holds
	revoking   parts // given up by the assignment, and the callback still runs
	stale      bool  // the client rejoined with claims of another membership; the runtime commits nothing of them
	rejoin     bool  // pending after a revoke
	nonce      uint64
	plan       *Plan
	last       map[graph.TaskID]string
	forcing    *Forcing
	local      map[graph.TaskID]int64
	stopped    map[graph.TaskID]bool
	copies     map[graph.TaskID]time.Time // and when each is warm
}

// warm returns the copies that are warm.
func (p *process) warm(now time.Time) (warm []graph.TaskID) {
	for _, id := range slices.SortedFunc(maps.Keys(p.copies), compareTasks) {
		if !now.Before(p.copies[id]) {
			warm = append(warm, id)
		}
	}
	return warm
}

// slot is a member as the coordinator knows it.
type slot struct {
	member   Member
	joined   []byte // the user data of its last join
	assigned map[string][]int32
	plan     []byte
	deadline time.Time // its session ends; zero while it is alive
}

type group struct {
	system
	now        time.Time
	generation int32
	serial     int
	slots      map[string]*slot
	processes  map[string]*process
	leader     string
	wanted     bool // a rebalance is being prepared
	rebalances int
}

func newGroup(s system) *group {
	return &group{system: s, now: time.Unix(1_700_000_000, 0), slots: map[string]*slot{}, processes: map[string]*process{}}
}

// data is what a process says when it joins.
func (g *group) data(p *process) (Member, []byte) {
	join := topologies[p.version]
	join.Nonce, join.Standbys, join.Warm = p.nonce, g.standbys, p.warm(g.now)
	for _, id := range slices.SortedFunc(maps.Keys(p.local), compareTasks) {
		join.Local = append(join.Local, LocalTask{id, p.local[id]})
	}
	for _, id := range slices.SortedFunc(maps.Keys(p.stopped), compareTasks) {
		join.Stopped = append(join.Stopped, StoppedTask{id, "broken"})
	}
	encoded := join.Encode()
	decoded, err := DecodeJoin(encoded)
	if err != nil {
		panic(err)
	}
	m := Member{ID: p.memberID, Instance: p.key, Generation: p.generation, Owned: map[string][]int32{}, Join: decoded}
	for at := range p.claims {
		m.Owned[at.topic] = append(m.Owned[at.topic], at.number)
	}
	return m, encoded
}

// start begins a life of an instance. In a stable group a static member gets its old assignment,
// whatever it says.
func (g *group) start(key string, version int) error {
	p := g.processes[key]
	if p == nil {
		p = &process{key: key, local: map[graph.TaskID]int64{}}
		g.processes[key] = p
	}
	g.serial++
	p.alive, p.away, p.version, p.generation, p.stale, p.rejoin = true, false, version, -1, false, false
	p.claims, p.revoking, p.stopped, p.plan = parts{}, parts{}, map[graph.TaskID]bool{}, nil
	p.last, p.copies = nil, map[graph.TaskID]time.Time{}
	p.memberID = fmt.Sprintf("%s-%d", key, g.serial)
	p.nonce = uint64(g.serial) << 32
	p.forcing = NewForcing(topologies[version].Entry(key), modelRevoke)
	return g.join(p)
}

func (g *group) join(p *process) error {
	known := g.slots[p.key]
	member, joined := g.data(p)
	if known == nil {
		g.slots[p.key] = &slot{member: member, joined: joined}
		g.wanted = true
		return nil
	}
	known.member, known.joined, known.deadline = member, joined, time.Time{}
	if g.wanted {
		return nil
	}
	return g.sync(p)
}

// kill ends a process without a word. Its member stays until the session ends.
func (g *group) kill(key string) {
	p := g.processes[key]
	p.alive, p.claims, p.revoking = false, parts{}, parts{}
	g.slots[key].deadline = g.now.Add(modelSession)
}

func (g *group) leave(key string) {
	g.kill(key)
	g.remove(key)
}

func (g *group) remove(key string) {
	delete(g.slots, key)
	g.wanted = len(g.slots) > 0
}

// evict removes a member whose process lives and hears nothing of it.
func (g *group) evict(key string) {
	g.remove(key)
	g.processes[key].away = true
}

// wake lets an evicted process join again, as a new member with what it believes to hold.
func (g *group) wake(key string) error {
	p := g.processes[key]
	g.serial++
	p.memberID, p.away, p.stale, p.revoking, p.rejoin = fmt.Sprintf("%s-%d", key, g.serial), false, true, parts{}, false
	return g.join(p)
}

func (g *group) finishRevokes() {
	for _, p := range g.alive() {
		if p.rejoin {
			p.revoking, p.rejoin = parts{}, false
			g.wanted = true
		}
	}
}

func (g *group) alive() []*process {
	var out []*process
	for _, key := range slices.Sorted(maps.Keys(g.processes)) {
		if p := g.processes[key]; p.alive && !p.away {
			out = append(out, g.processes[key])
		}
	}
	return out
}

// rebalance completes the wanted rebalance: callbacks are over, all living members have joined, and
// the dead are there as they were.
func (g *group) rebalance() error {
	g.finishRevokes()
	alive := g.alive()
	if !g.wanted || len(alive) == 0 {
		return nil
	}
	g.wanted = false
	g.generation++
	g.rebalances++
	leader := g.processes[g.leader]
	if leader == nil || !leader.alive || g.slots[g.leader] == nil {
		leader = alive[0]
		g.leader = leader.key
	}
	for _, p := range alive {
		g.slots[p.key].member, g.slots[p.key].joined = g.data(p)
	}
	r := Request{ID: uint64(g.generation), Partitions: modelPartitions, Previous: leader.plan, Last: leader.last}
	for _, key := range slices.Sorted(maps.Keys(g.slots)) {
		r.Members = append(r.Members, g.slots[key].member)
	}
	result := g.balance(r)
	for _, p := range alive {
		p.last = nil
	}
	leader.last = result.Owners
	for _, s := range g.slots {
		s.assigned, s.plan = result.Assigned[s.member.ID], result.Plan.Encode()
	}
	for _, p := range alive {
		if err := g.sync(p); err != nil {
			return err
		}
	}
	return g.check()
}

// sync gives a process its assignment.
func (g *group) sync(p *process) error {
	s := g.slots[p.key]
	plan, err := DecodePlan(s.plan)
	if err != nil {
		return err
	}
	subscribed := map[string]bool{}
	for _, sub := range topologies[p.version].Subtopologies {
		for _, topic := range sub.Sources {
			subscribed[topic] = true
		}
	}
	now := parts{}
	for topic, numbers := range s.assigned {
		for _, n := range numbers {
			if subscribed[topic] {
				now[partition{topic, n}] = true
			}
		}
	}
	for at := range p.claims {
		if !now[at] {
			p.rejoin = true
			if !p.stale {
				p.revoking[at] = true
			}
		}
	}
	p.claims, p.generation, p.stale, p.plan = now, g.generation, false, &plan
	copies := map[graph.TaskID]time.Time{}
	for _, c := range plan.CopiesOf(p.key) {
		at, has := p.copies[c.Task]
		if !has {
			at = g.now.Add(modelCopy)
		}
		copies[c.Task] = at
	}
	p.copies = copies
	for id := range p.stopped {
		if !now[partition{id.Subtopology, id.Partition}] {
			delete(p.stopped, id)
		}
	}
	for _, sub := range topologies[p.version].Subtopologies {
		for n := range modelPartitions[sub.Sources[0]] {
			if now[partition{sub.Sources[0], n}] && !g.stateless {
				p.local[graph.TaskID{Subtopology: sub.Name, Partition: n}] += 10
			}
		}
	}
	p.forcing.Stopped(int32(len(p.stopped)))
	p.forcing.Planned(g.now, plan, g.leader == p.key)
	return nil
}

// check is the invariant.
func (g *group) check() error {
	open := map[partition]string{}
	for _, p := range g.alive() {
		if p.generation != g.generation || p.stale {
			continue
		}
		whole := parts{}
		for _, set := range []parts{p.claims, p.revoking} {
			for at := range set {
				if other, taken := open[at]; taken && other != p.key {
					return fmt.Errorf("generation %d: %v is open at %s and at %s", g.generation, at, other, p.key)
				}
				open[at] = p.key
			}
		}
		for at := range p.claims {
			whole[at] = true
		}
		for _, sub := range topologies[p.version].Subtopologies {
			for n := range modelPartitions[sub.Sources[0]] {
				has := 0
				for _, topic := range sub.Sources {
					if whole[partition{topic, n}] {
						has++
					}
				}
				if has != 0 && has != len(sub.Sources) && !g.misfit(p) {
					return fmt.Errorf("generation %d: %s has %d of %d inputs of %s_%d", g.generation, p.key, has, len(sub.Sources), sub.Name, n)
				}
			}
		}
	}
	return nil
}

// misfit says that p came back with another topology and was given its old assignment.
func (g *group) misfit(p *process) bool { return p.forcing.misdescribed() }

// force lets time pass until the policy of some process forces a rebalance or a session ends; false
// if nothing ever happens.
func (g *group) force() (bool, error) {
	var first func() error
	var at time.Time
	earliest := func(t time.Time, f func() error) {
		if first == nil || t.Before(at) {
			at, first = t, f
		}
	}
	for _, p := range g.alive() {
		p.forcing.Stopped(int32(len(p.stopped)))
		p.forcing.Warm(p.warm(g.now))
		for _, at := range p.copies {
			if at.After(g.now) {
				earliest(at, func() error { return nil })
			}
		}
		if due, why, ok := g.due(p.forcing.Due()); ok {
			earliest(due, func() error {
				p.forcing.Forced(g.now, why)
				if !g.fixedNonce {
					p.nonce++
				}
				before := g.slots[p.key].joined
				if _, after := g.data(p); string(before) != string(after) || g.leader == p.key {
					g.wanted = true
				}
				return nil
			})
		}
	}
	for key, s := range g.slots {
		if !s.deadline.IsZero() {
			earliest(s.deadline, func() error { g.remove(key); return nil })
		}
	}
	if first == nil {
		return false, nil
	}
	if at.After(g.now) {
		g.now = at
	}
	return true, first()
}

// settle runs the group until nothing happens any more, and returns how many rebalances that took.
func (g *group) settle() (int, error) {
	began := g.rebalances
	for range 200 {
		if err := g.rebalance(); err != nil {
			return 0, err
		}
		pending := false
		for _, p := range g.alive() {
			pending = pending || p.rejoin
		}
		if g.wanted && len(g.alive()) > 0 || pending {
			continue
		}
		more, err := g.force()
		if err != nil {
			return 0, err
		}
		if !more {
			return g.rebalances - began, g.checkSettled()
		}
	}
	return 0, errors.New("the group does not come to rest")
}

// checkSettled asserts that everything that some process can run is run, once, and that the load is
// even.
func (g *group) checkSettled() error {
	alive := g.alive()
	if len(alive) == 0 {
		return nil
	}
	topics := map[string]bool{"in": true, "left": true, "rep": true}
	same, pinned := true, false
	for _, p := range alive {
		same = same && p.version == alive[0].version
		pinned = pinned || len(p.stopped) > 0
		topics["extra"] = topics["extra"] || p.version == 2
		if p.plan == nil || len(p.plan.Pending) > 0 {
			return fmt.Errorf("%s is at rest with pending moves: %+v", p.key, p.plan)
		}
	}
	counts := map[string]map[string]int{"total": {}}
	owners := map[partition]int{}
	for _, p := range alive {
		for at := range p.claims {
			owners[at]++
			if topics[at.topic] {
				if counts[at.topic] == nil {
					counts[at.topic] = map[string]int{}
				}
				counts[at.topic][p.key]++
				counts["total"][p.key]++
			}
		}
	}
	for topic, wanted := range topics {
		for n := range modelPartitions[topic] {
			if got := owners[partition{topic, n}]; wanted && got != 1 {
				return fmt.Errorf("at rest: %s[%d] has %d owners", topic, n, got)
			}
		}
	}
	if !same || pinned {
		return nil
	}
	if err := g.checkCopies(alive); err != nil {
		return err
	}
	for what, of := range counts {
		least, most := 1<<30, 0
		for _, p := range alive {
			least, most = min(least, of[p.key]), max(most, of[p.key])
		}
		if most-least > 1 {
			return fmt.Errorf("at rest: %s is uneven: %v", what, of)
		}
	}
	return nil
}

// checkCopies asserts that each task with state has its copies at members of their own, and waits
// for none. All processes run one topology.
func (g *group) checkCopies(alive []*process) error {
	for _, sub := range topologies[alive[0].version].Subtopologies {
		for n := range modelPartitions[sub.Sources[0]] {
			id, copies := graph.TaskID{Subtopology: sub.Name, Partition: n}, 0
			for _, p := range alive {
				if _, has := p.copies[id]; !has {
					continue
				}
				copies++
				if p.claims[partition{sub.Sources[0], n}] {
					return fmt.Errorf("at rest: %s has task %s and a copy of it", p.key, id)
				}
			}
			want := 0
			if sub.Stateful {
				want = min(int(g.standbys), len(alive)-1)
			}
			if copies != want {
				return fmt.Errorf("at rest: task %s has %d copies, want %d", id, copies, want)
			}
		}
	}
	for _, c := range alive[0].plan.Copies {
		if c.Awaited {
			return fmt.Errorf("at rest: task %s waits for the copy of %s", c.Task, c.Member)
		}
	}
	return nil
}
