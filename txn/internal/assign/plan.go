package assign

import (
	"cmp"
	"encoding/binary"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/onceward/onceward/topology/graph"
)

// StandbysMax is the most copies of a task. They survive more failures than a cluster of Kafka
// does.
const StandbysMax = 8

// Join is what a member says of itself when it joins.
type Join struct {
	// Nonce changes when a rebalance is to be forced: the coordinator ignores a member that joins
	// again with the same data.
	Nonce uint64
	// Fingerprint stands for the topology.
	Fingerprint [8]byte
	// Subtopologies are those that the member can run.
	Subtopologies []Subtopology
	// Local are the tasks whose state is on the member's disk, in order.
	Local []LocalTask
	// Stopped are the tasks that it holds and that do not work any more.
	Stopped []StoppedTask
	// Address is where other members reach the process (package peers), "" if they do not.
	Address string
	// Standbys is how many copies of each task with state the member asks for. The highest number
	// of all members counts. A member that asks for none keeps none.
	Standbys int32
	// Rack is where the process is, "" if that is not known.
	Rack string
	// Warm are the tasks of whose state the member has a copy that follows the commits, in order.
	Warm []graph.TaskID
}

// LocalTask is a task with state on a member's disk.
type LocalTask struct {
	Task graph.TaskID
	// Position grows with what the state holds; it is comparable between members. 0 says that there
	// is some state of unknown age.
	Position int64
}

// StoppedTask is a task that failed for good.
type StoppedTask struct {
	Task   graph.TaskID
	Reason string
}

// Member is a member of the group as its join describes it.
type Member struct {
	// ID is the member id, Instance the static identity if it has one.
	ID, Instance string
	// Owned are the partitions that it holds, since Generation.
	Owned      map[string][]int32
	Generation int32
	// Join is zero where the member's user data cannot be read.
	Join Join
}

// Key names the member in plans: it outlives a restart where the member has a static identity.
func (m Member) Key() string { return cmp.Or(m.Instance, m.ID) }

// Plan is what an assignment's user data say.
type Plan struct {
	// ID tells one plan from the next.
	ID uint64
	// Pending are the tasks that are assigned to no member, because a member has to give them up
	// first, in order.
	Pending []Move
	// Entries are the members as the leader saw them, by Member.
	Entries []Entry
	// Copies are the tasks of which members keep a copy, in order of members and tasks.
	Copies []Copy
	// Owners are the tasks that are assigned, in order of members and tasks. A plan of an older
	// build has none.
	Owners []Owner
}

// Owner is a task that is assigned to a member. Member is its key.
type Owner struct {
	Task   graph.TaskID
	Member string
}

// Owner returns the key of the member that has a task by the plan. While the task is to move, that
// is the member that still has it. It is empty if the plan names none.
func (p Plan) Owner(task graph.TaskID) string {
	for _, o := range p.Owners {
		if o.Task == task {
			return o.Member
		}
	}
	for _, m := range p.Pending {
		if m.Task == task {
			return m.From
		}
	}
	return ""
}

// Tasks returns how many tasks of a subtopology the plan names: the highest number and one. There can
// be more tasks. A leader that does not know the partitions of a topic plans only the tasks that
// members hold. It is 0 if the plan names no owners, as one of an older build.
func (p Plan) Tasks(subtopology string) (n int32) {
	for _, o := range p.Owners {
		if o.Task.Subtopology == subtopology {
			n = max(n, o.Task.Partition+1)
		}
	}
	if n == 0 {
		return 0
	}
	for _, m := range p.Pending {
		if m.Task.Subtopology == subtopology {
			n = max(n, m.Task.Partition+1)
		}
	}
	return n
}

// Copy is a task of which a member keeps a copy. Member is its key.
type Copy struct {
	Task   graph.TaskID
	Member string
	// Awaited says that the plan waits for the copy to be warm. Then the task moves to the member,
	// or another member gives up an older copy.
	Awaited bool
}

// CopiesOf returns the copies that a member keeps.
func (p Plan) CopiesOf(member string) (copies []Copy) {
	for _, c := range p.Copies {
		if c.Member == member {
			copies = append(copies, c)
		}
	}
	return copies
}

// Move is a task that changes hands. From and To are keys of members.
type Move struct {
	Task     graph.TaskID
	From, To string
}

// Entry is a member as the leader saw it.
type Entry struct {
	Member      string
	Fingerprint [8]byte
	// Subscription is Subscription of the member's subtopologies.
	Subscription uint64
	// Stopped is how many tasks the plan left where they were, at this member, without counting
	// them: they were stopped.
	Stopped int32
	// Address is the member's, as of its join. A static member that has come back since may have
	// another one.
	Address string
	// Standbys and Rack are those of its join.
	Standbys int32
	Rack     string
}

// Entry describes the member with that key. How many of its tasks are left out because they are
// stopped is up to the plan.
func (j Join) Entry(key string) Entry {
	return Entry{Member: key, Fingerprint: j.Fingerprint, Subscription: Subscription(j.Subtopologies), Address: j.Address,
		Standbys: j.Standbys, Rack: j.Rack}
}

// Subscription stands for what a member subscribes to: names, sources and bounds, whatever their
// order.
func Subscription(subtopologies []Subtopology) uint64 {
	var texts []string
	for _, s := range subtopologies {
		text := binary.AppendUvarint([]byte(s.identity()), uint64(max(s.PartitionsMax, 0)))
		texts = append(texts, string(text))
	}
	slices.Sort(texts)
	h := fnv.New64a()
	for _, text := range texts {
		_, _ = h.Write(binary.AppendUvarint(nil, uint64(len(text))))
		_, _ = h.Write([]byte(text))
	}
	return h.Sum64()
}

// identity is equal for two subtopologies if a task of one is a task of the other.
func (s Subtopology) identity() string {
	return s.Name + "\x00" + strings.Join(s.sources(), "\x00")
}

// sources returns each source once, sorted.
func (s Subtopology) sources() []string {
	out := slices.Clone(s.Sources)
	slices.Sort(out)
	return slices.Compact(out)
}

// Request is what a plan is made from.
type Request struct {
	// ID of the plan to make.
	ID      uint64
	Members []Member
	// Partitions are the numbers of partitions of the topics. A topic that is missing is not known
	// at the moment: its tasks stay where they are.
	Partitions map[string]int32
	// Previous is the plan that the leader knows last, nil if it knows none.
	Previous *Plan
	// Last is Result.Owners of the generation before, if this leader made its plan. A member that
	// was restarted while the group was joining claims nothing, and does not know how far its state
	// is.
	Last map[graph.TaskID]string
}

// Result is a plan and what it assigns, by member id and topic. Every member has an entry.
type Result struct {
	Assigned map[string]map[string][]int32
	Plan     Plan
	// Owners are the keys of the members that the tasks are assigned to. It stays with the leader.
	Owners map[graph.TaskID]string
}

// Balance makes the plan. It depends on nothing but r, and not on the order of its members.
func Balance(r Request) Result {
	p := newPlanner(r)
	p.define(r.Partitions)
	p.place(r)
	p.even()
	p.hold()
	p.copy()
	return p.result(r.ID)
}

// result assigns every task that no other member holds, and lists the others as pending.
func (p *planner) result(id uint64) Result {
	out := Result{Assigned: map[string]map[string][]int32{}, Plan: Plan{ID: id}, Owners: map[graph.TaskID]string{}}
	for _, m := range p.members {
		out.Assigned[m.ID] = map[string][]int32{}
		e := m.Join.Entry(m.key)
		e.Stopped = m.pinned
		out.Plan.Entries = append(out.Plan.Entries, e)
	}
	for _, t := range p.tasks {
		if t.target == nil {
			continue
		}
		if from := p.blocked(t); from != nil {
			out.Plan.Pending = append(out.Plan.Pending, Move{t.id(), from.key, t.target.key})
			p.follow(t, t.target)
			continue
		}
		out.Owners[t.id()] = t.target.key
		out.Plan.Owners = append(out.Plan.Owners, Owner{Task: t.id(), Member: t.target.key})
		for _, topic := range t.unit.Sources {
			out.Assigned[t.target.ID][topic] = append(out.Assigned[t.target.ID][topic], t.partition)
		}
	}
	for _, topics := range out.Assigned {
		for _, partitions := range topics {
			slices.Sort(partitions)
		}
	}
	slices.SortFunc(out.Plan.Pending, func(a, b Move) int { return compareTasks(a.Task, b.Task) })
	slices.SortFunc(out.Plan.Owners, func(a, b Owner) int {
		return cmp.Or(strings.Compare(a.Member, b.Member), compareTasks(a.Task, b.Task))
	})
	out.Plan.Copies = p.copies()
	return out
}

// blocked returns a member that has to give up something of t before its target may have it, nil if
// there is none.
func (p *planner) blocked(t *planned) *candidate {
	for _, topic := range t.unit.Sources {
		for _, c := range p.claims[partition{topic, t.partition}].holders {
			if c != t.target {
				return c
			}
		}
	}
	return nil
}
