package ledger

import (
	"fmt"

	"github.com/onceward/onceward/processors/internal/payload"
	"github.com/onceward/onceward/topology"
)

// clauses say for the consumer contract what a ledger with these settings is.
func clauses[K, V any](node *topology.Node[K, V], set *settings) {
	conflict := "; with other amounts, or about another contribution, it is a conflict, which "
	if set.comparesPayload {
		conflict = "; with other amounts, about another contribution, or with another payload, it is a conflict, which "
	}
	if set.emitsConflicts {
		conflict += "goes to a stream of its own"
	} else {
		conflict += "fails"
	}
	order := "sums do not depend on the order; a correction or reversal comes after what it names, and fails before"
	if w := set.windows; w == (Windows{}) {
		node.Clause(topology.KeyAssumption, "the key is the ledger: all its contributions have it").
			Clause(topology.IdempotencyKey, "the ledger and the contribution id"+conflict).
			Clause(topology.Retention, "contributions are kept without a limit")
	} else {
		at, windows := "timestamp", fmt.Sprintf("windows of %s that follow each other", w.Size)
		moved := "a copy with another time may be in another window, and is another contribution there"
		if set.eventTime != nil {
			at = "event time"
		}
		if w.step() > 0 {
			windows = fmt.Sprintf("windows of %s that begin every %s", w.Size, w.Advance)
			moved = "a copy with a time that is in other windows fails"
		}
		order += "; windows do not close, so that whatever comes late counts"
		node.Clause(topology.KeyAssumption, "the key in a window is the ledger ("+windows+"): all its contributions have it, and copies have "+
			"the same "+at).
			Clause(topology.IdempotencyKey, "the ledger, which is a key in a window, and the contribution id"+conflict).
			Clause(topology.OnDuplicate, moved).
			Clause(topology.Retention, "contributions are kept without a limit, those of all windows")
	}
	if compared := payload.Clause(set.payload); compared != "" {
		node.Clause(topology.OnDuplicate, compared)
	}
	node.Clause(topology.OnDuplicate, "the same contribution is counted and changes no balance; a second reversal of the same contribution is "+
		"a conflict").
		Clause(topology.OutOfOrder, order).
		Clause(topology.OnReplay, "what was posted is a duplicate and changes no balance")
}
