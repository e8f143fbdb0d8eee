package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

type key struct{ file, rule string }

// A baseline is the number of errors that is allowed per file and rule.
type baseline map[key]int

// count returns the numbers of errors.
func count(found []finding) baseline {
	b := baseline{}
	for _, f := range found {
		if f.level == "error" {
			b[key{f.file, f.rule}]++
		}
	}
	return b
}

// compare returns where there are more errors than the baseline allows, and how many fewer there
// are elsewhere.
func (b baseline) compare(now baseline) (raised map[key]bool, fewer int) {
	raised = map[key]bool{}
	for k, n := range now {
		if n > b[k] {
			raised[k] = true
		}
	}
	for k, n := range b {
		fewer += max(0, n-now[k])
	}
	return raised, fewer
}

// lowered returns the baseline with no number above that of now.
func (b baseline) lowered(now baseline) baseline {
	low := baseline{}
	for k, n := range b {
		if n = min(n, now[k]); n > 0 {
			low[k] = n
		}
	}
	return low
}

func sorted[V any](m map[key]V) []key {
	return slices.SortedFunc(maps.Keys(m), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.rule, b.rule))
	})
}

func readBaseline(path string) (baseline, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	b := baseline{}
	for i, line := range strings.Split(string(text), "\n") {
		if line == "" {
			continue
		}
		var k key
		var n int
		if _, err := fmt.Sscanf(line, "%s %s %d", &k.file, &k.rule, &n); err != nil || n < 1 || b[k] > 0 {
			return nil, fmt.Errorf("%s:%d: %q is not a file, a rule and a number, once", path, i+1, line)
		}
		b[k] = n
	}
	return b, nil
}

func (b baseline) write(path string) error {
	var text strings.Builder
	for _, k := range sorted(b) {
		fmt.Fprintf(&text, "%s %s %d\n", k.file, k.rule, b[k])
	}
	return os.WriteFile(path, []byte(text.String()), 0o644)
}
