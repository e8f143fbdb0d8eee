package hangwatch

import (
	"context"
	"maps"
	"slices"

	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/hanging"
)

// answersMax bounds the answers that are kept. A start and a fencing keep one for each transactional
// id, and a failed round one for its own. They are removed once all partitions were found to be free
// of their transactions. Where a topic may not be read, that never happens. The oldest answer makes
// room then: an id whose transaction hangs is not used, so what is needed is among the newest.
const answersMax = 1000

// ending is how the transaction of an answer ended, whatever comes after it; "" if the answer does
// not say it.
func ending(tx broker.Transaction) string {
	switch tx.State {
	case "PrepareCommit", "CompleteCommit":
		return "commit"
	case "PrepareAbort", "CompleteAbort":
		return "abort"
	}
	return ""
}

// decides reports whether an answer says how a transaction ended.
func decides(a broker.Named) bool { return ending(a.Transaction) != "" }

// withAnswer returns the answers with a newer one, unless that tells nothing: it is Empty, or it is
// Ongoing while a commit may be under way. The result is without the answers that the newer one
// replaces or shows to be void.
func withAnswer(answers []broker.Named, n broker.Named, committing bool) []broker.Named {
	tells := n.State != "Empty" && (n.State != "Ongoing" || !committing)
	answers = slices.DeleteFunc(answers, func(a broker.Named) bool {
		switch same := a.ProducerID == n.ProducerID && a.Epoch == n.Epoch; {
		case a.ProducerID == n.ProducerID && a.Epoch > n.Epoch: // the coordinator has lost what it said
			return true
		case same && decides(a):
			return ending(a.Transaction) == ending(n.Transaction)
		default: // only the newest one about an ongoing transaction tells anything, and none if a commit was sent since
			return a.TransactionalID == n.TransactionalID && !decides(a) && (tells || same && n.State == "Ongoing")
		}
	})
	if tells {
		answers = append(answers, n)
	}
	return answers[max(0, len(answers)-answersMax):]
}

// producerIDs are those that a transactional id had when its coordinator was asked.
func (w *Watch) producerIDs(transactionalID string) map[int64]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	ids := map[int64]bool{}
	for _, a := range w.before {
		if a.TransactionalID == transactionalID {
			ids[a.ProducerID] = true
		}
	}
	return ids
}

// remove removes the answers that no look can need any more. asked are those from before a look to
// which every partition has answered, and open is all that it has found. No partition holds their
// transactions open, and none will: the ids were initialised since, which waits for the markers and
// refuses late records.
func (w *Watch) remove(ctx context.Context, asked []broker.Named, open []hanging.Finding) {
	over := map[broker.Named]bool{}
	ids := map[string]bool{}
	for _, a := range asked {
		if decides(a) && !slices.ContainsFunc(open, func(f hanging.Finding) bool {
			return f.ProducerID == a.ProducerID && int32(f.Epoch) < int32(a.Epoch)
		}) {
			over[a], ids[a.TransactionalID] = true, true
		}
	}
	if len(over) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, describeMax)
	defer cancel()
	now, err := w.cfg.Cluster.Transactions(ctx, slices.Sorted(maps.Keys(ids))...)
	if err != nil {
		w.cfg.Logger.Debug("the answers about last transactions are kept, because not all coordinators have said that they have initialised the ids since", "error", err)
		return
	}
	w.mu.Lock()
	w.before = slices.DeleteFunc(w.before, func(a broker.Named) bool {
		tx, known := now[a.TransactionalID]
		return over[a] && (!known || tx.ProducerID != a.ProducerID || tx.Epoch > a.Epoch)
	})
	w.mu.Unlock()
	w.keep()
}
