package testapp_test

import (
	"bufio"
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/leaktest"
	"github.com/onceward/onceward/e2e/testapp"
	"github.com/onceward/onceward/e2e/virtual"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// TestMarkerFirstInAnEpoch: a transaction that is begun under one leader and ended under the next
// leaves a marker as the first entry of an epoch. A reader that has passed it and then meets a
// third leader has lost nothing and goes on.
func TestMarkerFirstInAnEpoch(t *testing.T) {
	virtual.Test(t, testMarkerFirstInAnEpoch)
}

func testMarkerFirstInAnEpoch(t *testing.T) {
	network := virtual.NewNetwork(t, 1)
	broker := virtual.NewKafka(t, network, 2, kfake.SeedTopics(1, "t"))
	ctx := t.Context()
	move := func() {
		if err := broker.MoveTopicPartition("t", 0, 1-broker.LeaderFor("t", 0)); err != nil {
			t.Fatal(err)
		}
	}
	producer := broker.Client(t, "producer", kgo.TransactionalID("p"), kgo.DefaultProduceTopic("t"))
	transaction := func(between func()) {
		if err := producer.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := producer.ProduceSync(ctx, kgo.StringRecord("x")).FirstErr(); err != nil {
			t.Fatal(err)
		}
		between()
		if err := producer.EndTransaction(ctx, kgo.TryCommit); err != nil {
			t.Fatal(err)
		}
	}

	var history bytes.Buffer
	reader, err := testapp.NewReader("follower", testapp.NewRecorder(bufio.NewWriter(&history)),
		map[string]testapp.Kind{"t": testapp.Changelog}, "", kgo.SeedBrokers(broker.Brokers()...),
		kgo.Dialer(network.Host("follower").Dial))
	if err != nil {
		t.Fatal(err)
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- reader.Run(running) }()
	reached := func(records int64, end int64) {
		t.Helper()
		for until := time.Now().Add(time.Hour); reader.Count("t") < records || !reader.Reached("t", []int64{end}); {
			select {
			case err := <-ended:
				t.Fatalf("the reader has ended: %v", err)
			case <-time.After(10 * time.Millisecond):
			}
			if time.Now().After(until) {
				t.Fatalf("%d records read", reader.Count("t"))
			}
		}
	}

	transaction(move)
	reached(1, 2)
	move()
	transaction(func() {})
	reached(2, 4)
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}
