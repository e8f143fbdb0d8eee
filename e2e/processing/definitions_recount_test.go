//go:build unix

package processing

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
)

// headerEvent is on every event, and so on whatever is made of one.
const headerEvent = "event"

// servedRow is a row of a key, as it was read from a topic.
type servedRow struct {
	key     string
	version int64
	sum     definedSum
	// command says that a command has passed it on, and no event.
	command bool
}

func (a servedRow) String() string {
	return fmt.Sprintf("%s@%d=%d of definition %d", a.key, a.version, a.sum.Sum, a.sum.Definition)
}

// readRows reads the rows of each partition.
func readRows(partitions [][]*kgo.Record) ([][]servedRow, error) {
	all := make([][]servedRow, len(partitions))
	for p, records := range partitions {
		for _, r := range records {
			var v sumRow
			if err := json.Unmarshal(r.Value, &v); err != nil {
				return nil, fmt.Errorf("%s[%d]@%d: %w", r.Topic, p, r.Offset, err)
			}
			event := slices.ContainsFunc(r.Headers, func(h kgo.RecordHeader) bool { return h.Key == headerEvent })
			all[p] = append(all[p], servedRow{string(r.Key), v.Version, v.Value, !event})
		}
	}
	return all, nil
}

// amounts are the amounts of each key, in the order of their versions.
type amounts map[string][]int64

// sum is what a definition comes to with the first amounts of a key.
func (f amounts) sum(definition uint16, key string, version int64) (definedSum, bool) {
	if version < 1 || version > int64(len(f[key])) {
		return definedSum{}, false
	}
	s := definedSum{Definition: definition}
	for _, amount := range f[key][:version] {
		if definition == secondDefinition {
			amount *= amount
		}
		s.Sum += amount
	}
	return s, true
}

// check holds what was served against the facts: in each partition the definitions have answered
// one after the other, each of them for all keys, and in the end everything was.
func (f amounts) check(served [][]servedRow, definitions ...uint16) error {
	last := map[string]int64{}
	for p, rows := range served {
		at, err := f.follow(rows, definitions)
		if err != nil {
			return fmt.Errorf("partition %d: %w", p, err)
		}
		maps.Copy(last, at)
	}
	for _, key := range slices.Sorted(maps.Keys(f)) {
		if want := int64(len(f[key])); last[key] != want {
			return fmt.Errorf("key %s was served up to version %d, want %d", key, last[key], want)
		}
	}
	return nil
}

// follow goes through the rows of one partition, and returns how far each key has come.
func (f amounts) follow(rows []servedRow, definitions []uint16) (at map[string]int64, err error) {
	at = map[string]int64{}
	owed := map[string]bool{} // by the definition that has just begun
	turn := 0
	for i, r := range rows {
		wrong := func(format string, args ...any) (map[string]int64, error) {
			return nil, fmt.Errorf("row %d, %s: %s", i, r, fmt.Sprintf(format, args...))
		}
		definition := r.sum.Definition
		if definition != definitions[turn] {
			if turn+1 == len(definitions) || definition != definitions[turn+1] || len(at) == 0 {
				return wrong("definition %d is the active one", definitions[turn])
			}
			if len(owed) > 0 {
				return wrong("definition %d has not answered for %d keys", definitions[turn], len(owed))
			}
			turn++
			for key := range at {
				owed[key] = true
			}
		}
		want, ok := f.sum(definition, r.key, r.version)
		switch {
		case !ok || r.sum != want:
			return wrong("want %d", want.Sum)
		case r.command && !owed[r.key]:
			return wrong("it is no part of a switch")
		case r.command && r.version < at[r.key]:
			return wrong("version %d was served before", at[r.key])
		case r.command:
			delete(owed, r.key)
		case len(owed) > 0:
			return wrong("the definition has not answered for %d keys that were served before", len(owed))
		case r.version != at[r.key]+1:
			return wrong("it follows version %d", at[r.key])
		}
		at[r.key] = r.version
	}
	if turn != len(definitions)-1 || len(owed) > 0 {
		return nil, fmt.Errorf("%d of %d switches were seen, and the last definition has not answered for %d keys", turn, len(definitions)-1,
			len(owed))
	}
	return at, nil
}
