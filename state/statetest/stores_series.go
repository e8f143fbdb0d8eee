package statetest

import (
	"errors"
	"fmt"
	"math"

	"github.com/onceward/onceward/state"
)

// seriesSubject is the series store. It holds the true retention, whatever the view believes in.
type seriesSubject struct{ retention int64 }

// seriesStep is the time between two moments of a series. It is long, so that many values share a
// moment.
const seriesStep = 8 * storeUnit

func (seriesSubject) moment(at int64) int64 { return at - at%seriesStep }

func (s seriesSubject) live(m storeModel, at int64) bool { return at > m.now-s.retention }

// entries returns what is between two times, in order.
func (s seriesSubject) entries(m storeModel, key string, from, to int64) (all []found) {
	for at := max(s.moment(from), 0); at <= min(to, m.now); at += seriesStep {
		if at < from || !s.live(m, at) {
			continue
		}
		for n := int64(0); ; n++ {
			v, ok := m.keys[key][rowTime{n, at}]
			if !ok {
				break
			}
			all = append(all, found{key: key, value: v.value, from: at, to: n})
		}
	}
	return all
}

func (s seriesSubject) step(b state.Bytes, l state.Layout, m *storeModel, op StoreOp) error {
	view := state.NewSeries(b, textCodec{}, textCodec{}, l)
	switch op.kind {
	case storeWrite, storeReplace:
		return s.add(view, m, op.key, s.moment(op.at), op.value)
	case storeRead:
		from, to := min(op.at, op.to), max(op.at, op.to)
		return errors.Join(s.get(view, *m, op.key, s.moment(op.at)), s.fetch(view, *m, op.key, from, to))
	case storeScan:
		return s.fetchAndAdd(view, m, op)
	default: // deletes nothing
		return nil
	}
}

func (s seriesSubject) add(view state.Series[string, string], m *storeModel, key string, at int64, value string) error {
	number, stored, err := view.Add(key, at, value)
	if err != nil {
		return err
	}
	if want := s.live(*m, at); stored != want {
		return fmt.Errorf("add of %q at %d: stored is %t, want %t", key, at, stored, want)
	} else if !want {
		return nil
	}
	n := int64(0)
	for has := true; has; {
		if _, has = m.keys[key][rowTime{n, at}]; has {
			n++
		}
	}
	m.now = max(m.now, at)
	m.set(key, rowTime{n, at}, held{value: value})
	if int64(number) != n {
		return fmt.Errorf("add of %q at %d: the number is %d, want %d", key, at, number, n)
	}
	return nil
}

// get looks at the first three numbers of a moment.
func (s seriesSubject) get(view state.Series[string, string], m storeModel, key string, at int64) error {
	for n := range int64(3) {
		var want *found
		if v, ok := m.keys[key][rowTime{n, at}]; ok && s.live(m, at) {
			want = &found{key: key, value: v.value, from: at, to: n}
		}
		value, ok, err := view.Get(key, at, uint32(n))
		if err = errors.Join(err, expect("get", found{key: key, value: value, from: at, to: n}, ok, want)); err != nil {
			return err
		}
	}
	return nil
}

func (s seriesSubject) fetch(view state.Series[string, string], m storeModel, key string, from, to int64) error {
	entry := func(e state.SeriesEntry[string]) found {
		return found{key: key, value: e.Value, from: e.Time, to: int64(e.Sequence)}
	}
	want := s.entries(m, key, from, to)
	got, err := gather(view.Fetch(key, from, to), entry)
	err = errors.Join(err, diff(fmt.Sprintf("fetch of %q in %d..%d", key, from, to), got, want))
	values, few, failed := view.FetchFew(make([]state.SeriesEntry[string], 1), key, from, to)
	if failed != nil || len(values) == 0 {
		return errors.Join(err, fmt.Errorf("fetch of few of %q in %d..%d: %d values: %w", key, from, to, len(values), failed))
	}
	got = got[:0]
	for _, e := range values[1:] {
		got = append(got, entry(e))
	}
	if !few {
		want = nil
	}
	return errors.Join(err, diff(fmt.Sprintf("fetch of few of %q in %d..%d", key, from, to), got, want))
}

// fetchAndAdd adds to the store while it reads, once so far ahead that old rows go out of sight.
// The reading sees none of that.
func (s seriesSubject) fetchAndAdd(view state.Series[string, string], m *storeModel, op StoreOp) error {
	key, from, to := string(op.span.From), min(op.at, op.to), max(op.at, op.to)
	want := s.entries(*m, key, from, to)
	if op.breakAt > 0 {
		want = want[:min(op.breakAt, len(want))]
	}
	var got []found
	for e, err := range view.Fetch(key, from, to) {
		if err != nil {
			return err
		}
		got = append(got, found{key: key, value: e.Value, from: e.Time, to: int64(e.Sequence)})
		if op.writes {
			err := s.add(view, m, key, e.Time, "written during a scan")
			if len(got) == 1 {
				err = errors.Join(err, s.add(view, m, key, s.moment(m.now+2*seriesStep), "ahead"))
			}
			if err != nil {
				return err
			}
		}
		if len(got) == op.breakAt {
			break
		}
	}
	return diff(fmt.Sprintf("fetch of %q in %d..%d", key, from, to), got, want)
}

func (s seriesSubject) compare(b state.Bytes, l state.Layout, m storeModel) error {
	view := state.NewSeries(b, textCodec{}, textCodec{}, l)
	for _, key := range storeKeys {
		if err := s.fetch(view, m, key, math.MinInt64, math.MaxInt64); err != nil {
			return err
		}
	}
	return nil
}

// compareCompacted compares everything: rows and keys of records are one to one.
func (s seriesSubject) compareCompacted(b state.Bytes, l state.Layout, m storeModel) error {
	return s.compare(b, l, m)
}
