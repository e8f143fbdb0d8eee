package yamldoc

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// Mapping is a value with keys. The zero Mapping has none.
type Mapping struct {
	value   Value
	entries []Entry
	// meant are the known keys that an unknown one was probably meant to be: one mistake is enough
	// for both.
	meant []string
}

// Entry is one key of a mapping with its value.
type Entry struct {
	Key string
	// KeyPosition is where the key is.
	KeyPosition Position
	Value       Value
}

// Mapping returns the value as a mapping. Keys other than the known ones are mistakes, and repeated
// ones are; with no known ones every key is allowed.
func (v Value) Mapping(known ...string) Mapping {
	m := Mapping{value: v}
	n, ok := v.node.(*ast.MappingNode)
	if !ok {
		if v.node != nil {
			v.wrongKind("a mapping (key: value)")
		}
		return m
	}
	seen := map[string]Position{}
	for _, pair := range n.Values {
		at := v.file.position(pair.Key)
		key, ok := v.key(pair.Key, at)
		if !ok {
			continue
		}
		if first, repeated := seen[key]; repeated {
			v.mistakeAt(at, "key %q is there twice, first in line %d; keep one", key, first.Line)
			continue
		}
		seen[key] = at
		if len(known) > 0 && !slices.Contains(known, key) {
			v.mistakeAt(at, "unknown key %q; %s", key, suggestion(key, known))
			m.meant = append(m.meant, closest(key, known))
			continue
		}
		path := key
		if v.path != "" {
			path = v.path + "." + key
		}
		m.entries = append(m.entries, Entry{Key: key, KeyPosition: at, Value: v.child(pair.Value, path)})
	}
	return m
}

func (v Value) key(node ast.MapKeyNode, at Position) (string, bool) {
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.MergeKeyNode:
		v.mistakeAt(at, "merge keys are not supported; write the values out")
	default:
		v.mistakeAt(at, "a key must be text and is %s", kindOf(node))
	}
	return "", false
}

// Entries returns the entries in the order of the file.
func (m Mapping) Entries() []Entry { return m.entries }

// Optional returns the value of a key. It is missing if the key is.
func (m Mapping) Optional(key string) Value {
	for _, e := range m.entries {
		if e.Key == key {
			return e.Value
		}
	}
	path := key
	if m.value.path != "" {
		path = m.value.path + "." + key
	}
	return Value{file: m.value.file, path: path, at: m.value.at}
}

// Required returns the value of a key, and notes a mistake if the key is missing. hint says what to
// write, where the name of the key alone does not.
func (m Mapping) Required(key string, hint ...string) Value {
	v := m.Optional(key)
	if m.value.IsMapping() && !v.Present() && !slices.Contains(m.meant, key) {
		m.value.Mistake("%s", strings.Join(append([]string{fmt.Sprintf("the key %q is missing", key)}, hint...), "; "))
	}
	return v
}

// suggestion says what could have been meant by word: the closest of known, or else all of them.
func suggestion(word string, known []string) string {
	if k := closest(word, known); k != "" {
		return "did you mean " + strconv.Quote(k) + "?"
	}
	return "possible: " + strings.Join(known, ", ")
}

// closest returns the word of known that differs least, empty if all differ too much.
func closest(word string, known []string) string {
	best, limit := "", len([]rune(word))/3
	for _, k := range known {
		if d := editDistance(strings.ToLower(word), k); d <= limit {
			best, limit = k, d-1
		}
	}
	return best
}

// editDistance returns how many characters have to be inserted, deleted, replaced or swapped with
// their neighbour to make a into b.
func editDistance(a, b string) int {
	from, to := []rune(a), []rune(b)
	rows := make([][]int, len(from)+1)
	for i := range rows {
		rows[i] = make([]int, len(to)+1)
		rows[i][0] = i
	}
	for j := range to {
		rows[0][j+1] = j + 1
	}
	for i := range from {
		for j := range to {
			cost := 1
			if from[i] == to[j] {
				cost = 0
			}
			d := min(rows[i][j]+cost, rows[i][j+1]+1, rows[i+1][j]+1)
			if i > 0 && j > 0 && from[i] == to[j-1] && from[i-1] == to[j] {
				d = min(d, rows[i-1][j-1]+1)
			}
			rows[i+1][j+1] = d
		}
	}
	return rows[len(from)][len(to)]
}
