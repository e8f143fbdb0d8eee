package txn_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// TestBackpressure: while a task does not get on, its inputs stop being fetched: what is held stays
// at the bound and one fetch, however far it lags behind. When it goes on, so do they, and nothing
// is missing. Of many inputs, all together hold little more than some do.
func TestBackpressure(t *testing.T) {
	const queueMax = 1 << 20
	for _, c := range []struct {
		partitions, records, size int
		// of one is the most that an input holds before it is paused, of all what all of them do;
		// fetch is the most that comes on top for each.
		ofOne, ofAll, fetch int
	}{
		{partitions: 2, records: 400, size: 100 << 10, ofOne: queueMax, ofAll: 2 * queueMax, fetch: txn.FetchBytes},                        // 40 MB
		{partitions: 64, records: 64 * 44, size: 50 << 10, ofOne: queueMax / 4, ofAll: 16*queueMax + 64*queueMax/4, fetch: txn.FetchBytes}, // 144 MB
	} {
		bubble(t, fmt.Sprint(c.partitions), func(t *testing.T) {
			b := newBroker(t, int32(c.partitions), "in", "out")
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
			app, _ := start(t, top, b.config(txn.Config{
				StateDir: t.TempDir(), Workers: 1, QueueBytesMax: queueMax,
			}))
			waitFor(t, "all tasks", running(app, c.partitions)) // a worker in user code takes no task over
			var random noise
			for i := range c.records {
				b.produce(t, &kgo.Record{Topic: "in", Partition: int32(i % c.partitions), Value: random.bytes(c.size)})
			}
			waitFor(t, "all inputs to be paused", func() bool {
				return scrape(t, app)[`onceward_partitions_paused{reason="queue_full"}`] == float64(c.partitions)
			})
			held, all := 0, 0
			for name, value := range scrape(t, app) {
				if strings.HasPrefix(name, "onceward_input_queue_bytes{") {
					held, all = max(held, int(value)), all+int(value)
				}
			}
			// A poll hands over what the client has buffered: at most one fetch of the partition.
			oneMost, allMost := queueMax+c.fetch+2*c.size, c.ofAll+c.partitions*(c.fetch+2*c.size)
			if held < c.ofOne || held > oneMost || all > allMost {
				t.Errorf("an input holds %d bytes, want %d to %d; all hold %d, want %d at most", held, c.ofOne, oneMost, all, allMost)
			}
			close(blocked)
			waitFor(t, "all records", func() bool { return app.Status().Totals.Records == int64(c.records) })
			b.read(t, "out", c.records)
			waitFor(t, "the inputs to be resumed", func() bool {
				return scrape(t, app)[`onceward_partitions_paused{reason="queue_full"}`] == 0
			})
		})
	}
}
