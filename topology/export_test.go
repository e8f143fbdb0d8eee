package topology

import "github.com/onceward/onceward/topology/graph"

// SetAgendaMax changes how many parked keys an agenda keeps, and returns what changes it back.
func SetAgendaMax(n int) (reset func()) {
	before := agendaMax
	agendaMax = n
	return func() { agendaMax = before }
}

// Planned returns how many appointments with parked keys the graph holds.
func (g *Graph) Planned() (n int) {
	for i := range g.sources {
		if p := g.sources[i].parking; p != nil {
			n += len(p.agenda.appointments)
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
