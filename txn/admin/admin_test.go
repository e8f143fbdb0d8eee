package admin_test

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/leaktest"
	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/txn/admin"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// connect returns a client of a broker on virtual time.
func connect(t *testing.T, opts ...kfake.Opt) (*admin.Client, *virtual.Kafka) {
	t.Helper()
	network := virtual.NewNetwork(t, 1)
	broker := virtual.NewKafka(t, network, 1, opts...)
	client, err := admin.ConnectWith(t.Context(), admin.Config{Brokers: broker.Brokers(), Dialer: network.Host("admin").Dial})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client, broker
}

// TestProgress counts what a group has committed of a topic, and says which topic is not there.
func TestProgress(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		ctx := t.Context()
		client, broker := connect(t, kfake.SeedTopics(2, "in"))
		kafka := broker.Client(t, "writer", kgo.RecordPartitioner(kgo.ManualPartitioner()))
		for i := range 5 {
			r := &kgo.Record{Topic: "in", Partition: int32(i % 2), Value: []byte("v")}
			if err := kafka.ProduceSync(ctx, r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		check := func(want int64) {
			t.Helper()
			if committed, end, err := client.Progress(ctx, "app", "in"); committed != want || end != 5 || err != nil {
				t.Errorf("%d of %d (%v), want %d of 5", committed, end, err, want)
			}
		}
		check(0)
		var offsets kadm.Offsets
		offsets.AddOffset("in", 0, 2, -1)
		if err := kadm.NewClient(kafka).CommitAllOffsets(ctx, "app", offsets); err != nil {
			t.Fatal(err)
		}
		check(2)
		if _, _, err := client.Progress(ctx, "app", "other"); !errors.Is(err, kerr.UnknownTopicOrPartition) {
			t.Errorf("a topic that does not exist gave %v", err)
		}
	})
}
