package statetest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/onceward/onceward/state"
)

// timedSubject is the window store and the session store. What can be seen of either goes by the
// time at which a row ends, and for a window that is its start.
type timedSubject struct {
	// layout is the true one, whatever the view believes in.
	layout state.Layout
}

// timedView is what both stores can do. Entries go from the start of a row to the end of a session,
// or to the time that a window keeps.
type timedView interface {
	put(key string, row rowTime, v held) (stored bool, err error)
	// putIfAbsent does nothing, with done false, where the kind has no such method.
	putIfAbsent(key string, row rowTime, v held) (existing string, present, stored, done bool, err error)
	get(key string, row rowTime) (v held, ok bool, err error)
	delete(key string, row rowTime) error
	// fetch and scan return what ends at from or later and starts at to or earlier.
	fetch(key string, from, to int64, reverse bool) iter.Seq2[found, error]
	scan(r state.Range, from, to int64) iter.Seq2[found, error]
}

type windowView struct {
	w state.Window[string, string]
}

func (s windowView) put(key string, row rowTime, v held) (bool, error) {
	return s.w.Put(key, row.at, v.value, v.time)
}

func (s windowView) putIfAbsent(key string, row rowTime, v held) (existing string, present, stored, done bool, err error) {
	existing, present, stored, err = s.w.PutIfAbsent(key, row.at, v.value, v.time)
	return existing, present, stored, true, err
}

func (s windowView) get(key string, row rowTime) (v held, ok bool, err error) {
	v.value, v.time, ok, err = s.w.Get(key, row.at)
	return v, ok, err
}

func (s windowView) delete(key string, row rowTime) error { return s.w.Delete(key, row.at) }

func (s windowView) fetch(key string, from, to int64, reverse bool) iter.Seq2[found, error] {
	if reverse {
		return foundIn(s.w.FetchReverse(key, from, to), foundWindow)
	}
	return foundIn(s.w.Fetch(key, from, to), foundWindow)
}

func (s windowView) scan(r state.Range, from, to int64) iter.Seq2[found, error] {
	return foundIn(s.w.Scan(r, from, to), foundWindow)
}

func foundWindow(e state.WindowEntry[string, string]) found {
	return found{key: e.Key, value: e.Value, from: e.Start, to: e.Time}
}

type sessionView struct {
	s state.Session[string, string]
}

func (s sessionView) put(key string, row rowTime, v held) (bool, error) {
	return s.s.Put(key, row.start, row.at, v.value)
}

func (sessionView) putIfAbsent(string, rowTime, held) (existing string, present, stored, done bool, err error) {
	return "", false, false, false, nil
}

func (s sessionView) get(key string, row rowTime) (v held, ok bool, err error) {
	v.value, ok, err = s.s.Get(key, row.start, row.at)
	return v, ok, err
}

func (s sessionView) delete(key string, row rowTime) error { return s.s.Delete(key, row.start, row.at) }

func (s sessionView) fetch(key string, from, to int64, reverse bool) iter.Seq2[found, error] {
	if reverse {
		return foundIn(s.s.FindReverse(key, from, to), foundSession)
	}
	return foundIn(s.s.Find(key, from, to), foundSession)
}

func (s sessionView) scan(r state.Range, from, to int64) iter.Seq2[found, error] {
	return foundIn(s.s.Scan(r, from, to), foundSession)
}

func foundSession(e state.SessionEntry[string, string]) found {
	return found{key: e.Key, value: e.Value, from: e.Start, to: e.End}
}

func foundIn[E any](seq iter.Seq2[E, error], as func(E) found) iter.Seq2[found, error] {
	return func(yield func(found, error) bool) {
		for e, err := range seq {
			if !yield(as(e), err) {
				return
			}
		}
	}
}

func (s timedSubject) view(b state.Bytes, l state.Layout) timedView {
	if s.layout.Kind == state.WindowKind {
		return windowView{state.NewWindow(b, textCodec{}, textCodec{}, l)}
	}
	return sessionView{state.NewSession(b, textCodec{}, textCodec{}, l)}
}

// row is the time of the row that an operation is about.
func (s timedSubject) row(op StoreOp) rowTime {
	row := moment(op.at)
	if s.layout.Kind == state.SessionKind {
		row.start = max(op.at-op.length, 0)
	}
	return row
}

// held is what an operation writes. The time of a window's value is in the window or later.
func (s timedSubject) held(op StoreOp) held {
	v := held{value: op.value}
	if s.layout.Kind == state.WindowKind {
		v.time = max(op.at, op.to)
	}
	return v
}

func (s timedSubject) live(m storeModel, row rowTime) bool { return row.at > m.now-s.layout.Retention }

// change carries out a write, nil is a delete, and reports whether it does anything.
func (s timedSubject) change(m *storeModel, key string, row rowTime, v *held) bool {
	if !s.live(*m, row) {
		return false
	}
	m.now = max(m.now, row.at)
	if v == nil {
		delete(m.keys[key], row)
	} else {
		m.set(key, row, *v)
	}
	return true
}

// entries returns what a scan of some keys must give, in order: that of the keys of the records, of
// FORMAT.md.
func (s timedSubject) entries(m storeModel, from, to int64, keys ...string) []found {
	type ordered struct {
		order string
		found
	}
	var all []ordered
	for _, key := range keys {
		for row, v := range m.keys[key] {
			if !s.live(m, row) || row.at < from || row.start > to {
				continue
			}
			f := found{key: key, value: v.value, from: row.start, to: row.at}
			order := binary.BigEndian.AppendUint64([]byte(key), uint64(row.at))
			if s.layout.Kind == state.WindowKind {
				f.to = v.time
				order = append(order, 0, 0, 0, 0)
			} else {
				order = binary.BigEndian.AppendUint64(order, uint64(row.start))
			}
			all = append(all, ordered{string(order), f})
		}
	}
	slices.SortFunc(all, func(a, b ordered) int { return strings.Compare(a.order, b.order) })
	var entries []found
	for _, e := range all {
		entries = append(entries, e.found)
	}
	return entries
}

func (s timedSubject) step(b state.Bytes, l state.Layout, m *storeModel, op StoreOp) error {
	view, row, v := s.view(b, l), s.row(op), s.held(op)
	current, has := m.keys[op.key][row]
	has = has && s.live(*m, row)
	switch op.kind {
	case storeWrite:
		return s.put(view, m, op.key, row, v)
	case storeReplace:
		existing, present, stored, done, err := view.putIfAbsent(op.key, row, v)
		if err != nil || !done {
			return err
		}
		want := !has && s.change(m, op.key, row, &v)
		if present != has || present && existing != current.value || stored != want {
			return fmt.Errorf("put if absent: %q, present %t, stored %t; want %q, %t, %t", existing, present, stored,
				current.value, has, want)
		}
		return nil
	case storeDelete:
		s.change(m, op.key, row, nil)
		return view.delete(op.key, row)
	case storeRead:
		got, ok, err := view.get(op.key, row)
		if err != nil || ok != has || ok && got != current {
			return fmt.Errorf("get: %v, %t, %w; want %v, %t", got, ok, err, current, has)
		}
		from, to := min(op.at, op.to), max(op.at, op.to)
		return s.fetch(view, *m, op.key, from, to, op.reverse)
	default:
		return s.scan(view, m, op)
	}
}

func (s timedSubject) put(view timedView, m *storeModel, key string, row rowTime, v held) error {
	stored, err := view.put(key, row, v)
	if want := s.change(m, key, row, &v); err == nil && stored != want {
		err = fmt.Errorf("put of %q at %v: stored is %t, want %t", key, row, stored, want)
	}
	return err
}

func (s timedSubject) fetch(view timedView, m storeModel, key string, from, to int64, reverse bool) error {
	got, err := gather(view.fetch(key, from, to, reverse), func(f found) found { return f })
	want := inSpan(s.entries(m, from, to, key), state.Range{Reverse: reverse})
	return errors.Join(err, diff(fmt.Sprintf("fetch of %q in %d..%d, reverse %t", key, from, to, reverse), got, want))
}

// scan compares a scan, which may write to the store after each entry: over the entry, behind all
// others, and, once, so far ahead that old rows go out of sight. It does not see any of that.
func (s timedSubject) scan(view timedView, m *storeModel, op StoreOp) error {
	from, to := min(op.at, op.to), max(op.at, op.to)
	if op.at == op.to {
		from, to = math.MinInt64, math.MaxInt64
	}
	want := inSpan(s.entries(*m, from, to, storeKeys...), op.span)
	if op.breakAt > 0 {
		want = want[:min(op.breakAt, len(want))]
	}
	var got []found
	for f, err := range view.scan(op.span, from, to) {
		if err != nil {
			return err
		}
		got = append(got, f)
		if op.writes {
			if err := s.writeBeside(view, m, f, len(got) == 1); err != nil {
				return err
			}
		}
		if len(got) == op.breakAt {
			break
		}
	}
	return diff(fmt.Sprintf("scan in %d..%d", from, to), got, want)
}

func (s timedSubject) writeBeside(view timedView, m *storeModel, f found, ahead bool) error {
	row, v := rowTime{f.from, f.to}, held{value: "written during a scan"}
	if s.layout.Kind == state.WindowKind {
		row, v.time = moment(f.from), max(f.from, m.now+5*storeUnit) // no value is older than its window
	}
	err := errors.Join(s.put(view, m, f.key, row, v), s.put(view, m, "b", moment(m.now), held{value: "behind", time: v.time}))
	if ahead {
		err = errors.Join(err, s.put(view, m, f.key, moment(m.now+5*storeUnit), v))
	}
	return err
}

func (s timedSubject) compare(b state.Bytes, l state.Layout, m storeModel) error {
	const first, last = math.MinInt64, math.MaxInt64
	view := s.view(b, l)
	for _, reverse := range []bool{false, true} {
		got, err := gather(view.scan(state.Range{Reverse: reverse}, first, last), func(f found) found { return f })
		want := inSpan(s.entries(m, first, last, storeKeys...), state.Range{Reverse: reverse})
		if err = errors.Join(err, diff(fmt.Sprintf("all, reverse %t", reverse), got, want)); err != nil {
			return err
		}
	}
	for _, key := range storeKeys {
		if err := s.fetch(view, m, key, first, last, false); err != nil {
			return err
		}
	}
	return nil
}

// compareCompacted compares everything: rows and keys of records are one to one.
func (s timedSubject) compareCompacted(b state.Bytes, l state.Layout, m storeModel) error {
	return s.compare(b, l, m)
}
