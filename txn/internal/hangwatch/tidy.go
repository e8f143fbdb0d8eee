package hangwatch

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/onceward/onceward/txn/internal/backoff"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/hanging"
)

// Settled takes under which producer ids and epochs ids were initialised, before records are
// produced under them. An answer with a newer epoch is about a transaction that the coordinator has
// lost. Its epoch will be used again for another transaction, so the answer is dropped.
func (w *Watch) Settled(ctx context.Context, producers ...*broker.Producer) {
	now := map[int64]int16{}
	for _, p := range producers {
		if identity, err := p.Identity(); err == nil {
			now[identity.ProducerID] = identity.Epoch
		}
	}
	w.drop(ctx, func(a broker.Named) bool {
		epoch, is := now[a.ProducerID]
		return is && a.Epoch > epoch
	})
}

// drop removes answers from the memory and from the directory.
func (w *Watch) drop(ctx context.Context, which func(broker.Named) bool) {
	w.mu.Lock()
	had := len(w.before)
	w.before = slices.DeleteFunc(w.before, which)
	dropped := had > len(w.before)
	w.mu.Unlock()
	if dropped {
		w.keep(ctx)
	}
}

// Tidy removes the answers that must not be used any more, or that no look can need, until ctx ends.
// It does so after each look, and again later if something did not answer. Neither a start nor the
// end of a membership waits for it.
func (w *Watch) Tidy(ctx context.Context) {
	pause := backoff.Backoff{Next: hangingWatch, Max: readPauseMax}
	for next := readPauseMax; ; {
		timer := time.NewTimer(next)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-w.untidy:
			timer.Stop()
			pause.Next = hangingWatch
		case <-timer.C:
		}
		if next = readPauseMax; !w.tidy(ctx) {
			next, pause.Next = pause.Next, min(2*pause.Next, pause.Max)
		}
	}
}

// tidy asks the coordinators of all answers, and then all partitions. If a coordinator knows an
// older epoch of the producer, the answer is dropped. It is not needed any more if its id was
// initialised since, which waits for the markers and refuses late records, and no partition holds a
// transaction from before its epoch open. The order matters: what is written between a look and the
// initialisation is not seen. tidy reports whether all has answered.
func (w *Watch) tidy(ctx context.Context) bool {
	w.mu.Lock()
	asked := slices.Clone(w.before)
	w.mu.Unlock()
	if len(asked) == 0 {
		return true
	}
	ids := map[string]bool{}
	for _, a := range asked {
		ids[a.TransactionalID] = true
	}
	within, cancel := context.WithTimeout(ctx, describeMax)
	now, err := w.cfg.Cluster.Transactions(within, slices.Sorted(maps.Keys(ids))...)
	cancel()
	w.drop(ctx, func(a broker.Named) bool {
		tx, known := now[a.TransactionalID]
		return known && tx.ProducerID == a.ProducerID && tx.Epoch < a.Epoch
	})
	if err != nil {
		w.cfg.Logger.Debug("the answers about last transactions are kept, because not all coordinators have said that they have initialised the ids since", "error", err)
		return false
	}
	asked = slices.DeleteFunc(asked, func(a broker.Named) bool {
		tx, known := now[a.TransactionalID]
		return !decides(a) || known && tx.ProducerID == a.ProducerID && tx.Epoch <= a.Epoch
	})
	if len(asked) == 0 {
		return true
	}
	search, open, unread, err := w.all(ctx, hanging.Look)
	if err != nil || unread != nil || len(search.Partitions[broker.OffsetsTopic]) == 0 {
		return false
	}
	over := map[broker.Named]bool{}
	for _, a := range asked {
		over[a] = !slices.ContainsFunc(open, func(f hanging.Finding) bool {
			return f.ProducerID == a.ProducerID && int32(f.Epoch) < int32(a.Epoch)
		})
	}
	w.drop(ctx, func(a broker.Named) bool { return over[a] })
	return true
}
