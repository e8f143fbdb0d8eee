package hangwatch

import (
	"slices"

	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/hanging"
)

// answersMax bounds the answers that are kept. A start and a fencing keep one for each transactional
// id, and a failed round one for its own. They are removed once all partitions were found to be free
// of their transactions. Where a topic may not be read, that never happens.
const answersMax = 1000

// decides reports whether an answer says how a transaction ended.
func decides(a broker.Named) bool { return hanging.EndOf(a.Transaction) != hanging.Unknown }

// withAnswer returns the answers with a newer one, unless that tells nothing: it is Empty, or it is
// Ongoing while a commit may be under way. The result is without the answers that the newer one
// replaces or shows to be void.
func withAnswer(answers []broker.Named, n broker.Named, committing bool) []broker.Named {
	tells := n.State != "Empty" && (n.State != "Ongoing" || !committing)
	again := tells && slices.Contains(answers, n) // it stays where it is, and nothing has to be stored
	answers = slices.DeleteFunc(answers, func(a broker.Named) bool {
		switch same := a.ProducerID == n.ProducerID && a.Epoch == n.Epoch; {
		case again && a == n:
			return false
		case a.ProducerID == n.ProducerID && a.Epoch > n.Epoch: // the coordinator has lost what it said
			return true
		case same && decides(a):
			return hanging.EndOf(a.Transaction) == hanging.EndOf(n.Transaction)
		default: // only the newest one about an ongoing transaction tells anything, and none if a commit was sent since
			return a.TransactionalID == n.TransactionalID && !decides(a) && (tells || same && n.State == "Ongoing")
		}
	})
	if tells && !again {
		answers = append(answers, n)
	}
	return answers
}

// bounded leaves answersMax answers, and more only if findings need them. The id with the most
// answers loses its oldest one. An id that is not used because a transaction of it hangs gets no
// newer answers, so those about it are the last to go.
func bounded(answers []broker.Named, found []hanging.Finding) []broker.Named {
	for len(answers) > answersMax {
		of := map[string]int{}
		for _, a := range answers {
			of[a.TransactionalID]++
		}
		evicted := -1
		for i, a := range answers {
			if !needed(a, found) && (evicted < 0 || of[a.TransactionalID] > of[answers[evicted].TransactionalID]) {
				evicted = i
			}
		}
		if evicted < 0 {
			break
		}
		answers = slices.Delete(answers, evicted, evicted+1)
	}
	return answers
}

// needed reports whether an answer may be about a transaction that hangs.
func needed(a broker.Named, found []hanging.Finding) bool {
	return slices.ContainsFunc(found, func(f hanging.Finding) bool {
		return f.ProducerID == a.ProducerID && (a.Epoch == f.Epoch || int32(a.Epoch) == int32(f.Epoch)+1)
	})
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
