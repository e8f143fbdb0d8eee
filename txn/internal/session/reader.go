package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/assign"
	"github.com/onceward/onceward/txn/internal/globaltable"
	"github.com/onceward/onceward/txn/internal/standby"
	"github.com/onceward/onceward/txn/internal/task"
)

// ErrNotServing says that a partition of a store cannot be read now. By itself it says that the
// partition is not assigned to the process, or does not exist. ErrRestoring, ErrTaskStopped, ErrInDoubt,
// ErrBehind and ErrOwnershipLost are one more reason each and wrap it. There are no others.
var ErrNotServing = errors.New("not served now")

var (
	// ErrRestoring says that the task is being brought to its last commit.
	ErrRestoring = fmt.Errorf("%w: its task is being restored", ErrNotServing)
	// ErrTaskStopped says that the task does no work any more. Why it stopped is wrapped with it.
	ErrTaskStopped = fmt.Errorf("%w: its task is stopped", ErrNotServing)
	// ErrInDoubt says that a commit of the task was sent more than five seconds ago and has no
	// definite answer yet: readers of the output may see records that the store does not contain.
	ErrInDoubt = fmt.Errorf("%w: a commit of its task is in doubt", ErrNotServing)
	// ErrBehind says that the state does not contain the position that was asked for.
	ErrBehind = fmt.Errorf("%w: its state is behind the wanted position", ErrNotServing)
	// ErrOwnershipLost says that the process knows the task to be another member's, or that it is
	// in the group as a new member since the task was opened. Another process may have gone on with
	// it.
	ErrOwnershipLost = fmt.Errorf("%w: its task was given up", ErrNotServing)
)

var (
	// ErrUnknownPartition says that a store does not have a partition. It is another error than
	// ErrNotServing: the answer will be the same.
	ErrUnknownPartition = errors.New("the store does not have the partition")
	// ErrNotRead says that a task does not read an input partition of which a position is wanted.
	ErrNotRead = errors.New("its task does not read the input")
)

// doubtMax is how long a task may be in doubt and still be read: commits take that long when a
// broker restarts.
const doubtMax = 5 * time.Second

// Reader serves the state of the tasks that are here. It belongs to the process and outlives
// sessions.
type Reader struct {
	Topology *topology.Topology
	// Current returns the session, nil while there is none.
	Current func() *Session
	// Globals returns the global tables, nil while there are none.
	Globals func() *globaltable.Tables
}

// Served is a view with what goes along with it.
type Served struct {
	View state.View
	// Member and Revokes are the ownership under which the task was opened; both are zero while it
	// is restored, and for a copy.
	Member  string
	Revokes uint64
	// Stale is why the view is not served as current, nil if it is.
	Stale error
}

// Read takes a view of a store's partition, and judges whether it may be served.
//
// A global table has one partition, 0, and no owner.
func (r Reader) Read(store string, partition int32, stale bool) (Served, error) {
	if r.isGlobal(store) {
		return r.readGlobal(store, partition, stale)
	}
	s, id, err := r.taskOf(store, partition)
	if err != nil {
		return Served{}, err
	}
	db, t, why := s.readable(id)
	if db == nil || why != nil && !stale {
		return Served{}, why
	}
	// The doubt is looked at before the view is taken and judged after it: a commit that is
	// resolved in between is in the view. The other way round, a view from before could pass for
	// one from after.
	var sent time.Time
	if t != nil {
		sent, _ = t.InDoubtSince()
	}
	view, err := db.View()
	if errors.Is(err, state.ErrClosed) {
		return Served{}, fmt.Errorf("%w: %w", cmp.Or(why, ErrNotServing), err)
	}
	if err != nil {
		return Served{}, err
	}
	out := Served{View: view}
	if t != nil {
		out.Member, out.Revokes = t.Member, t.Epoch
		why = cmp.Or(why, s.withheld(t, sent, time.Now()))
	}
	if why != nil && !stale {
		return Served{}, errors.Join(why, view.Close())
	}
	out.Stale = why
	return out, nil
}

// ReadCopy is Read of the copy that this process keeps of another instance's task. It fails unless
// the copy is at a commit that was the last one at most maxAge ago, and returns how long ago that
// was. It waits while the copy goes from one commit to the next.
func (r Reader) ReadCopy(ctx context.Context, store string, partition int32, maxAge time.Duration) (Served, time.Duration, error) {
	if info, sub, known := StoreOf(r.Topology, store); known && sub.Name == "" {
		return Served{}, 0, fmt.Errorf("%w: a global table has no copies", ErrNotServing)
	} else if info.LostOnRestart {
		return Served{}, 0, fmt.Errorf("%w: nothing restores the store, so a copy has no rows of it", ErrNotServing)
	}
	s, id, err := r.taskOf(store, partition)
	if err != nil {
		return Served{}, 0, err
	}
	view, age, err := s.copies.View(ctx, id, maxAge)
	switch {
	case errors.Is(err, standby.ErrNoCopy), errors.Is(err, state.ErrClosed):
		return Served{}, 0, fmt.Errorf("%w: %w", ErrNotServing, err)
	case err != nil:
		return Served{}, 0, err
	}
	return Served{View: view}, age, nil
}

// StoreOf returns a store of a topology by its name, and the subtopology whose tasks have it: the
// zero one for a global table, which has no tasks.
func StoreOf(t *topology.Topology, name string) (store graph.StoreInfo, sub graph.Subtopology, known bool) {
	named := func(s graph.StoreInfo) bool { return s.Name == name }
	tables := t.GlobalTables()
	if i := slices.IndexFunc(tables, named); i >= 0 {
		return tables[i], graph.Subtopology{}, true
	}
	for _, sub := range t.Subtopologies() {
		if i := slices.IndexFunc(sub.Stores, named); i >= 0 {
			return sub.Stores[i], sub, true
		}
	}
	return graph.StoreInfo{}, graph.Subtopology{}, false
}

// isGlobal reports whether a store is a global table.
func (r Reader) isGlobal(store string) bool {
	_, sub, known := StoreOf(r.Topology, store)
	return known && sub.Name == ""
}

// readGlobal is Read for a global table.
func (r Reader) readGlobal(store string, partition int32, stale bool) (Served, error) {
	if partition != 0 {
		return Served{}, fmt.Errorf("%w: a global table has partition 0 only", ErrNotServing)
	}
	view, serves, known, err := r.Globals().View(store)
	switch {
	case errors.Is(err, state.ErrClosed), !known:
		return Served{}, ErrNotServing
	case err != nil:
		return Served{}, err
	case view == nil:
		return Served{}, ErrRestoring
	case serves:
		return Served{View: view}, nil
	case !stale:
		return Served{}, errors.Join(ErrRestoring, view.Close())
	}
	return Served{View: view, Stale: ErrRestoring}, nil
}

// taskOf finds the task that has a partition of a store, and the session that may have the task.
func (r Reader) taskOf(store string, partition int32) (*Session, graph.TaskID, error) {
	_, sub, _ := StoreOf(r.Topology, store)
	if sub.Name == "" {
		return nil, graph.TaskID{}, fmt.Errorf("%w: the topology declares no store of that name", state.ErrUnknownStore)
	}
	if s := r.Current(); s != nil {
		return s, graph.TaskID{Subtopology: sub.Name, Partition: partition}, nil
	}
	return nil, graph.TaskID{}, ErrNotServing
}

// TasksOf returns how many tasks a subtopology has, as far as the topics were known when the session
// began. 0 says that it is not known.
func (s *Session) TasksOf(subtopology string) int32 { return s.cfg.Layout.Tasks(s.subs[subtopology]) }

// readable returns the database of a task, nil if there is none to read. The error says why only a
// stale read may have it, and is nil if that depends on the task. The task is nil while it is
// restored.
func (s *Session) readable(id graph.TaskID) (state.Database, *task.Task, error) {
	at, here := s.tasks.State(id)
	switch {
	case !here:
		return nil, nil, ErrNotServing
	case at.Stopped != nil:
		return at.Database, at.Task, fmt.Errorf("%w: %w", ErrTaskStopped, at.Stopped)
	case at.Database == nil:
		return at.Restoring, nil, ErrRestoring
	default:
		return at.Database, at.Task, nil
	}
}

// withheld returns why a view of an open task may not be served as current. sent is when a commit
// in doubt was sent, zero for none.
func (s *Session) withheld(t *task.Task, sent, now time.Time) error {
	if s.ctx.Err() != nil {
		return fmt.Errorf("%w: the membership is over: %w", ErrOwnershipLost, context.Cause(s.ctx))
	}
	if _, _, err := s.ownership.Check([]assign.Claim{{Task: t.ID, Epoch: t.Epoch, Member: t.Member}}, s.member); err != nil {
		return fmt.Errorf("%w: %w", ErrOwnershipLost, err)
	}
	if age := now.Sub(sent); !sent.IsZero() && age > doubtMax {
		return fmt.Errorf("%w for %s, the most that is served is %s", ErrInDoubt, age.Round(time.Millisecond), doubtMax)
	}
	return nil
}
