package flights

import (
	"errors"
	"fmt"
	"slices"
)

// reportMax bounds what one check says: a fault that hits one record tends to hit all that follow.
const reportMax = 10

// report collects differences.
type report struct {
	subject string
	total   int
	first   []error
}

func (r *report) add(format string, args ...any) {
	r.total++
	if len(r.first) < reportMax {
		r.first = append(r.first, fmt.Errorf(format, args...))
	}
}

// err returns what was collected, nil if there is nothing.
func (r *report) err() error {
	if r.total == 0 {
		return nil
	}
	return fmt.Errorf("%s: %d differences, the first of them:\n%w", r.subject, r.total, errors.Join(r.first...))
}

// sequence compares the records of each partition with those expected, in their order. The function
// differs returns how a record differs from what is expected in its place, or "".
func sequence[E, R any](
	r *report, want [][]E, got [][]R, differs func(partition int32, want E, got R) string,
) {
	if len(got) != len(want) {
		r.add("%d partitions, not %d", len(got), len(want))
		return
	}
	for p := range want {
		if len(got[p]) != len(want[p]) {
			r.add("partition %d has %d records, not %d", p, len(got[p]), len(want[p]))
		}
		for i := range min(len(want[p]), len(got[p])) {
			if difference := differs(int32(p), want[p][i], got[p][i]); difference != "" {
				r.add("partition %d, record %d: %s", p, i, difference)
				break // one record too few or too many shifts all that follow
			}
		}
	}
}

// checkMap compares maps, in the order of their keys.
func checkMap[V comparable](r *report, want, got map[string]V) {
	for _, key := range sortedKeys(want, got) {
		w, wanted := want[key]
		g, found := got[key]
		switch {
		case !found:
			r.add("%s is missing, it should be %+v", key, w)
		case !wanted:
			r.add("%s should not be there, it is %+v", key, g)
		case w != g:
			r.add("%s is %+v, not %+v", key, g, w)
		}
	}
}

func sortedKeys[V any](maps ...map[string]V) []string {
	var keys []string
	for _, m := range maps {
		for key := range m {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}
