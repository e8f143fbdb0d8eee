package restore

import (
	"context"
	"log/slog"
	"time"
)

// stableWait follows the reading of a changelog that may come to the last stable offset: behind it only the end of somebody's open
// transaction lets it go on. Nothing is given up, whatever the wait: the coordinator ends every transaction at last, and where it does
// not, an operator has to know which producer it is.
type stableWait struct {
	r         *Restorer
	log       *slog.Logger
	topic     string
	partition int32
	target    int64
	since     time.Time // of the wait or of its last report; zero while records come
}

func (r *Restorer) watchStable(log *slog.Logger, topic string, partition int32, target int64) *stableWait {
	return &stableWait{r: r, log: log, topic: topic, partition: partition, target: target}
}

// fetched takes the answer to a fetch at an offset below the target: where the next one goes on, and the last stable offset. An answer that
// leads no further after StuckAfter is reported with the producers whose transactions are open.
func (w *stableWait) fetched(ctx context.Context, at, next, lastStable int64) {
	now := time.Now()
	switch {
	case next > at:
		w.since = time.Time{}
	case w.since.IsZero():
		w.since = now
	case now.Sub(w.since) > w.r.StuckAfter:
		w.log.Warn("a restore waits for an open transaction on its changelog", "topic", w.topic, "partition", w.partition, "at", at,
			"target", w.target, "last_stable_offset", lastStable, "held_by", w.r.Cluster.Holder(ctx, w.topic, w.partition))
		w.since = now
	}
}
