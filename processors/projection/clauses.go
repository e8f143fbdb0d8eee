package projection

import (
	"fmt"

	"github.com/onceward/onceward/topology"
)

// clauses says what a projection promises to those who feed it.
func clauses[K, V any](node *topology.Node[K, V], set *settings) {
	key := "the version of the record within its key"
	if set.incarnation != nil {
		key = "incarnation and version of the record within its key"
	}
	node.
		Clause(topology.KeyAssumption, "the key is the aggregate and is not null; all records of a key are in one partition").
		Clause(topology.IdempotencyKey, key).
		Clause(topology.OnDuplicate, "a version that was applied, or waits, is counted and changes nothing; payloads are "+
			"not compared").
		Clause(topology.OutOfOrder, "a version below that of the row is stale and changes nothing; "+set.gapClause()).
		Clause(topology.OnReplay, "what was applied is stale or a duplicate and changes nothing").
		Clause(topology.Retention, "rows are kept for ever, those of deleted aggregates included")
}

// gapClause says what becomes of a record before which versions are missing.
func (s *settings) gapClause() string {
	switch {
	case s.sparse:
		return "any higher one is applied"
	case s.limits != nil:
		text := fmt.Sprintf("one before which versions are missing waits for them, with at most %d of its key", s.limits.Records)
		if s.limits.StreamTime > 0 {
			text += fmt.Sprintf(", %s of stream time", s.limits.StreamTime)
		}
		if s.limits.WallClock > 0 {
			text += fmt.Sprintf(", %s by the clock", s.limits.WallClock)
		}
		if s.repairs {
			text += ", and they are asked for"
		}
		if s.limits.Then == AcceptLatest {
			return text + "; after that it is applied without them"
		}
		return text + "; after that it is abandoned"
	case s.onGap == AcceptLatest:
		return "one before which versions are missing is applied without them"
	}
	return "one before which versions are missing fails"
}
