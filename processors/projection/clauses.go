package projection

import (
	"fmt"

	"github.com/onceward/onceward/topology"
)

// clauses declares the contract of a projection for its producers.
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

// commandClauses declares the contract of a choice for the producers of its commands.
func commandClauses(node *topology.Node[[]byte, Command]) {
	node.
		Clause(topology.KeyAssumption, "a command is written to every partition of its topic, each of which obeys for itself").
		Clause(topology.IdempotencyKey, "the id of the command; another command under it is a conflict").
		Clause(topology.OnDuplicate, "a command that was decided is answered as repeated and changes nothing").
		Clause(topology.OutOfOrder, "commands are obeyed in the order of their offsets; one that starts from a definition that is not active "+
			"is refused").
		Clause(topology.OnReplay, "a command that was decided is answered as repeated and changes nothing").
		Clause(topology.Retention, "commands and answers are kept for ever")
}

// definedClauses declare the contract for the rows of one definition.
func definedClauses[K, S any](node *topology.Node[K, Row[S]], definition uint16) {
	node.
		Clause(topology.KeyAssumption, "the key is the aggregate and is not null; its rows of all definitions are in the same partition").
		Clause(topology.OnDuplicate, "a row of the version that is there takes its place, and is passed on again if the definition is active").
		Clause(topology.OutOfOrder, fmt.Sprintf("a row below the version that is there is stale and changes nothing. Rows of definition %d are "+
			"held back while another one is active, and a switch to it passes on those that differ, with versions of any height", definition)).
		Clause(topology.Retention, "rows of all definitions are kept for ever")
}

// gapClause declares the reaction to a record with missing versions before it.
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
