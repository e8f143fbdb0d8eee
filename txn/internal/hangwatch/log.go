package hangwatch

import (
	"slices"

	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/hanging"
	"github.com/onceward/onceward/txn/internal/waits"
)

// missing returns the findings of old that are not in now.
func missing(old, now []hanging.Finding) []hanging.Finding {
	return slices.DeleteFunc(slices.Clone(old), func(f hanging.Finding) bool {
		return slices.ContainsFunc(now, func(n hanging.Finding) bool { return n.ProducerID == f.ProducerID && n.Epoch == f.Epoch })
	})
}

// unreadable reports whether the transaction was open in a topic that may not be read now.
func unreadable(f hanging.Finding, unread error) bool {
	denied := hanging.DeniedTopics(unread)
	return slices.ContainsFunc(f.Open, func(open broker.OpenTransaction) bool { return slices.Contains(denied, open.Topic) })
}

// same returns whether another finding is of the same transaction in the same partitions.
func same(a hanging.Finding) func(hanging.Finding) bool {
	return func(b hanging.Finding) bool {
		return a.ProducerID == b.ProducerID && a.Epoch == b.Epoch && slices.Equal(a.Partitions(), b.Partitions())
	}
}

// attributes describe a finding in the log.
func attributes(f hanging.Finding) []any {
	id, state := "", "unknown"
	if f.Named != nil {
		id, state = f.Named.TransactionalID, f.Named.State
	}
	out := []any{"producer_id", f.ProducerID, "epoch", f.Epoch, "transactional_id", id, "coordinator", state, "partitions", f.Partitions()}
	if len(f.Decision.Reasons) > 0 {
		out = append(out, "verdict", f.Decision.Verdict.String(), "reasons", f.Decision.Reasons)
	}
	return out
}

// tell takes what hangs now, and logs what is new.
func (w *Watch) tell(found []hanging.Finding) {
	w.mu.Lock()
	before := w.found
	w.found = found
	w.mu.Unlock()
	for _, f := range found {
		if !slices.ContainsFunc(before, same(f)) {
			w.cfg.Logger.Warn("a transaction of the application hangs: nothing ends it, and readers of its partitions wait for it",
				append(attributes(f), "remedy", waits.Remedy)...)
		}
	}
	for _, f := range before {
		if !slices.ContainsFunc(found, same(f)) {
			w.cfg.Logger.Info("a transaction hangs no more, or in fewer partitions", attributes(f)...)
		}
	}
}

// tellUnread says once which topics are not looked at.
func (w *Watch) tellUnread(err error) {
	w.mu.Lock()
	told := w.unread
	w.unread = oneLine(err)
	w.mu.Unlock()
	if err != nil && told == "" {
		w.cfg.Logger.Warn("transactions that hang are not found in topics that may not be read", "reason", oneLine(err),
			"remedy", "onceward permissions --repair")
	}
}
