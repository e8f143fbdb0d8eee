package transition

import "github.com/onceward/onceward/topology"

// clauses declares the contract of a guard for its producers.
func clauses[K, V any](node *topology.Node[K, V], set *settings) {
	order := "a transition that comes before its time is refused as out-of-order or missing-aggregate, and one that " +
		"comes late as stale; " + set.fates()
	if set.versioned {
		order += "; versions decide"
	}
	node.
		Clause(topology.KeyAssumption, "the key is the aggregate and is not null; all records of a key are in one partition").
		Clause(topology.IdempotencyKey, "the id of the transition within its aggregate").
		Clause(topology.OnDuplicate, "a transition that was accepted is counted and changes nothing; its id with other "+
			"states or another version is refused as corruption").
		Clause(topology.OutOfOrder, order).
		Clause(topology.OnReplay, "an accepted transition is a duplicate and has no second fact; a refused one is judged again").
		Clause(topology.Retention, "accepted transitions are kept for ever")
}

// fates says which refusals fail, and which go to streams of their own.
func (s *settings) fates() string {
	var fail, emitted []Refusal
	for _, r := range failing {
		if s.emits[r] {
			emitted = append(emitted, r)
		} else {
			fail = append(fail, r)
		}
	}
	switch {
	case len(emitted) == 0:
		return "a refused transition fails, unless it is a duplicate"
	case len(fail) == 0:
		return "refused transitions go to streams of their own"
	}
	return "refused transitions that are " + textsOf(emitted) + " go to streams of their own, and those that are " + textsOf(fail) + " fail"
}
