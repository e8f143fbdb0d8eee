package testapp

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/onceward/onceward/e2e/check"
	"github.com/onceward/onceward/processors/ledger"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/pebblestore"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// Dump reads the databases in the state directory of an instance that is down, and records what is
// in them, as [DumpStores] does. It adds what package check knows of the rows.
func Dump(history *Recorder, accounts Accounts, stateDir, source string) (stores int, err error) {
	return DumpStores(history, accounts.Topology, stateDir, source, accounts.describe)
}

// DumpStores reads the databases of any topology in the state directory of a stopped instance, and
// records their content in the form of their changelogs: see [check.Store.Opaque]. It skips a
// database that was being restored when its instance was killed: that database has no position yet.
// describe, which may be nil, adds the meaning of the rows to a state. It returns the number of
// stores that were read.
//
// An expired row may be missing from a database while its changelog still has it. Let no row of a
// store with a retention expire.
func DumpStores(
	history *Recorder, t *topology.Topology, stateDir, source string, describe func(*state.Task, *check.State) error,
) (stores int, err error) {
	dir, err := state.OpenDirectory(stateDir, state.DirectoryOptions{Application: t.Application()})
	if err != nil {
		return 0, fmt.Errorf("reading the state %s: %w", source, err)
	}
	defer func() { _ = dir.Close() }() // reading is over; its error can say nothing new
	tasks, err := dir.Tasks()
	if err != nil {
		return 0, fmt.Errorf("reading the state %s: %w", source, err)
	}
	subs := t.Subtopologies()
	for _, task := range tasks {
		i := slices.IndexFunc(subs, func(s graph.Subtopology) bool { return s.Name == task.Subtopology })
		if i < 0 {
			continue
		}
		states, err := dumpTask(dir, task, subs[i], describe)
		if err != nil {
			return stores, fmt.Errorf("reading the state of task %s/%d %s: %w", task.Subtopology, task.Partition, source, err)
		}
		for _, st := range states {
			st.Source = source
			history.Write(check.Event{State: st})
		}
		stores += len(states)
	}
	return stores, nil
}

func dumpTask(
	dir *state.Directory, id state.TaskDirectory, sub graph.Subtopology, describe func(*state.Task, *check.State) error,
) ([]*check.State, error) {
	path, err := dir.TaskPath(id.Subtopology, id.Partition)
	if err != nil {
		return nil, err
	}
	db, err := pebblestore.Open(path, pebblestore.Options{})
	if err != nil {
		return nil, err
	}
	task, err := state.NewTask(db, sub.Declarations())
	if err != nil {
		return nil, err
	}
	defer func() { _ = task.Close() }() // reading is over; its error can say nothing new
	at := task.Positions()
	if len(at.Inputs) == 0 || slices.ContainsFunc(at.Changelogs, func(c state.Changelog) bool { return c.Applied != c.Scanned }) {
		return nil, nil
	}
	var states []*check.State
	for _, store := range sub.Stores {
		if store.ChangelogTopic == "" || store.InMemory {
			continue // there is nothing to compare it with, or nothing that could be compared
		}
		st, err := dumpStore(task, store)
		if err == nil && describe != nil {
			err = describe(task, st)
		}
		if err != nil {
			return nil, fmt.Errorf("store %s: %w", store.Name, err)
		}
		cl, _ := at.Changelog(store.Name)
		st.Partition, st.Next, st.Applied = id.Partition, at.Inputs[0].Offset, cl.Applied
		states = append(states, st)
	}
	return states, nil
}

func dumpStore(task *state.Task, store graph.StoreInfo) (*check.State, error) {
	if store.Layout.Kind == state.VersionedKind {
		return nil, fmt.Errorf("the records of a %s store do not replace each other by their keys", store.Layout.Kind)
	}
	st := &check.State{Store: store.Name}
	for e, err := range task.Store(store.Name).Scan(state.Range{}) {
		if err != nil {
			return nil, err
		}
		r, err := store.Layout.Record(state.Write{Key: e.Key, Value: e.Value})
		if err != nil {
			return nil, err
		}
		st.Rows++
		st.Digest ^= check.HashEntry(check.Hash(r.Key), check.Hash(r.Value))
	}
	return st, nil
}

// describe adds the ids of the inbox, and the totals of the balances and the counts.
func (a Accounts) describe(task *state.Task, st *check.State) (err error) {
	raw := task.Store(st.Store)
	switch {
	case st.Store == Inbox:
		for e, err := range raw.Scan(state.Range{}) {
			if err != nil {
				return err
			}
			message, err := strconv.ParseUint(string(e.Key), 10, 32)
			if err != nil {
				return err
			}
			st.IDs ^= check.HashID(uint32(message))
		}
	case a.Parts.Ledger && st.Store == a.Balances.Name():
		if err := ledger.Check(task.Database(), Ledger); err != nil {
			return err
		}
		st.Totals, err = totalsOf(a.Balances.Open(raw), TotalOfSum)
	case a.Parts.Repartition && st.Store == a.Counts.Name():
		st.Totals, err = totalsOf(a.Counts.Open(raw), TotalOfCount)
	}
	return err
}

func totalsOf[V any](store state.KeyValue[string, V], total func(string, V) (check.Total, error)) ([]check.Total, error) {
	var totals []check.Total
	for pair, err := range store.All() {
		if err != nil {
			return nil, err
		}
		t, err := total(pair.Key, pair.Value)
		if err != nil {
			return nil, err
		}
		totals = append(totals, t)
	}
	return totals, nil
}
