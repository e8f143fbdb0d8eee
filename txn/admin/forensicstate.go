package admin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
)

// ForensicStore says whether the state that an instance has is what its inputs make of nothing.
type ForensicStore struct {
	Task  string `json:"task"`
	Store string `json:"store"`
	// Rows is how many the instance has, Differences how many keys differ. First is the first of
	// them in the order of the keys, nil if there is none.
	Rows        int64               `json:"rows"`
	Differences int64               `json:"differences"`
	First       *ForensicDifference `json:"first,omitempty"`
	// NotComparable says why the differences, if there are some, do not show that the state is
	// wrong: it depends on what the inputs do not hold. It is empty where they show it. A store
	// without differences is what its inputs make, whatever it depends on.
	NotComparable string `json:"not_comparable,omitempty"`
}

// ForensicDifference is a key that differs: Missing is one that only the inputs lead to, Extra one
// that only the instance has, and OtherValue one with two values.
type ForensicDifference struct {
	Kind Kind   `json:"kind"`
	Key  []byte `json:"key"`
}

// errForensicRunning and errForensicFrom are about what cannot be compared.
var (
	errForensicRunning = errors.New("an instance runs on that state, and its writes meanwhile would be differences; " +
		"stop it first")
	errForensicFrom = errors.New("state is compared with what all of the inputs make, so they are read from their start")
)

// remember finds out how far the state that is compared has come.
func (f *forensic) remember(ctx context.Context) error {
	s := f.options.State
	switch {
	case s == nil:
		return nil
	case s.Running():
		return errForensicRunning
	case len(f.options.From) > 0:
		return errForensicFrom
	case s.Identity().Application != f.topology.Application():
		return fmt.Errorf("the state is that of application %s, and not of %s", s.Identity().Application, f.topology.Application())
	}
	if err := f.client.checkCluster(ctx, s); err != nil {
		return err
	}
	tasks, err := s.Tasks(ctx, Names)
	if err != nil {
		return err
	}
	f.kept = map[graph.TaskID]state.Positions{}
	for _, t := range tasks {
		f.kept[t.Task] = t.Positions
	}
	return nil
}

// endOf is how far an input is read: as far as the state has come, if it is compared.
func (f *forensic) endOf(id graph.TaskID, q *forensicQueue) int64 {
	if at, ok := f.kept[id].Input(q.topic, q.partition); ok {
		return min(q.end, at.Offset)
	}
	if _, compared := f.kept[id]; compared {
		return q.next // the instance has read nothing of it
	}
	return q.end
}

// compare compares the state of the tasks that the instance has.
func (f *forensic) compare(ctx context.Context) error {
	for _, t := range f.tasks {
		if _, ok := f.kept[t.id]; !ok {
			continue
		}
		for _, d := range t.stores {
			if slices.Contains(t.sub.LostOnRestart(), d) {
				continue // the inputs do not say when it was emptied
			}
			found, err := f.compareStore(ctx, t, d)
			if err == nil && found.Differences > 0 {
				found.NotComparable, err = f.notComparable(ctx, t)
			}
			if err != nil {
				return fmt.Errorf("comparing store %s of task %s: %w", d.Name, t.id, err)
			}
			f.report.Stores = append(f.report.Stores, found)
		}
	}
	return nil
}

func (f *forensic) compareStore(ctx context.Context, t *forensicTask, d state.Declaration) (found ForensicStore, err error) {
	found = ForensicStore{Task: t.id.String(), Store: d.Name}
	kept, err := f.options.State.Scan(ctx, ScanRequest{Store: d.Name, Partition: t.id.Partition, Stale: true})
	if err != nil {
		return found, err
	}
	defer func() { err = errors.Join(err, kept.Close()) }()
	made := t.state.Store(d.Name)
	streamTime := made.StreamTime()
	for pair, err := range merged(kept.Rows(), made.Scan(state.Range{})) {
		if err != nil {
			return found, err
		}
		row, kind := pair.b, OtherValue
		switch {
		case pair.order < 0:
			row, kind = pair.a, Extra
		case pair.order > 0:
			kind = Missing
		}
		if pair.order <= 0 {
			found.Rows++
		}
		if pair.order == 0 && bytes.Equal(pair.a.Value, pair.b.Value) || outOfSight(d.Layout, row, streamTime) {
			continue
		}
		if found.Differences++; found.First == nil {
			found.First = &ForensicDifference{Kind: kind, Key: bytes.Clone(row.Key)}
		}
	}
	return found, nil
}

// outOfSight reports whether a row has expired: either side may have it or not.
func outOfSight(l state.Layout, row state.Entry, streamTime int64) bool {
	if !l.Segmented() {
		return false
	}
	ms, err := l.RowTime(state.Write{Key: row.Key, Value: row.Value})
	return err == nil && !l.Live(ms, streamTime)
}
