package txn_test

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// TestInputGainsPartitions: the changelogs say how many tasks a stateful subtopology has.
// Partitions that its input gains are not processed, because their keys have their state elsewhere,
// and that is told; a stateless one takes them from the start (rule 11.2).
func TestInputGainsPartitions(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 2, "in", "plain", "out", "copy")
		builder := topology.NewBuilder("counting")
		in := topology.From(builder, topology.Topic("in", schemas.String(), schemas.String()))
		counts := topology.KeyValueStore("counts", schemas.String(), schemas.Int64())
		topology.Process(in, "count", counts, countRecord).Into(topology.Topic("out", schemas.String(), schemas.Int64()))
		topology.From(builder, topology.Topic("plain", schemas.String(), schemas.String())).
			Into(topology.Topic("copy", schemas.String(), schemas.String()))
		top, err := builder.Build()
		if err != nil {
			t.Fatal(err)
		}
		cfg := b.config(txn.Config{StateDir: t.TempDir(), Workers: 1})
		app, stop := start(t, top, cfg)
		feed(t, b, 200)
		b.read(t, "out", 200)
		if got := scrape(t, app).sum("onceward_input_partitions_unassigned"); got != 0 {
			t.Errorf("%g partitions are told as not processed", got)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		b.addPartitions(t, 2, "in", "plain")
		for p := range int32(4) {
			for i := range 5 {
				key := fmt.Appendf(nil, "new-%d", i)
				b.produce(t, &kgo.Record{Topic: "in", Partition: p, Key: key, Value: []byte("v")},
					&kgo.Record{Topic: "plain", Partition: p, Key: key, Value: []byte("v")})
			}
		}
		app, _ = start(t, top, cfg)
		b.read(t, "copy", 20)
		b.read(t, "out", 210) // those of the two old partitions
		waitFor(t, "six tasks", running(app, 2+4))
		scrape(t, app).expect(t, series{
			`onceward_input_partitions_unassigned{topic="in"}`: 2, `onceward_input_partitions_unassigned{topic="plain"}`: -1,
		})
	})
}

// TestInputBeforeRepartitionTopicGainsPartitions: the repartition topic and the state behind it
// keep their number of partitions, and the records of the new ones are counted with those of the
// old ones (rule 11.2).
func TestInputBeforeRepartitionTopicGainsPartitions(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 2, "in", "out")
		top := repartitionTopology(t, func(string) {})
		cfg := b.config(txn.Config{StateDir: t.TempDir(), Workers: 1})
		_, stop := start(t, top, cfg)
		feed(t, b, 200)
		b.read(t, "out", 200)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		b.addPartitions(t, 2, "in")
		for p := range int32(4) {
			for k := range 20 {
				b.produce(t, &kgo.Record{Topic: "in", Partition: p, Key: fmt.Append(nil, "k", k), Value: []byte("v")})
			}
		}
		app, _ := start(t, top, cfg)
		check(t, b.read(t, "out", 280), 14)
		waitFor(t, "six tasks", running(app, 4+2))
		if got := scrape(t, app).sum("onceward_input_partitions_unassigned"); got != 0 {
			t.Errorf("%g partitions are told as not processed", got)
		}
	})
}

// addPartitions adds partitions to topics, and takes another client, which knows them.
func (b *testBroker) addPartitions(t *testing.T, n int, topics ...string) {
	t.Helper()
	resp, err := b.adm.CreatePartitions(t.Context(), n, topics...)
	if err == nil {
		err = resp.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	b.connect(t)
}
