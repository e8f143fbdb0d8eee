package statetest

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"

	"github.com/onceward/onceward/state"
)

// found is one entry of a typed store as the subjects compare it.
type found struct {
	key, value string
	from, to   int64
}

func (f found) String() string {
	return fmt.Sprintf("%q = %.10q at %d..%d", f.key, f.value, f.from, f.to)
}

func gather[T any](seq iter.Seq2[T, error], as func(T) found) (all []found, err error) {
	for v, err := range seq {
		if err != nil {
			return nil, err
		}
		all = append(all, as(v))
	}
	return all, nil
}

func diff(what string, got, want []found) error {
	if slices.Equal(got, want) {
		return nil
	}
	return fmt.Errorf("%s: got %v, want %v", what, got, want)
}

// inSpan returns what is in r, in its order.
func inSpan(all []found, r state.Range) []found {
	all = slices.DeleteFunc(slices.Clone(all), func(f found) bool {
		return f.key < string(r.From) || r.To != nil && f.key >= string(r.To)
	})
	if r.Reverse {
		slices.Reverse(all)
	}
	return all
}

func expect(what string, got found, ok bool, want *found) error {
	switch {
	case want == nil && ok:
		return fmt.Errorf("%s: got %v, want nothing", what, got)
	case want != nil && (!ok || got != *want):
		return fmt.Errorf("%s: got %v (%t), want %v", what, got, ok, *want)
	}
	return nil
}

type timestampedSubject struct{}

func (timestampedSubject) layout() state.Layout { return state.Layout{Kind: state.TimestampedKind} }
func (timestampedSubject) unit() int64          { return 1 }

func (timestampedSubject) see(m storeModel, key string) *found {
	for at, value := range m.keys[key] {
		return &found{key: key, value: *value, from: at}
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
	put := func() {
		delete(m.keys, op.key)
		m.set(op.key, op.at, &op.value)
	}
	switch op.kind {
	case storeWrite:
		put()
		return view.Put(op.key, op.value, op.at)
	case storeReplace:
		value, at, present, err := view.PutIfAbsent(op.key, op.value, op.at)
		want := s.see(*m, op.key)
		if want == nil {
			put()
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

func (s timestampedSubject) compare(b state.Bytes, m storeModel) error {
	return errors.Join(s.scan(b, m, state.Range{}), s.scan(b, m, state.Range{Reverse: true}))
}

func (s timestampedSubject) compareCompacted(b state.Bytes, m storeModel) error {
	return s.compare(b, m)
}

type dedupeSubject struct{}

func (s dedupeSubject) layout() state.Layout {
	return state.Layout{Kind: state.DedupeKind, Retention: storeRetention * s.unit()}
}

// unit makes half of the retention longer than the shortest segment.
func (dedupeSubject) unit() int64 { return 4000 }

func (s dedupeSubject) see(m storeModel, key string) *found {
	for at, value := range m.keys[key] {
		if at > m.now-s.layout().Retention {
			return &found{key: key, value: *value, from: at}
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
		case op.at <= m.now-s.layout().Retention:
			want = state.TooLate
		default:
			delete(m.keys, op.key)
			m.set(op.key, op.at, &op.value)
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
			m.set(op.key, was.from, &op.value)
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

func (s dedupeSubject) compare(b state.Bytes, m storeModel) error {
	l := s.layout()
	view := state.NewDedupe(b, textCodec{}, textCodec{}, l)
	for _, key := range storeKeys {
		r, ok, err := view.Lookup(key)
		if err := errors.Join(err, expect("lookup", found{key: key, value: r.Value, from: r.Time}, ok, s.see(m, key))); err != nil {
			return err
		}
	}
	return errors.Join(s.scan(b, l, m, state.Range{}), s.scan(b, l, m, state.Range{Reverse: true}))
}

func (s dedupeSubject) compareCompacted(b state.Bytes, m storeModel) error { return s.compare(b, m) }

// versionedSubject keeps its view as a processor does, since that remembers where it looked.
type versionedSubject struct {
	bytes state.Bytes
	view  state.Versioned[string, string]
}

func (*versionedSubject) layout() state.Layout {
	return state.Layout{Kind: state.VersionedKind, Retention: storeRetention}
}
func (*versionedSubject) unit() int64 { return 1 }

// at returns what is valid at t.
func (s *versionedSubject) at(m storeModel, key string, t int64) *found {
	at, ok := newest(m.keys[key], t)
	if !ok || m.keys[key][at] == nil {
		return nil
	}
	return &found{key: key, value: *m.keys[key][at], from: at}
}

func (s *versionedSubject) asOf(m storeModel, key string, t int64) *found {
	if t <= m.now-s.layout().Retention {
		return nil
	}
	return s.at(m, key, t)
}

func (s *versionedSubject) history(m storeModel, key string, from, to int64) (all []found) {
	from = max(from, m.now-s.layout().Retention+1, 0)
	times := slices.Sorted(maps.Keys(m.keys[key]))
	for i, at := range times {
		end := state.Forever
		if i+1 < len(times) {
			end = times[i+1]
		}
		if value := m.keys[key][at]; value != nil && at <= to && end > from && from <= to {
			all = append(all, found{key: key, value: *value, from: at, to: end})
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
		want := op.at > m.now-s.layout().Retention
		value := &op.value
		var stored bool
		var err error
		if op.kind == storeDelete {
			value = nil
			stored, err = view.Delete(op.key, op.at)
		} else {
			stored, err = view.Put(op.key, op.value, op.at)
		}
		if want {
			m.set(op.key, op.at, value)
		}
		if stored != want {
			err = errors.Join(err, fmt.Errorf("stored is %t, want %t", stored, want))
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

// scan compares without the order, which nested keys may not have, and the order of those that are text.
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

func (s *versionedSubject) compare(b state.Bytes, m storeModel) error {
	view := state.NewVersioned(b, textCodec{}, textCodec{}, s.layout())
	err := s.compareCompacted(b, m)
	for _, key := range storeKeys {
		for t := m.now - storeRetention - 1; t <= m.now+1; t += 3 {
			value, from, ok, e := view.GetAsOf(key, t)
			err = errors.Join(err, e, expect("get as of", found{key: key, value: value, from: from}, ok, s.asOf(m, key, t)))
		}
		for _, reverse := range []bool{false, true} {
			err = errors.Join(err, s.compareHistory(view, m, key, 0, math.MaxInt64, reverse))
		}
	}
	return err
}

// compareCompacted compares the latest versions: compaction takes the history, which is why it has to wait.
func (s *versionedSubject) compareCompacted(b state.Bytes, m storeModel) error {
	view := state.NewVersioned(b, textCodec{}, textCodec{}, s.layout())
	err := errors.Join(s.scan(view, m, state.Range{}), s.scan(view, m, state.Range{Reverse: true}))
	for _, key := range storeKeys {
		value, from, ok, e := view.Get(key)
		err = errors.Join(err, e, expect("get", found{key: key, value: value, from: from}, ok, s.at(m, key, math.MaxInt64)))
	}
	return err
}
