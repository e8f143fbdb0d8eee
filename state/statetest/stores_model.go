package statetest

import (
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"

	"github.com/onceward/onceward/state"
)

// storeModel is what a typed store holds, by key and time, and its stream time. Nothing in it ever
// expires; what can be seen is for the subject to say.
type storeModel struct {
	now  int64
	keys map[string]map[rowTime]held
}

// rowTime tells the rows of one key apart. Only sessions begin before the time that they go by. Of
// a value of a series start is its number.
type rowTime struct{ start, at int64 }

// moment is the time of a row that is no session.
func moment(at int64) rowTime { return rowTime{at, at} }

// held is what a row holds.
type held struct {
	value string
	// time is what a window keeps with its value.
	time int64
	// deleted is a version that says so.
	deleted bool
}

func (m storeModel) clone() storeModel {
	c := storeModel{now: m.now, keys: make(map[string]map[rowTime]held, len(m.keys))}
	for key, rows := range m.keys {
		c.keys[key] = maps.Clone(rows)
	}
	return c
}

func (m *storeModel) set(key string, at rowTime, v held) {
	if m.keys == nil {
		m.keys = map[string]map[rowTime]held{}
	}
	if m.keys[key] == nil {
		m.keys[key] = map[rowTime]held{}
	}
	m.keys[key][at] = v
}

// only makes a row the only one of its key.
func (m *storeModel) only(key string, at rowTime, v held) {
	delete(m.keys, key)
	m.set(key, at, v)
}

// newest is the time of the last row of a key that begins at most at t.
func newest(rows map[rowTime]held, t int64) (at int64, ok bool) {
	at = math.MinInt64
	for row := range rows {
		if row.at <= t && row.at > at {
			at, ok = row.at, true
		}
	}
	return at, ok
}

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

// textCodec keeps the bytes as they are.
type textCodec struct{}

func (textCodec) Append(dst []byte, v string) ([]byte, error) { return append(dst, v...), nil }
func (textCodec) Decode(b []byte) (string, error)             { return string(b), nil }
