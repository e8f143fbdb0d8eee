package task

import "github.com/onceward/onceward/topology/graph"

// outcome names what is counted.
type outcome struct{ node, name string }

// count adds an outcome up. Most records have the outcomes of the record before, in the same order:
// they are found without a search.
func (c *Contribution) count(n *graph.OutcomeCount) {
	at := c.countAt
	if at >= len(c.Counts) || c.Counts[at].Node != n.Node || c.Counts[at].Outcome != n.Outcome {
		at = c.placeOf(n)
	}
	c.Counts[at].N += n.N
	if c.countAt = at + 1; c.countAt == len(c.Counts) {
		c.countAt = 0
	}
}

// placeOf returns the index of an outcome in Counts, which has it from then on.
func (c *Contribution) placeOf(n *graph.OutcomeCount) int {
	key := outcome{n.Node, n.Outcome}
	at, ok := c.countOf[key]
	if !ok {
		if c.countOf == nil {
			c.countOf = map[outcome]int{}
		}
		at = len(c.Counts)
		c.countOf[key] = at
		c.Counts = append(c.Counts, graph.OutcomeCount{Node: n.Node, Outcome: n.Outcome})
	}
	return at
}
