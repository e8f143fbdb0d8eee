package txn_test

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// TestBackpressure: while a task does not get on, its inputs stop being fetched: what is held stays at the bound and one fetch, however
// far it lags behind. When it goes on, so do they, and nothing is missing.
func TestBackpressure(t *testing.T) {
	const queueMax, partitions, records, size = 1 << 20, 2, 400, 100 << 10 // 40 MB in all
	b := newBroker(t, partitions, "in", "out")
	blocked := make(chan struct{})
	builder := topology.NewBuilder("counting")
	topology.From(builder, topology.Topic("in", schemas.Bytes(), schemas.Bytes())).
		Peek("wait", func(topology.Record[[]byte, []byte]) error {
			<-blocked
			return nil
		}).Into(topology.Topic("out", schemas.Bytes(), schemas.Bytes()))
	top, err := builder.Build()
	if err != nil {
		t.Fatal(err)
	}
	app, _ := start(t, top, txn.Config{
		Brokers: b.ListenAddrs(), StateDir: t.TempDir(), Workers: 1, QueueBytesMax: queueMax, HTTP: "127.0.0.1:0",
	})
	waitFor(t, "both tasks", running(app, partitions)) // a worker in user code takes no task over
	var random noise
	for i := range records {
		b.produce(t, &kgo.Record{Topic: "in", Partition: int32(i % partitions), Value: random.bytes(size)})
	}
	waitFor(t, "both inputs to be paused", func() bool {
		return app.Status().HTTP != "" && scrape(t, app)[`onceward_partitions_paused{reason="queue_full"}`] == partitions
	})
	held := 0.0
	for name, value := range scrape(t, app) {
		if strings.HasPrefix(name, "onceward_input_queue_bytes{") {
			held = max(held, value)
		}
	}
	// A poll hands over what the client has buffered: at most one fetch of the partition.
	if most := float64(queueMax + txn.FetchBytes + 2*size); held < queueMax || held > most {
		t.Errorf("an input holds %.0f bytes, want %d to %.0f", held, queueMax, most)
	}
	close(blocked)
	waitFor(t, "all records", func() bool { return app.Status().Totals.Records == records })
	b.read(t, "out", records)
	waitFor(t, "the inputs to be resumed", func() bool {
		return scrape(t, app)[`onceward_partitions_paused{reason="queue_full"}`] == 0
	})
}
