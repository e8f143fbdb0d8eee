package topology

import "github.com/onceward/onceward/topology/graph"

// SetTimerQueueMax changes how many parked keys a timer queue keeps, and returns a function that
// restores the value.
func SetTimerQueueMax(n int) (reset func()) {
	before := timerQueueMax
	timerQueueMax = n
	return func() { timerQueueMax = before }
}

// Planned returns how many timers of parked keys the graph holds.
func (g *Graph) Planned() (n int) {
	for i := range g.sources {
		if p := g.sources[i].parking; p != nil {
			n += len(p.timers.parkedTimers)
		}
	}
	return n
}

// Looks reports whether a record of a key that is not parked would be looked up in the state, were
// it to come now.
func (g *Graph) Looks(key []byte) bool {
	for i := range g.sources {
		if p := g.sources[i].parking; p != nil && p.keys > 0 && p.filter.may(parkedKeyOf(&graph.Input{Key: key})) {
			return true
		}
	}
	return false
}

// CheckPartitions is the check at the end of ResolvePartitions.
func (t *Topology) CheckPartitions(counts map[string]int32) error { return t.checkPartitions(counts) }
