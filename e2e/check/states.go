package check

import (
	"cmp"
	"fmt"
	"slices"
)

// states judges the content of stores: it has to be the fold of the committed inputs below its
// position, and the fold of the changelog below its position there.
type states struct {
	*judge
	folds map[storeAt]*changelogFold
}

type storeAt struct {
	store     int
	partition int32
}

// changelogFold is a changelog replayed, with the states that are to be compared on the way.
type changelogFold struct {
	values map[uint64]uint64
	rows   int64
	digest uint64
	todo   []*State // ascending by Applied
}

func newStates(j *judge) *states {
	s := &states{judge: j, folds: map[storeAt]*changelogFold{}}
	for _, st := range j.states {
		i := slices.IndexFunc(j.spec.Stores, func(d Store) bool { return d.Name == st.Store })
		if i < 0 {
			j.found(Anomaly{Kind: StateDiffers, Topic: st.Store, Partition: st.Partition, Offset: -1, Detail: "there is no such store"})
			continue
		}
		if st.Rows == NoRows {
			continue
		}
		at := storeAt{i, st.Partition}
		if s.folds[at] == nil {
			s.folds[at] = &changelogFold{values: map[uint64]uint64{}}
		}
		s.folds[at].todo = append(s.folds[at].todo, st)
	}
	for _, f := range s.folds {
		slices.SortStableFunc(f.todo, func(a, b *State) int { return cmp.Compare(a.Applied, b.Applied) })
	}
	return s
}

func (s *states) see(e *Event) {
	if e.Read == nil || e.Read.Reader != LogReader {
		return
	}
	r := e.Read
	i, ok := s.changelog[r.Topic]
	if !ok {
		return
	}
	f := s.folds[storeAt{i, r.Partition}]
	if f == nil {
		return
	}
	for n, offset := range r.Offsets {
		if !s.committed(r, n) {
			continue
		}
		s.compareUpTo(f, offset)
		f.take(r.Keys[n], r.Values[n])
	}
}

func (f *changelogFold) take(key, value uint64) {
	if before, ok := f.values[key]; ok {
		f.digest ^= HashEntry(key, before)
		f.rows--
		delete(f.values, key)
	}
	if value != 0 {
		f.digest ^= HashEntry(key, value)
		f.rows++
		f.values[key] = value
	}
}

// compareUpTo compares the states whose position the replay has reached, before the record at
// offset is taken.
func (s *states) compareUpTo(f *changelogFold, offset int64) {
	for len(f.todo) > 0 && f.todo[0].Applied <= offset {
		st := f.todo[0]
		f.todo = f.todo[1:]
		if st.Rows != f.rows || st.Digest != f.digest {
			s.found(Anomaly{Kind: StateDiffers, Topic: st.Store, Partition: st.Partition, Offset: st.Applied,
				Detail: fmt.Sprintf("%s: %d rows with digest %016x, the changelog below this offset gives %d with %016x",
					st.Source, st.Rows, st.Digest, f.rows, f.digest)})
		}
	}
}

func (s *states) end() {
	for _, f := range s.folds {
		if len(f.todo) > 0 {
			s.compareUpTo(f, f.todo[len(f.todo)-1].Applied)
		}
	}
	byStore := map[storeAt][]*State{}
	for _, st := range s.index.states {
		i := slices.IndexFunc(s.spec.Stores, func(d Store) bool { return d.Name == st.Store })
		if i >= 0 && !s.spec.Stores[i].Opaque {
			byStore[storeAt{i, st.Partition}] = append(byStore[storeAt{i, st.Partition}], st)
		}
	}
	for at, of := range byStore {
		slices.SortStableFunc(of, func(a, b *State) int { return cmp.Compare(a.Next, b.Next) })
		s.compareInputs(&s.spec.Stores[at.store], at.partition, of)
	}
}

// compareInputs walks one input log once and compares every state at its position.
func (s *states) compareInputs(d *Store, partition int32, of []*State) {
	totals := map[uint32]Total{}
	var ids uint64
	var rows int64
	offset := int64(0)
	for _, st := range of {
		for ; offset < st.Next; offset++ {
			id := s.index.at(d.From, partition, offset)
			if !s.known(id) || !d.Deliveries && !s.inputs[id].first || s.inputs[id].poison {
				continue
			}
			if d.IDs {
				ids ^= HashID(s.inputs[id].message)
				rows++
				continue
			}
			group := s.group(d.By, id)
			t := totals[group]
			totals[group] = Total{group, t.Count + 1, t.Sum + s.inputs[id].amount}
		}
		if d.IDs {
			if st.Rows != rows || st.IDs != ids {
				s.differs(st, fmt.Sprintf("%d ids, the inputs below this offset have %d, or other ones", st.Rows, rows))
			}
			continue
		}
		s.compareTotals(st, totals)
	}
}

func (s *states) compareTotals(st *State, want map[uint32]Total) {
	if len(st.Totals) != len(want) {
		s.differs(st, fmt.Sprintf("%d rows, the inputs below this offset give %d", len(st.Totals), len(want)))
	}
	for _, got := range st.Totals {
		if w := want[got.Key]; got != w {
			s.differs(st, fmt.Sprintf("group %d has %d in %d contributions, the inputs below this offset give %d in %d",
				got.Key, got.Sum, got.Count, w.Sum, w.Count))
		}
	}
}

func (s *states) differs(st *State, detail string) {
	s.found(Anomaly{Kind: StateDiffers, Topic: st.Store, Partition: st.Partition, Offset: st.Next, Detail: st.Source + ": " + detail})
}
