package assign

import (
	"slices"
	"sync"
	"time"

	"github.com/onceward/onceward/topology/graph"
)

// Self is what the process tells the group about itself, and what it knows of the group's plan. It
// belongs to the process and not to a membership: the disk keeps state between memberships, and a
// new membership must not begin to force rebalances again. It is safe for concurrent use.
type Self struct {
	// constant is the part of the join data that does not change during a membership.
	constant Join

	mu        sync.Mutex
	positions map[graph.TaskID]int64 // of the tasks with state on disk; 0 where it is not known
	forcing   *Forcing

	// removed has room for one word that a member was removed, or has done its part.
	removed chan struct{}
}

// Process is what a process begins with. Only its subtopologies change: see [Self.Subscribe].
type Process struct {
	// Instance is the stable identity of the process in the group.
	Instance      string
	Fingerprint   [8]byte
	Subtopologies []Subtopology
	// Standbys and Rack are those of the join data.
	Standbys int32
	Rack     string
	// OnDisk are the tasks with state on the disk. How old that state is stays unknown until a task
	// is open.
	OnDisk []graph.TaskID
	// RevokeMax is the most that a revoke takes.
	RevokeMax time.Duration
}

// NewSelf returns what a process tells and knows before its first membership.
func NewSelf(of Process) *Self {
	s := &Self{
		constant:  Join{Fingerprint: of.Fingerprint, Subtopologies: of.Subtopologies, Standbys: of.Standbys, Rack: of.Rack},
		positions: map[graph.TaskID]int64{},
		removed:   make(chan struct{}, 1),
	}
	for _, id := range of.OnDisk {
		s.positions[id] = 0
	}
	s.forcing = NewForcing(s.constant.Entry(of.Instance), of.RevokeMax)
	return s
}

// SetAddress says where other members reach the process. It is called before the first join.
func (m *Self) SetAddress(address string) { m.constant.Address = address }

// Subscribe replaces the subtopologies of the process between two memberships: sources by pattern
// have other topics. The next plan describes the process wrongly, unless it knows them already.
func (m *Self) Subscribe(subtopologies []Subtopology) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.constant.Subtopologies = subtopologies
	m.forcing.own.Subscription = Subscription(subtopologies)
}

// Subtopologies are those of the process.
func (m *Self) Subtopologies() []Subtopology {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.constant.Subtopologies
}

// TaskNow is what a task of the process is doing now.
type TaskNow struct {
	Task graph.TaskID
	// Offsets are its committed input offsets; none while it is not open.
	Offsets []int64
	// Stopped is why it does no work; nil if it does.
	Stopped error
}

// Join returns the join data, given what the tasks are doing now, and which copies are warm. It is
// called for each join, see [Forcing.Joining].
func (m *Self) Join(tasks []TaskNow, warm []graph.TaskID) Join {
	m.Remember(tasks)
	m.mu.Lock()
	defer m.mu.Unlock()
	out := m.constant
	out.Warm = warm
	for _, t := range tasks {
		if t.Stopped != nil {
			out.Stopped = append(out.Stopped, StoppedTask{Task: t.Task, Reason: t.Stopped.Error()})
		}
	}
	m.forcing.Joining()
	for id, position := range m.positions {
		out.Local = append(out.Local, LocalTask{Task: id, Position: position})
	}
	slices.SortFunc(out.Local, func(a, b LocalTask) int { return compareTasks(a.Task, b.Task) })
	return out
}

// Remember keeps how far the state of tasks is: it stays on disk when they are given up. The sum of
// a task's offsets is the same number for the same state in every process.
func (m *Self) Remember(tasks []TaskNow) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range tasks {
		stateful := func(s Subtopology) bool { return s.Name == t.Task.Subtopology && s.Stateful }
		if len(t.Offsets) == 0 || !slices.ContainsFunc(m.constant.Subtopologies, stateful) {
			continue
		}
		position := int64(1) // a known position is more than an unknown one
		for _, offset := range t.Offsets {
			position += offset
		}
		m.positions[t.Task] = position
	}
}

// Planned takes the plan of a new assignment, see [Forcing.Planned], and how many tasks are
// stopped.
func (m *Self) Planned(now time.Time, plan Plan, leader bool, stopped int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forcing.Stopped(stopped)
	m.forcing.Planned(now, plan, leader)
}

// Copies returns the copies that the process keeps by a plan.
func (m *Self) Copies(plan Plan) []Copy { return plan.CopiesOf(m.forcing.own.Member) }

// Due returns when a rebalance is to be forced, and why, while so many tasks are stopped and these
// copies are warm.
func (m *Self) Due(stopped int32, warm []graph.TaskID) (time.Time, Reason, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forcing.Stopped(stopped)
	m.forcing.Warm(warm)
	return m.forcing.Due()
}

// Forced says that a rebalance is forced now.
func (m *Self) Forced(now time.Time, why Reason) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forcing.Forced(now, why)
}

// Gone says that an instance is gone and that its member was removed from the group. It does not
// block.
func (m *Self) Gone(instance string) {
	m.mu.Lock()
	m.forcing.Gone(instance)
	m.mu.Unlock()
	m.tell()
}

// Over says that a member has done its part of a plan, see [Forcing.Over]. It does not block.
func (m *Self) Over(plan uint64) (first bool) {
	m.mu.Lock()
	first = m.forcing.Over(plan)
	m.mu.Unlock()
	m.tell()
	return first
}

// tell leaves a token in removed.
func (m *Self) tell() {
	select {
	case m.removed <- struct{}{}:
	default:
	}
}

// Removed has a token after a call of Gone or Over.
func (m *Self) Removed() <-chan struct{} { return m.removed }

// Left says that the membership is over.
func (m *Self) Left() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forcing.Left()
}
