package ledger

import "github.com/onceward/onceward/topology"

// clauses say for the consumer contract what a ledger is.
func clauses[K, V any](node *topology.Node[K, V]) {
	node.Clause(topology.KeyAssumption, "the key is the ledger: all its contributions have it").
		Clause(topology.IdempotencyKey, "the ledger and the contribution id; with other amounts it is a conflict").
		Clause(topology.OnDuplicate, "the same contribution is counted and changes no balance").
		Clause(topology.OutOfOrder, "sums do not depend on the order; a correction comes after what it corrects").
		Clause(topology.Retention, "contributions are kept without a limit")
}
