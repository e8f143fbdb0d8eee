package txn_test

import (
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/txn"
	"github.com/onceward/onceward/txn/internal/task"
)

// TestCleanStopKeepsPositions: a clean stop writes the metadata of each task's last commit to the
// rounds topic, as the group has it in its offsets (rule 7.6).
func TestCleanStopKeepsPositions(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 2, "in", "out")
		_, stop := start(t, countTopology(t), b.config(txn.Config{StateDir: t.TempDir(), Workers: 2}))
		feed(t, b, 400)
		b.read(t, "out", 400)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		texts := map[string]bool{}
		b.offsetsOf(t, "in").Each(func(o kadm.OffsetResponse) { texts[o.Metadata] = true })
		cl := b.client(t, kgo.ConsumeTopics("counting-rounds"),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		kept := map[string]string{}
		for len(kept) < 2 && ctx.Err() == nil {
			cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) { kept[string(r.Key)] = string(r.Value) })
		}
		for _, key := range []string{"positions in_0", "positions in_1"} {
			committed, err := task.ParseCommitMetadata(kept[key])
			if err != nil || !texts[kept[key]] {
				t.Errorf("%q is kept as %q (%v), want the metadata of a commit", key, kept[key], err)
				continue
			}
			if at, known := committed.Input("in"); !known || at.Offset != 200 {
				t.Errorf("%q is kept at offset %d (%t), want 200", key, at.Offset, known)
			}
		}
		if t.Failed() {
			for key := range kept {
				t.Logf("there is a record with the key %q", key)
			}
		}
	})
}
