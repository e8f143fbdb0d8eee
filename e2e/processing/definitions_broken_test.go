//go:build unix

package processing

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/onceward/onceward/processors/projection"
	"github.com/onceward/onceward/topology"
)

// choiceMemory is what a broken choice keeps beside its stores, by partition. It is safe for
// concurrent use.
type choiceMemory struct {
	mu     sync.Mutex
	active map[int32]uint16
	rows   map[definedAt]map[string]sumRow
}

// definedAt is where the rows of a definition are.
type definedAt struct {
	partition  int32
	definition uint16
}

// keep notes a row, and reports whether its definition is the active one.
func (m *choiceMemory) keep(at definedAt, key string, r sumRow) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.rows[at] == nil {
		m.rows[at] = map[string]sumRow{}
	}
	m.rows[at][key] = r
	active, switched := m.active[at.partition]
	return switched && at.definition == active || !switched && at.definition == firstDefinition
}

// ready reports whether a definition has all that another one has.
func (m *choiceMemory) ready(partition int32, from, to uint16) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, r := range m.rows[definedAt{partition, from}] {
		if m.rows[definedAt{partition, to}][key].Version < r.Version {
			return false
		}
	}
	return true
}

// turn makes a definition the active one, and returns its rows.
func (m *choiceMemory) turn(to definedAt) map[string]sumRow {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.active[to.partition] = to.definition
	return maps.Clone(m.rows[to])
}

// chooseInMemory is a choice that keeps the active definition and the rows of the others only in
// its process.
func chooseInMemory(commands topology.Stream[[]byte, projection.Command], first, second sumRows) (
	served sumRows, answers topology.Stream[[]byte, projection.Answer],
) {
	m := &choiceMemory{active: map[int32]uint16{}, rows: map[definedAt]map[string]sumRow{}}
	passed := make([]sumRows, 2)
	for i, of := range []sumRows{first, second} {
		definition := uint16(i + 1)
		passed[i] = of.Filter(fmt.Sprint("broken-", definition), func(r topology.Record[string, sumRow]) (bool, error) {
			_, partition, _ := r.Source()
			return m.keep(definedAt{partition, definition}, r.Key, r.Value), nil
		})
	}
	node := topology.Stateful(commands, "broken")
	switched := topology.Outlet[string, sumRow](node, "changes")
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
				all := m.turn(definedAt{partition, r.Value.To})
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
