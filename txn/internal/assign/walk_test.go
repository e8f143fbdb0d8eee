package assign

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/topology/graph"
)

var instances = []string{"a", "b", "c", "d"}

// walk takes random steps with a group and then lets it come to rest. choose returns a number below
// n.
func walk(s system, steps int, choose func(n int) int) error {
	g := newGroup(s)
	for range steps {
		if err := step(g, choose); err != nil {
			return err
		}
		if err := g.check(); err != nil {
			return err
		}
	}
	n, err := g.settle()
	// Sessions of the dead end one by one, each with a rebalance and its moves; moves that wait for
	// them are forced meanwhile.
	// Tasks that wait for copies move later, with more rebalances.
	most := 12 + 4*len(instances)
	if s.standbys > 0 {
		most *= 2
	}
	if err == nil && n > most {
		err = fmt.Errorf("it took %d rebalances to come to rest, more than %d", n, most)
	}
	return err
}

func step(g *group, choose func(n int) int) error {
	key := instances[choose(len(instances))]
	p := g.processes[key]
	version := 1
	if choose(6) == 0 {
		version = 2 + choose(2)
	}
	switch action := choose(12); {
	case action < 4:
		if p == nil || !p.alive {
			return g.start(key, version)
		}
		return g.rebalance()
	case action < 6:
		return g.rebalance()
	case p != nil && p.away:
		return g.wake(key)
	case p == nil || !p.alive || g.slots[key] == nil:
		return nil
	case action < 8:
		g.kill(key)
	case action == 8:
		g.leave(key)
	case action == 9:
		g.evict(key)
	case action == 10:
		if held := slices.SortedFunc(maps.Keys(p.claims), func(a, b partition) int { return int(a.number - b.number) }); len(held) > 0 {
			for _, at := range held {
				if at.topic == "in" {
					p.stopped[graph.TaskID{Subtopology: "in", Partition: at.number}] = true
					break
				}
			}
		}
	default:
		g.now = g.now.Add(time.Duration(choose(60)) * time.Second)
		_, err := g.force()
		return err
	}
	return nil
}

func TestGroupWalks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := sound
		s.standbys = rapid.Int32Range(0, 2).Draw(t, "standbys")
		err := walk(s, rapid.IntRange(1, 40).Draw(t, "steps"), func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "choice") })
		if err != nil {
			t.Fatal(err)
		}
	})
}

// TestOrphan: a member dies inside its revoke and comes back within the session timeout. The task
// that it was to give up has no holder while the group is stable, until the leader, which was
// restarted meanwhile, asks for it.
func TestOrphan(t *testing.T) {
	if err := orphan(sound); err != nil {
		t.Error(err)
	}
}

// orphan fails if the group is at rest with a partition that no member has.
func orphan(s system) error {
	g := newGroup(s)
	for _, key := range []string{"a", "b"} {
		if err := g.start(key, 1); err != nil {
			return err
		}
		if _, err := g.settle(); err != nil {
			return err
		}
	}
	if err := g.start("c", 1); err != nil {
		return err
	}
	if err := g.rebalance(); err != nil {
		return err
	}
	b := g.processes["b"]
	if !b.rejoin {
		return fmt.Errorf("nothing moves from b to c: %v", g.slots["b"].assigned)
	}
	g.kill("b")
	before := g.rebalances
	a := g.processes["a"]
	a.rejoin, a.revoking = false, parts{} // it is b's rejoin that never comes
	if err := g.start("b", 1); err != nil {
		return err
	}
	if g.rebalances != before || g.wanted {
		return fmt.Errorf("the model rebalances by itself")
	}
	// The leader is restarted too, and knows nothing but the plan in its old assignment.
	g.kill("a")
	if err := g.start("a", 1); err != nil {
		return err
	}
	began := g.now
	n, err := g.settle()
	if err != nil {
		return err
	}
	if took := g.now.Sub(began); n == 0 || took > modelRevoke {
		return fmt.Errorf("the orphan was healed by %d rebalances within %s", n, took)
	}
	return nil
}

// TestTwoVersionsRest: old and new versions share a group, and no member forces a rebalance however
// long it takes.
func TestTwoVersionsRest(t *testing.T) {
	for _, stateless := range []bool{false, true} {
		s := sound
		s.stateless = stateless
		if err := twoVersions(s); err != nil {
			t.Errorf("stateless %t: %v", stateless, err)
		}
	}
}

func twoVersions(s system) error {
	g := newGroup(s)
	for i, key := range instances {
		if err := g.start(key, 1+i%2); err != nil {
			return err
		}
		if _, err := g.settle(); err != nil {
			return err
		}
	}
	// A restart with another version: told apart by its own entry, once.
	g.kill("c")
	if err := g.start("c", 2); err != nil {
		return err
	}
	n, err := g.settle()
	if err == nil && (n == 0 || n > 3) {
		err = fmt.Errorf("a new version came to rest after %d rebalances, want 1 to 3", n)
	}
	return err
}

// TestStoppedTasksWorkAgain: a restart heals the stopped tasks of a member. It gets them back in a
// stable group, whose plan did not count them, and the group becomes even all the same.
func TestStoppedTasksWorkAgain(t *testing.T) {
	if err := workAgain(sound); err != nil {
		t.Error(err)
	}
}

// workAgain fails if the group is at rest with a member that has more than its share.
func workAgain(s system) error {
	g, err := newGroupWithStopped(s)
	if err != nil {
		return err
	}
	if n := g.load("in", "a"); n != 4 {
		return fmt.Errorf("with 3 stopped tasks of 6, a has %d, want 1 more", n)
	}
	g.kill("a")
	if err := g.start("a", 1); err != nil {
		return err
	}
	if g.wanted {
		return fmt.Errorf("the model rebalances by itself")
	}
	began := g.now
	n, err := g.settle() // checks that it is even
	if took := g.now.Sub(began); err == nil && (n == 0 || n > 2 || took != workingFor) {
		err = fmt.Errorf("%d rebalances within %s, want 1 or 2 after %s", n, took, workingFor)
	}
	return err
}

// newGroupWithStopped returns a group of a, b and c whose plan leaves out 3 of the 6 tasks of a
// subtopology, which a has.
func newGroupWithStopped(s system) (*group, error) {
	g := newGroup(s)
	for _, key := range []string{"a", "b", "c"} {
		if err := g.start(key, 1); err != nil {
			return nil, err
		}
		if key == "b" {
			for n := range int32(3) {
				g.processes["a"].stopped[in(n)] = true
			}
		}
		if _, err := g.settle(); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// load returns how many partitions of topic a process has.
func (g *group) load(topic, key string) int {
	n := 0
	for at := range g.processes[key].claims {
		if at.topic == topic {
			n++
		}
	}
	return n
}

// TestStoppedTasksStopAgain: tasks that stop wherever they are do not go to another member because
// theirs was restarted.
func TestStoppedTasksStopAgain(t *testing.T) {
	g, err := newGroupWithStopped(sound)
	if err != nil {
		t.Fatal(err)
	}
	g.kill("a")
	if err := g.start("a", 1); err != nil {
		t.Fatal(err)
	}
	for n := range int32(3) {
		g.processes["a"].stopped[in(n)] = true
	}
	if n, err := g.settle(); err != nil || n > 0 {
		t.Fatalf("%d rebalances, %v, want none", n, err)
	}
	// One of them goes on: now there is something to even out.
	delete(g.processes["a"].stopped, in(0))
	if n, err := g.settle(); err != nil || n != 1 {
		t.Errorf("%d rebalances, %v, want one", n, err)
	}
}

// controls are broken systems. Each must be caught, else the tests above prove nothing.
var controls = map[string]struct {
	system system
	caught func(system) error
}{
	"a moving task is not withheld": {
		system: system{due: sound.due, balance: func(r Request) Result {
			out := Balance(r)
			ids := map[string]string{}
			for _, m := range r.Members {
				ids[m.Key()] = m.ID
			}
			for _, m := range out.Plan.Pending {
				out.Assigned[ids[m.To]][m.Task.Subtopology] = append(out.Assigned[ids[m.To]][m.Task.Subtopology], m.Task.Partition)
			}
			out.Plan.Pending = nil
			return out
		}},
		caught: walks,
	},
	"inputs of a task go to different members": {
		system: system{due: sound.due, balance: func(r Request) Result {
			out := Balance(r)
			var ids []string
			for _, m := range r.Members {
				ids = append(ids, m.ID)
			}
			slices.Sort(ids)
			first, last := out.Assigned[ids[0]], out.Assigned[ids[len(ids)-1]]
			if right := first["right"]; len(ids) > 1 && len(right) > 0 && len(out.Plan.Pending) == 0 {
				first["right"], last["right"] = right[1:], append(last["right"], right[0])
			}
			return out
		}},
		caught: walks,
	},
	"the leader does not ask for pending moves": {
		system: system{balance: Balance, due: func(at time.Time, why Reason, ok bool) (time.Time, Reason, bool) {
			return at, why, ok && why != PendingMoves
		}},
		caught: orphan,
	},
	"a member does not ask for itself": {
		system: system{balance: Balance, due: func(at time.Time, why Reason, ok bool) (time.Time, Reason, bool) {
			return at, why, ok && why != Described
		}},
		caught: twoVersions,
	},
	"a member does not ask for its tasks that work again": {
		system: system{balance: Balance, due: func(at time.Time, why Reason, ok bool) (time.Time, Reason, bool) {
			return at, why, ok && why != Working
		}},
		caught: workAgain,
	},
	"the plan does not say what it left out": {
		system: system{due: sound.due, balance: func(r Request) Result {
			out := Balance(r)
			for i := range out.Plan.Entries {
				out.Plan.Entries[i].Stopped = 0
			}
			return out
		}},
		caught: workAgain,
	},
	"the join data have no nonce": {
		system: system{balance: Balance, due: sound.due, fixedNonce: true, stateless: true},
		caught: twoVersions,
	},
	"a move is pending that no member can make": {
		system: system{due: sound.due, balance: func(r Request) Result {
			out := Balance(r)
			out.Plan.Pending = []Move{{From: "x", To: "y"}}
			return out
		}},
		caught: twoVersions,
	},
	"no member asks for tasks that wait for its copies": {
		system: system{balance: Balance, standbys: 1, due: func(at time.Time, why Reason, ok bool) (time.Time, Reason, bool) {
			return at, why, ok && why != Warm
		}},
		caught: walks,
	},
	"the plan names no copies": {
		system: system{due: sound.due, standbys: 1, balance: func(r Request) Result {
			out := Balance(r)
			out.Plan.Copies = nil
			return out
		}},
		caught: walks,
	},
	"the lower generation wins": {
		system: system{due: sound.due, balance: func(r Request) Result {
			for i := range r.Members {
				r.Members[i].Generation = -r.Members[i].Generation
			}
			return Balance(r)
		}},
		caught: walks,
	},
}

// walks runs seeded walks until one fails.
func walks(s system) error {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 1))
		if err := walk(s, 30, r.IntN); err != nil {
			return fmt.Errorf("seed %d: %w", seed, err)
		}
	}
	return nil
}

func TestControls(t *testing.T) {
	for standbys := range int32(2) {
		s := sound
		s.standbys = standbys
		if err := walks(s); err != nil {
			t.Fatalf("the real system fails with %d standbys: %v", standbys, err)
		}
	}
	for name, c := range controls {
		if err := c.caught(c.system); err == nil {
			t.Errorf("%s: not caught", name)
		} else {
			t.Logf("%s: %v", name, err)
		}
	}
}
