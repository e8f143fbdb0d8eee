package statetest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/onceward/onceward/state"
)

type timestampedSubject struct{}

func (timestampedSubject) see(m storeModel, key string) *found {
	for row, v := range m.keys[key] {
		return &found{key: key, value: v.value, from: row.at}
	}
	return nil
}

func (s timestampedSubject) all(m storeModel) (all []found) {
	for _, key := range slices.Sorted(maps.Keys(m.keys)) {
		if f := s.see(m, key); f != nil {
			all = append(all, *f)
		}
	}
	return all
}

func (s timestampedSubject) step(b state.Bytes, _ state.Layout, m *storeModel, op StoreOp) error {
	view := state.NewTimestamped(b, textCodec{}, textCodec{})
	switch op.kind {
	case storeWrite:
		m.only(op.key, moment(op.at), held{value: op.value})
		return view.Put(op.key, op.value, op.at)
	case storeReplace:
		value, at, present, err := view.PutIfAbsent(op.key, op.value, op.at)
		want := s.see(*m, op.key)
		if want == nil {
			m.only(op.key, moment(op.at), held{value: op.value})
		}
		return errors.Join(err, expect("put if absent", found{key: op.key, value: value, from: at}, present, want))
	case storeDelete:
		delete(m.keys, op.key)
		return view.Delete(op.key)
	case storeRead:
		value, at, ok, err := view.Get(op.key)
		return errors.Join(err, expect("get", found{key: op.key, value: value, from: at}, ok, s.see(*m, op.key)))
	default:
		return s.scan(b, *m, op.span)
	}
}

func (s timestampedSubject) scan(b state.Bytes, m storeModel, r state.Range) error {
	view := state.NewTimestamped(b, textCodec{}, textCodec{})
	got, err := gather(view.Scan(r), func(p state.TimestampedPair[string, string]) found {
		return found{key: p.Key, value: p.Value, from: p.Time}
	})
	return errors.Join(err, diff("scan", got, inSpan(s.all(m), r)))
}

func (s timestampedSubject) compare(b state.Bytes, _ state.Layout, m storeModel) error {
	return errors.Join(s.scan(b, m, state.Range{}), s.scan(b, m, state.Range{Reverse: true}))
}

func (s timestampedSubject) compareCompacted(b state.Bytes, l state.Layout, m storeModel) error {
	return s.compare(b, l, m)
}

// dedupeSubject holds the true retention, whatever the view believes in.
type dedupeSubject struct{ retention int64 }

func (s dedupeSubject) see(m storeModel, key string) *found {
	for row, v := range m.keys[key] {
		if row.at > m.now-s.retention {
			return &found{key: key, value: v.value, from: row.at}
		}
	}
	return nil
}

func (s dedupeSubject) all(m storeModel) (all []found) {
	for _, key := range slices.Sorted(maps.Keys(m.keys)) {
		if f := s.see(m, key); f != nil {
			all = append(all, *f)
		}
	}
	return all
}

func (s dedupeSubject) step(b state.Bytes, l state.Layout, m *storeModel, op StoreOp) error {
	view := state.NewDedupe(b, textCodec{}, textCodec{}, l)
	switch op.kind {
	case storeWrite:
		m.now = max(m.now, op.at)
		want := state.Absent
		was := s.see(*m, op.key)
		switch {
		case was != nil:
			want = state.Present
		case op.at <= m.now-s.retention:
			want = state.TooLate
		default:
			m.only(op.key, moment(op.at), held{value: op.value})
		}
		r, p, err := view.PutIfAbsent(op.key, op.value, op.at)
		if err == nil && p != want {
			err = fmt.Errorf("put if absent: %v, want %v", p, want)
		}
		return errors.Join(err, expect("put if absent", found{key: op.key, value: r.Value, from: r.Time}, p == state.Present, was))
	case storeReplace, storeDelete:
		was := s.see(*m, op.key)
		var ok bool
		var err error
		if op.kind == storeDelete {
			ok, err = view.Delete(op.key)
			delete(m.keys, op.key)
		} else if ok, err = view.Update(op.key, op.value); was != nil {
			m.set(op.key, moment(was.from), held{value: op.value})
		}
		if ok != (was != nil) {
			err = errors.Join(err, fmt.Errorf("it was there: %t, want %t", ok, was != nil))
		}
		return err
	case storeRead:
		r, ok, err := view.Lookup(op.key)
		return errors.Join(err, expect("lookup", found{key: op.key, value: r.Value, from: r.Time}, ok, s.see(*m, op.key)))
	default:
		return s.scan(b, l, *m, op.span)
	}
}

func (s dedupeSubject) scan(b state.Bytes, l state.Layout, m storeModel, r state.Range) error {
	got, err := gather(state.NewDedupe(b, textCodec{}, textCodec{}, l).Scan(r), func(p state.DedupePair[string, string]) found {
		return found{key: p.ID, value: p.Value, from: p.Time}
	})
	return errors.Join(err, diff("scan", got, inSpan(s.all(m), r)))
}

func (s dedupeSubject) compare(b state.Bytes, l state.Layout, m storeModel) error {
	view := state.NewDedupe(b, textCodec{}, textCodec{}, l)
	for _, key := range storeKeys {
		r, ok, err := view.Lookup(key)
		if err := errors.Join(err, expect("lookup", found{key: key, value: r.Value, from: r.Time}, ok, s.see(m, key))); err != nil {
			return err
		}
	}
	return errors.Join(s.scan(b, l, m, state.Range{}), s.scan(b, l, m, state.Range{Reverse: true}))
}

func (s dedupeSubject) compareCompacted(b state.Bytes, l state.Layout, m storeModel) error {
	return s.compare(b, l, m)
}

// versionedSubject keeps its view as a processor does, since that remembers where it looked.
type versionedSubject struct {
	// retention is the true one, whatever the view believes in.
	retention int64
	bytes     state.Bytes
	view      state.Versioned[string, string]
}

// at returns what is valid at t.
func (s *versionedSubject) at(m storeModel, key string, t int64) *found {
	at, ok := newest(m.keys[key], t)
	v := m.keys[key][moment(at)]
	if !ok || v.deleted {
		return nil
	}
	return &found{key: key, value: v.value, from: at}
}

func (s *versionedSubject) asOf(m storeModel, key string, t int64) *found {
	if t >= m.now-s.retention {
		return s.at(m, key, t)
	}
	if latest := s.at(m, key, math.MaxInt64); latest != nil && latest.from <= t {
		return latest
	}
	return nil
}

func (s *versionedSubject) history(m storeModel, key string, from, to int64) (all []found) {
	horizon := m.now - s.retention
	rows := slices.SortedFunc(maps.Keys(m.keys[key]), func(a, b rowTime) int { return cmp.Compare(a.at, b.at) })
	for i, row := range rows {
		end := state.Forever
		if i+1 < len(rows) {
			end = rows[i+1].at
		}
		sees := end > max(from, horizon) && to >= horizon || end == state.Forever
		if v := m.keys[key][row]; !v.deleted && row.at <= to && sees && from <= to {
			all = append(all, found{key: key, value: v.value, from: row.at, to: end})
		}
	}
	return all
}

func (s *versionedSubject) all(m storeModel) (all []found) {
	for _, key := range slices.Sorted(maps.Keys(m.keys)) {
		if f := s.at(m, key, math.MaxInt64); f != nil {
			all = append(all, *f)
		}
	}
	return all
}

func (s *versionedSubject) step(b state.Bytes, l state.Layout, m *storeModel, op StoreOp) error {
	if s.bytes != b {
		s.bytes, s.view = b, state.NewVersioned(b, textCodec{}, textCodec{}, l)
	}
	view := s.view
	switch op.kind {
	case storeWrite, storeReplace, storeDelete:
		m.now = max(m.now, op.at)
		want := state.NotPlaced
		v := held{value: op.value}
		var placed state.Placement
		var err error
		if op.kind == storeDelete {
			v = held{deleted: true}
			placed, err = view.Delete(op.key, op.at)
		} else {
			placed, err = view.Put(op.key, op.value, op.at)
		}
		if op.at >= m.now-s.retention {
			m.set(op.key, moment(op.at), v)
			want = state.PlacedInHistory
			if latest, _ := newest(m.keys[op.key], math.MaxInt64); latest == op.at {
				want = state.PlacedLatest
			}
		}
		if placed != want {
			err = errors.Join(err, fmt.Errorf("the version is %s, want %s", placed, want))
		}
		return err
	case storeRead:
		value, from, ok, err := view.Get(op.key)
		if err := errors.Join(err, expect("get", found{key: op.key, value: value, from: from}, ok, s.at(*m, op.key, math.MaxInt64))); err != nil {
			return err
		}
		value, from, ok, err = view.GetAsOf(op.key, op.at)
		err = errors.Join(err, expect("get as of", found{key: op.key, value: value, from: from}, ok, s.asOf(*m, op.key, op.at)))
		return errors.Join(err, s.compareHistory(view, *m, op.key, op.at, op.to, op.reverse))
	default:
		return s.scan(view, *m, op.span)
	}
}

func (s *versionedSubject) compareHistory(
	view state.Versioned[string, string], m storeModel, key string, from, to int64, reverse bool,
) error {
	seq, want := view.History(key, from, to), s.history(m, key, from, to)
	if reverse {
		seq = view.HistoryReverse(key, from, to)
		slices.Reverse(want)
	}
	got, err := gather(seq, func(v state.Version[string]) found {
		return found{key: key, value: v.Value, from: v.From, to: v.To}
	})
	return errors.Join(err, diff(fmt.Sprintf("history of %q in %d..%d", key, from, to), got, want))
}

// scan compares without the order, which nested keys may not have, and the order of those that are
// text.
func (s *versionedSubject) scan(view state.Versioned[string, string], m storeModel, r state.Range) error {
	got, err := gather(view.Scan(r), func(p state.VersionedPair[string, string]) found {
		return found{key: p.Key, value: p.Value, from: p.From}
	})
	if err != nil {
		return err
	}
	text := slices.DeleteFunc(slices.Clone(got), func(f found) bool { return slices.Contains([]byte(f.key), 0) || f.key == "" })
	byKey := func(a, b found) int { return cmp.Compare(a.key, b.key) }
	if r.Reverse {
		slices.Reverse(text)
	}
	if !slices.IsSortedFunc(text, byKey) {
		return fmt.Errorf("scan: %v are out of order", text)
	}
	slices.SortFunc(got, byKey)
	r.Reverse = false
	return diff("scan", got, inSpan(s.all(m), r))
}

func (s *versionedSubject) compare(b state.Bytes, l state.Layout, m storeModel) error {
	view := state.NewVersioned(b, textCodec{}, textCodec{}, l)
	err := s.compareCompacted(b, l, m)
	horizon := m.now - s.retention
	times := []int64{horizon - 1, horizon, horizon + 1, m.now, m.now + 1}
	for t := horizon; t <= m.now; t += max(s.retention/12, 1) {
		times = append(times, t)
	}
	for _, key := range storeKeys {
		for _, t := range times {
			value, from, ok, e := view.GetAsOf(key, t)
			err = errors.Join(err, e, expect("get as of", found{key: key, value: value, from: from}, ok, s.asOf(m, key, t)))
		}
		for _, reverse := range []bool{false, true} {
			err = errors.Join(err, s.compareHistory(view, m, key, 0, math.MaxInt64, reverse))
		}
	}
	return err
}

// compareCompacted compares the latest versions: compaction takes the history, which is why it has
// to wait.
func (s *versionedSubject) compareCompacted(b state.Bytes, l state.Layout, m storeModel) error {
	view := state.NewVersioned(b, textCodec{}, textCodec{}, l)
	err := errors.Join(s.scan(view, m, state.Range{}), s.scan(view, m, state.Range{Reverse: true}))
	for _, key := range storeKeys {
		value, from, ok, e := view.Get(key)
		err = errors.Join(err, e, expect("get", found{key: key, value: value, from: from}, ok, s.at(m, key, math.MaxInt64)))
	}
	return err
}
