package soak_test

import (
	"bufio"
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/soak"
)

// TestMarkerFirstInAnEpoch: a transaction that is begun under one leader and ended under the next leaves a marker as the first entry of an
// epoch. A reader that has passed it and then meets a third leader has lost nothing and goes on.
func TestMarkerFirstInAnEpoch(t *testing.T) {
	broker, err := kfake.NewCluster(kfake.NumBrokers(2), kfake.SeedTopics(1, "t"))
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	move := func() {
		if err := broker.MoveTopicPartition("t", 0, 1-broker.LeaderFor("t", 0)); err != nil {
			t.Fatal(err)
		}
	}
	producer, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...), kgo.TransactionalID("p"), kgo.DefaultProduceTopic("t"))
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
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
	reader, err := soak.NewReader("follower", broker.ListenAddrs(), soak.NewRecorder(bufio.NewWriter(&history)),
		map[string]soak.Kind{"t": soak.Changelog}, "")
	if err != nil {
		t.Fatal(err)
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- reader.Run(running) }()
	reached := func(records int64, end int64) {
		t.Helper()
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for reader.Count("t") < records || !reader.Reached("t", []int64{end}) {
			select {
			case err := <-ended:
				t.Fatalf("the reader has ended: %v", err)
			case <-ctx.Done():
				t.Fatalf("%d records read", reader.Count("t"))
			case <-tick.C:
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
