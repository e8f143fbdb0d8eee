package workload

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/onceward/onceward/e2e/check"
	"github.com/onceward/onceward/processors/ledger"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/pebblestore"
	"github.com/onceward/onceward/topology"
)

// Dump reads the databases in the state directory of an instance that is down, and records what is in them. A database that was
// being restored when its instance was killed is left out: it is at no position yet. It returns the number of stores that were read.
func Dump(history *Recorder, accounts Accounts, stateDir, source string) (stores int, err error) {
	dir, err := state.OpenDirectory(stateDir, state.DirectoryOptions{Application: accounts.Topology.Application()})
	if err != nil {
		return 0, fmt.Errorf("reading the state %s: %w", source, err)
	}
	defer func() { _ = dir.Close() }() // reading is over; its error can say nothing new
	tasks, err := dir.Tasks()
	if err != nil {
		return 0, fmt.Errorf("reading the state %s: %w", source, err)
	}
	for _, task := range tasks {
		n, err := dumpTask(history, accounts, dir, task, source)
		if err != nil {
			return stores, fmt.Errorf("reading the state of task %s/%d %s: %w", task.Subtopology, task.Partition, source, err)
		}
		stores += n
	}
	return stores, nil
}

func dumpTask(history *Recorder, accounts Accounts, dir *state.Directory, id state.TaskDirectory, source string) (int, error) {
	i := slices.IndexFunc(accounts.Topology.Subtopologies(), func(s topology.Subtopology) bool { return s.Name == id.Subtopology })
	if i < 0 {
		return 0, nil
	}
	sub := accounts.Topology.Subtopologies()[i]
	path, err := dir.TaskPath(id.Subtopology, id.Partition)
	if err != nil {
		return 0, err
	}
	db, err := pebblestore.Open(path, pebblestore.Options{})
	if err != nil {
		return 0, err
	}
	names := make([]string, 0, len(sub.Stores))
	for _, s := range sub.Stores {
		names = append(names, s.Name)
	}
	task, err := state.NewTask(db, sub.Declarations())
	if err != nil {
		return 0, err
	}
	defer func() { _ = task.Close() }() // reading is over; its error can say nothing new
	at := task.Positions()
	if len(at.Inputs) == 0 || slices.ContainsFunc(at.Changelogs, func(c state.Changelog) bool { return c.Applied != c.Scanned }) {
		return 0, nil
	}
	for _, name := range names {
		st, err := dumpStore(accounts, task, name)
		if err != nil {
			return 0, fmt.Errorf("store %s: %w", name, err)
		}
		cl, _ := at.Changelog(name)
		st.Partition, st.Source, st.Next, st.Applied = id.Partition, source, at.Inputs[0].Offset, cl.Applied
		history.Write(check.Event{State: st})
	}
	if accounts.Parts.Ledger && id.Subtopology != ByOther {
		return len(names), ledger.Check(db, Ledger)
	}
	return len(names), nil
}

func dumpStore(accounts Accounts, task *state.Task, name string) (*check.State, error) {
	st := &check.State{Store: name}
	raw := task.Store(name)
	for e, err := range raw.Scan(state.Range{}) {
		if err != nil {
			return nil, err
		}
		st.Rows++
		st.Digest ^= check.HashEntry(check.Hash(e.Key), check.Hash(e.Value))
		if name == Inbox {
			message, err := strconv.ParseUint(string(e.Key), 10, 32)
			if err != nil {
				return nil, err
			}
			st.IDs ^= check.HashID(uint32(message))
		}
	}
	var err error
	switch {
	case accounts.Parts.Ledger && name == accounts.Balances.Name():
		st.Totals, err = totalsOf(accounts.Balances.Open(raw), TotalOfSum)
	case accounts.Parts.Repartition && name == accounts.Counts.Name():
		st.Totals, err = totalsOf(accounts.Counts.Open(raw), TotalOfCount)
	}
	return st, err
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
