package definitions

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/onceward/onceward/processors/projection"
	"github.com/onceward/onceward/topology"
)

// Broken is a way to break what the check looks at.
type Broken string

// The ways.
const (
	// Whole is not broken.
	Whole Broken = ""
	// KeepsInMemory chooses by what the process has met: right, until it is killed.
	KeepsInMemory Broken = "keeps-in-memory"
)

// memory is what a broken choice keeps beside its stores, by partition. It is safe for concurrent use.
type memory struct {
	mu     sync.Mutex
	active map[int32]uint16
	rows   map[place]map[string]row
}

// place is where the rows of a definition are.
type place struct {
	partition  int32
	definition uint16
}

// keep notes a row, and reports whether its definition is the active one.
func (m *memory) keep(at place, key string, r row) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.rows[at] == nil {
		m.rows[at] = map[string]row{}
	}
	m.rows[at][key] = r
	active, switched := m.active[at.partition]
	return switched && at.definition == active || !switched && at.definition == First
}

// ready reports whether a definition has all that another one has.
func (m *memory) ready(partition int32, from, to uint16) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, r := range m.rows[place{partition, from}] {
		if m.rows[place{partition, to}][key].Version < r.Version {
			return false
		}
	}
	return true
}

// turn makes a definition the active one, and returns its rows.
func (m *memory) turn(to place) map[string]row {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.active[to.partition] = to.definition
	return maps.Clone(m.rows[to])
}

// chooseInMemory is a choice that forgets with its process which definition is the active one, and what the others have.
func chooseInMemory(commands topology.Stream[[]byte, projection.Command], first, second rows) (
	served rows, answers topology.Stream[[]byte, projection.Answer],
) {
	m := &memory{active: map[int32]uint16{}, rows: map[place]map[string]row{}}
	passed := make([]rows, 2)
	for i, of := range []rows{first, second} {
		definition := uint16(i + 1)
		passed[i] = of.Filter(fmt.Sprint("broken-", definition), func(r topology.Record[string, row]) (bool, error) {
			_, partition, _ := r.Source()
			return m.keep(place{partition, definition}, r.Key, r.Value), nil
		})
	}
	node := topology.Stateful(commands, "broken")
	switched := topology.Outlet[string, row](node, "changes")
	answered := topology.Outlet[[]byte, projection.Answer](node, "answers")
	node.Process(func(t *topology.Setup) (topology.Handler[[]byte, projection.Command], error) {
		change, answer := switched.In(t), answered.In(t)
		return func(c *topology.Context, r topology.Record[[]byte, projection.Command]) error {
			_, partition, _ := r.Source()
			a := projection.Answer{Command: r.Value, Outcome: projection.Refused, Active: r.Value.From}
			switch {
			case !m.ready(partition, r.Value.From, r.Value.To):
			case r.Value.Action == projection.Verify:
				a.Outcome = projection.Verified
			default:
				a.Outcome, a.Active = projection.Switched, r.Value.To
				all := m.turn(place{partition, r.Value.To})
				for _, key := range slices.Sorted(maps.Keys(all)) {
					if err := change(c, topology.WithValue(topology.WithKey(r, key), all[key])); err != nil {
						return err
					}
				}
			}
			return answer(c, topology.WithValue(r, a))
		}, nil
	})
	return switched.Stream().Merge("broken-changes", passed...), answered.Stream()
}
