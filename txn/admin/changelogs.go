package admin

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/restore"
	"github.com/onceward/onceward/txn/internal/task"
)

// layout returns that of a store of the task.
func (t target) layout(store string) state.Layout {
	return t.sub.Stores[slices.IndexFunc(t.sub.Stores, func(st graph.StoreInfo) bool { return st.Name == store })].Layout
}

// eachRecord calls f for the committed records of a changelog from an offset on, up to where it
// ended when it was looked at.
func (op *operation) eachRecord(ctx context.Context, t target, c restore.Changelog, from int64, f func(*kgo.Record, state.Write)) error {
	topic, layout := op.layout[c.Topic], t.layout(c.Store)
	log := newReading(op.cluster, topic.Name, topic.ID, t.id.Partition)
	return log.each(ctx, max(from, c.LogStart), c.HighWatermark, func(r *kgo.Record) error {
		row, err := log.row(layout, r)
		if err == nil {
			f(r, row)
		}
		return err
	}, nil)
}

// recentRows and recentBytes bound what is remembered of rows while a changelog is read: one that
// comes again later than that gets one more tombstone, which does no harm.
const (
	recentRows  = 1 << 20
	recentBytes = 64 << 20
)

// eachRow calls f for a record of every row that the changelog may hold, with what was committed
// when it was looked at, and returns how often: the same number for the same log. A key can have
// several rows, where the time of a record is a part of its row's key.
func (op *operation) eachRow(ctx context.Context, t target, c restore.Changelog, f func(*kgo.Record)) (n int64, err error) {
	recent, size := map[string]struct{}{}, 0
	err = op.eachRecord(ctx, t, c, c.LogStart, func(r *kgo.Record, row state.Write) {
		if _, seen := recent[string(row.Key)]; r.Value == nil || seen {
			return
		}
		if len(recent) == recentRows || size >= recentBytes {
			clear(recent)
			size = 0
		}
		recent[string(row.Key)] = struct{}{}
		size += len(row.Key)
		n++
		f(r)
	})
	return n, err
}

// streamTimeIn returns the stream time of a store that contains its whole changelog: the last known
// one, or that of a row that was written later. Late records that left no row are unknown and do
// not matter: they have moved no stream time.
func (op *operation) streamTimeIn(ctx context.Context, s inspection, c restore.Changelog, last *task.CommitMetadata) (int64, error) {
	layout := s.layout(c.Store)
	known, _ := last.Changelog(c.Store)
	if !layout.Kind.Expires() {
		return known.StreamTime, nil
	}
	latest, from := known.StreamTime, known.Applied
	if from > c.HighWatermark {
		from = c.LogStart // it is another topic, or has lost records
	}
	err := op.eachRecord(ctx, s.target, c, from, func(_ *kgo.Record, row state.Write) {
		if at, err := layout.RowTime(row); err == nil { // the layout has made the row
			latest = max(latest, at)
		}
	})
	return latest, err
}
