package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/control"
	"github.com/onceward/onceward/txn/internal/standby"
)

// Copies returns a picture of the copies that are kept of other instances' tasks.
func (s *Session) Copies() []standby.Status { return s.copies.Status() }

// changelogEndsMax is how long an answer about all tasks may wait for the ends of the changelogs.
// Without them it goes out as well.
const changelogEndsMax = 2 * time.Second

// View is part of control.Source.
func (r Reader) View(store string, partition int32, stale bool) (control.StateAt, state.View, error) {
	got, err := r.Read(store, partition, stale)
	if err != nil {
		return control.StateAt{}, nil, err
	}
	id := globalID(store)
	if !r.isGlobal(store) {
		if _, id, err = r.taskOf(store, partition); err != nil {
			return control.StateAt{}, nil, errors.Join(err, got.View.Close())
		}
	}
	at := r.at(id, got.View.Positions())
	at.Member, at.Revokes, at.Stale = got.Member, got.Revokes, r.refusal(got.Stale)
	return at, got.View, nil
}

// globalID is how a global table is called where others are called by their tasks. No subtopology
// has such a name.
func globalID(store string) graph.TaskID {
	return graph.TaskID{Subtopology: control.GlobalPrefix + store}
}

// at leaves out the stores without a changelog: of them, positions have the stream time only.
func (r Reader) at(id graph.TaskID, p state.Positions) control.StateAt {
	p.Changelogs = withoutLost(p.Changelogs)
	return control.StateAt{Subtopology: id.Subtopology, Partition: id.Partition, Positions: p}
}

func withoutLost(changelogs []state.Changelog) []state.Changelog {
	return slices.DeleteFunc(slices.Clone(changelogs), func(c state.Changelog) bool { return c.TopicID == [16]byte{} && c.Scanned == 0 })
}

// stateReasons are the names of the errors that the other side of the socket tells apart. The first
// one that fits counts.
var stateReasons = []struct {
	err  error
	name string
}{
	{ErrRestoring, control.ReasonRestoring}, {ErrTaskStopped, control.ReasonStopped}, {ErrInDoubt, control.ReasonInDoubt},
	{ErrOwnershipLost, control.ReasonLost}, {ErrBehind, control.ReasonBehind}, {ErrNotServing, control.ReasonNotServing}, {state.ErrUnknownStore, control.ReasonUnknownStore},
	{ErrUnknownPartition, control.ReasonUnknownPartition}, {ErrNotRead, control.ReasonNotRead},
	{state.ErrCorrupt, control.ReasonCorrupt}, {state.ErrFailed, control.ReasonFailed}, {state.ErrClosed, control.ReasonClosed},
}

// Reason is part of control.Source.
func (Reader) Reason(err error) string {
	for _, reason := range stateReasons {
		if errors.Is(err, reason.err) {
			return reason.name
		}
	}
	return ""
}

// Named gives an error of another process its identity back, by the name that Reason gave it. The
// text stays. A name that is not known here leaves the error as it is.
func Named(err error, name string) error {
	for _, reason := range stateReasons {
		if reason.name == name {
			return &namedError{err, reason.err}
		}
	}
	return err
}

// namedError is an error of another process.
type namedError struct{ answer, is error }

func (e *namedError) Error() string   { return e.answer.Error() }
func (e *namedError) Unwrap() []error { return []error{e.answer, e.is} }

// Checkpoint is part of control.Source. The task goes on meanwhile.
func (r Reader) Checkpoint(task, dir string) error {
	s := r.Current()
	if s == nil {
		return ErrNotServing
	}
	for _, id := range s.tasks.Tasks() {
		if id.String() != task {
			continue
		}
		db, _, why := s.readable(id)
		if db == nil || errors.Is(why, ErrRestoring) {
			return cmp.Or(why, ErrNotServing)
		}
		return s.cfg.Directory.CheckpointTask(id.Subtopology, id.Partition, db, dir)
	}
	return fmt.Errorf("%w: it has no task %q", ErrNotServing, task)
}

func (r Reader) refusal(err error) *control.Refusal {
	if err == nil {
		return nil
	}
	return &control.Refusal{Reason: r.Reason(err), Text: err.Error()}
}

// States is part of control.Source.
func (r Reader) States(ctx context.Context, d control.Detail) ([]control.TaskState, error) {
	s := r.Current()
	if s == nil {
		return nil, ErrNotServing
	}
	var out []control.TaskState
	for _, id := range s.tasks.Tasks() {
		sub := s.subs[id.Subtopology]
		if len(sub.Stores) == 0 {
			continue
		}
		t, err := r.taskState(ctx, s, id, sub, d)
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	s.addChangelogs(ctx, out, d)
	for _, info := range r.Topology.GlobalTables() {
		t, err := r.globalState(ctx, info, d)
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

// globalState describes a global table as taskState does a task.
func (r Reader) globalState(ctx context.Context, info graph.StoreInfo, d control.Detail) (out control.TaskState, err error) {
	out = control.TaskState{StateAt: r.at(globalID(info.Name), state.Positions{})}
	got, err := r.Read(info.Name, 0, true)
	if errors.Is(err, ErrNotServing) {
		out.Stale = r.refusal(err)
		return out, nil
	}
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, got.View.Close()) }()
	out.Positions, out.Stale = got.View.Positions(), r.refusal(got.Stale)
	store, err := control.Measure(ctx, state.Declaration{Name: info.Name, Layout: info.Layout}, got.View, got.View, d)
	if err != nil {
		return out, err
	}
	store.Changelog, store.FromSource = info.Topic(), true
	out.Stores = append(out.Stores, store)
	return out, nil
}

// taskState describes one task by one view of it. A task that has no database at the moment has
// only its name and the reason.
func (r Reader) taskState(
	ctx context.Context, s *Session, id graph.TaskID, sub graph.Subtopology, d control.Detail,
) (out control.TaskState, err error) {
	out = control.TaskState{StateAt: r.at(id, state.Positions{})}
	got, err := r.Read(sub.Stores[0].Name, id.Partition, true)
	if errors.Is(err, ErrNotServing) {
		out.Stale = r.refusal(err)
		return out, nil
	}
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, got.View.Close()) }()
	out.StateAt = r.at(id, got.View.Positions())
	out.Member, out.Revokes = got.Member, got.Revokes
	out.Stale = r.refusal(got.Stale)
	db, _, _ := s.readable(id) // for estimates, which need no consistency
	for _, info := range sub.Stores {
		var estimates state.Reader = got.View
		if db != nil {
			estimates = db
		}
		store, err := control.Measure(ctx, state.Declaration{Name: info.Name, Layout: info.Layout}, got.View, estimates, d)
		if errors.Is(err, state.ErrClosed) { // the task was given up meanwhile
			out.Stores, out.Stale = nil, r.refusal(ErrNotServing)
			return out, nil
		}
		if err != nil {
			return out, err
		}
		store.Changelog, store.FromSource, store.InMemory = info.Topic(), info.FromSource != nil, info.InMemory
		out.Stores = append(out.Stores, store)
	}
	return out, nil
}

// addChangelogs fills in what the cluster says of the changelogs; what it does not say in time
// stays unknown.
func (s *Session) addChangelogs(ctx context.Context, tasks []control.TaskState, d control.Detail) {
	if s.cfg.Cluster == nil { // a session without one, in tests
		return
	}
	layout := s.cfg.Layout
	var topics []string
	for _, t := range tasks {
		for i := range t.Stores {
			if t.Stores[i].Changelog == "" {
				continue
			}
			t.Stores[i].Partitions = layout[t.Stores[i].Changelog].Partitions
			topics = append(topics, t.Stores[i].Changelog)
		}
	}
	slices.Sort(topics)
	if topics = slices.Compact(topics); len(topics) == 0 || d == control.Names {
		return // no topics would mean all of them
	}
	ctx, cancel := context.WithTimeout(ctx, changelogEndsMax)
	defer cancel()
	ends, err := s.cfg.Cluster.Ends(ctx, topics...)
	if err != nil {
		s.cfg.Logger.Debug("the ends of the changelogs are not known", "error", err)
		return
	}
	for _, t := range tasks {
		for i := range t.Stores {
			if end, ok := ends[t.Stores[i].Changelog][t.Partition]; ok {
				t.Stores[i].End = &end.LastStable
			}
		}
	}
}
