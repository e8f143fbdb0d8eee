package statetest

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/onceward/onceward/state"
)

// content is what one store holds, by key.
type content map[string]string

// stores is what a database holds, by store name.
type stores map[string]content

func (s stores) clone() stores {
	c := make(stores, len(s))
	for name, content := range s {
		c[name] = maps.Clone(content)
	}
	return c
}

func (s stores) store(name string) content {
	if s[name] == nil {
		s[name] = make(content)
	}
	return s[name]
}

// set carries out one change; nil is a delete.
func (s stores) set(name, key string, value *string) {
	if value == nil {
		delete(s.store(name), key)
	} else {
		s.store(name)[key] = *value
	}
}

// entry is one key and value as strings.
type entry struct{ key, value string }

// in returns the entries of a range in the order of a scan.
func (c content) in(r state.Range) []entry {
	var entries []entry
	for _, key := range slices.Sorted(maps.Keys(c)) {
		// Spelled out instead of r.Contains, which is under test.
		if key >= string(r.From) && (r.To == nil || key < string(r.To)) {
			entries = append(entries, entry{key, c[key]})
		}
	}
	if r.Reverse {
		slices.Reverse(entries)
	}
	return entries
}

// change is the last write of one key in one round; a nil value is a delete.
type change struct {
	store, key string
	value      *string
}

// changes are the coalesced writes of one round.
type changes map[[2]string]*string

// layer is the model of one frozen layer, beside the real one.
type layer struct {
	changes changes
	real    *state.Layer
	applied bool
}

// model is what a task must look like from outside.
type model struct {
	committed stores
	positions state.Positions
	frozen    []*layer
	open      changes
	// saved is the open round at the last mark, nil before the first one.
	saved changes
}

func newModel() *model {
	return &model{committed: make(stores), open: make(changes)}
}

// visible is what the owner of the task reads.
func (m *model) visible() stores {
	s := m.committed.clone()
	for _, l := range m.frozen {
		l.changes.apply(s)
	}
	m.open.apply(s)
	return s
}

func (c changes) apply(s stores) {
	for at, value := range c {
		s.set(at[0], at[1], value)
	}
}

// sorted returns the changes in the order that Layer.Writes promises.
func (c changes) sorted() []change {
	list := make([]change, 0, len(c))
	for at, value := range c {
		list = append(list, change{store: at[0], key: at[1], value: value})
	}
	slices.SortFunc(list, func(a, b change) int {
		if x, y := state.IDOf(a.store), state.IDOf(b.store); x != y {
			if x < y {
				return -1
			}
			return 1
		}
		return bytes.Compare([]byte(a.key), []byte(b.key))
	})
	return list
}

// compareReader reports the first difference between what r holds and want, through scans in both
// directions and through a Get of every key in want and in absent.
func compareReader(r state.Reader, want stores, names []string, absent ...string) error {
	for _, name := range names {
		id := state.IDOf(name)
		for _, reverse := range []bool{false, true} {
			got, err := collect(r.Scan(id, state.Range{Reverse: reverse}), nil)
			if err != nil {
				return fmt.Errorf("scan %s: %w", name, err)
			}
			if diff := diffEntries(got, want[name].in(state.Range{Reverse: reverse})); diff != "" {
				return fmt.Errorf("scan %s (reverse %t): %s", name, reverse, diff)
			}
		}
		for key, value := range want[name] {
			if err := expectGet(r, name, key, &value); err != nil {
				return err
			}
		}
		for _, key := range absent {
			if _, has := want[name][key]; !has {
				if err := expectGet(r, name, key, nil); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func expectGet(r state.Reader, name, key string, want *string) error {
	value, ok, err := r.Get(state.IDOf(name), []byte(key))
	if err != nil {
		return fmt.Errorf("get %q from %s: %w", key, name, err)
	}
	return diffGet(name, key, value, ok, want)
}

func diffGet(name, key string, value []byte, ok bool, want *string) error {
	switch {
	case want == nil && ok:
		return fmt.Errorf("get %q from %s: got %q, want nothing", key, name, value)
	case want == nil && value != nil:
		return fmt.Errorf("get %q from %s: an absent key has the value %q", key, name, value)
	case want != nil && !ok:
		return fmt.Errorf("get %q from %s: got nothing, want %q", key, name, *want)
	case want != nil && value == nil:
		return fmt.Errorf("get %q from %s: got nil for a present key", key, name)
	case want != nil && string(value) != *want:
		return fmt.Errorf("get %q from %s: got %q, want %q", key, name, value, *want)
	}
	return nil
}

func diffEntries(got, want []entry) string {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Sprintf("entry %d is %q, want %q", i, got[i], want[i])
		}
	}
	if len(got) != len(want) {
		return fmt.Sprintf("got %d entries, want %d", len(got), len(want))
	}
	return ""
}
