package inbox

import "github.com/onceward/onceward/topology"

// clauses say for the consumer contract what an inbox with these settings is. Its horizon is declared apart.
func clauses[K, V any](node *topology.Node[K, V], set *settings, global bool) {
	node.Clause(topology.IdempotencyKey, "the id that is read off each record; with another payload it is a conflict").
		Clause(topology.OnDuplicate, "the same id with the same payload is counted and has no effect")
	if global {
		node.Clause(topology.KeyAssumption, "none: copies of a record may have any key, and be in any partition")
	} else {
		node.Clause(topology.KeyAssumption, "the copies of a record have the same key")
	}
	if set.allowMissing {
		node.Clause(topology.OnDuplicate, "a record without an id is processed as often as it comes")
	}
	if set.retention.of == 0 {
		node.Clause(topology.Retention, "ids are kept without a limit")
	} else {
		node.Clause(topology.OutOfOrder, "a record that is older than what is known is late, and not taken for new")
	}
}
