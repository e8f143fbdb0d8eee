package peers

import "slices"

// ring is the sorted names of all instances.
type ring []string

const (
	// fullMax is the size up to which everybody watches everybody.
	fullMax = 5
	// reach is how many successors, and how many predecessors, an instance of a larger ring
	// watches.
	reach = 2
)

// newRing returns the ring of the names, whatever their order and how often they come.
func newRing(names ...string) ring {
	r := slices.Clone(names)
	slices.Sort(r)
	return slices.Compact(r)
}

// watches says whether a and b watch each other.
func (r ring) watches(a, b string) bool {
	i, okA := slices.BinarySearch(r, a)
	j, okB := slices.BinarySearch(r, b)
	if !okA || !okB || i == j {
		return false
	}
	d := (j - i + len(r)) % len(r)
	return len(r) <= fullMax || min(d, len(r)-d) <= reach
}

// watchers returns those that watch a, in their order in the ring behind it. This is the order in
// which they fence it.
func (r ring) watchers(a string) []string {
	i, ok := slices.BinarySearch(r, a)
	if !ok {
		return nil
	}
	var out []string
	for d := 1; d < len(r); d++ {
		if b := r[(i+d)%len(r)]; r.watches(a, b) {
			out = append(out, b)
		}
	}
	return out
}
