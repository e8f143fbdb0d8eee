package txn_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// TestRefusedChangelogRecord: a changelog record that the cluster refuses ends as a dead letter of
// the one input record that wrote it; every other record of the same round is counted once (rule
// 9.3).
func TestRefusedChangelogRecord(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const n = 300
		b := newBroker(t, 1, "in", "out", "dead")
		builder := topology.NewBuilder("counting", topology.DeadLetters("dead"))
		in := topology.From(builder, topology.Topic("in", schemas.String(), schemas.String()))
		counts := topology.KeyValueStore("counts", schemas.String(), schemas.Int64())
		topology.Process(in, "count", counts, countRecord).Into(topology.Topic("out", schemas.String(), schemas.Int64()))
		top, err := builder.Build()
		if err != nil {
			t.Fatal(err)
		}
		app, _ := start(t, top, b.config(txn.Config{StateDir: t.TempDir(), Workers: 1}))
		waitFor(t, "the task", running(app, 1))
		refused := b.refuseProduce(t, "counting-counts-changelog", kerr.InvalidRecord, func(records []byte, _ int) bool {
			return bytes.Contains(records, []byte("poison"))
		})
		var records []*kgo.Record
		for i := range n {
			key := fmt.Appendf(nil, "k%d", i%10)
			if i == n/2 {
				key = []byte("poison")
			}
			records = append(records, &kgo.Record{Topic: "in", Key: key, Value: []byte("v")})
		}
		b.produce(t, records...)
		waitFor(t, "all records to be committed", func() bool { return app.Status().Totals.Records == n })
		last := map[string]int64{}
		for _, r := range b.read(t, "out", n-1) {
			count, err := schemas.Int64().Decode(r.Value)
			if err != nil || count != last[string(r.Key)]+1 {
				t.Fatalf("key %s: count %d follows %d (%v)", r.Key, count, last[string(r.Key)], err)
			}
			last[string(r.Key)] = count
		}
		if dead := b.read(t, "dead", 1); string(dead[0].Key) != "poison" || last["poison"] > 0 {
			t.Errorf("the dead letter has the key %s, and the refused key was counted %d times", dead[0].Key, last["poison"])
		}
		if refused.Load() == 0 {
			t.Error("nothing was refused: the test tested nothing")
		}
	})
}
