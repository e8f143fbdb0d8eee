package broker_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/txn/internal/broker"
)

// TestEndTransactions: the transactions of a process that is gone end long before their timeout,
// and those whose commit was answered are committed. A process that lives is fenced, and an id that
// was never used is no error.
func TestEndTransactions(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		ctx, network := t.Context(), virtual.NewNetwork(t, 1)
		kafka := virtual.NewKafka(t, network, 3, kfake.SeedTopics(1, "open", "committing"))
		kafka.DelayMarkers(t, func(string) time.Duration { return time.Second })
		cluster, err := broker.Connect(ctx, broker.Config{
			Brokers: kafka.Brokers(), Dialer: network.Host("watcher").Dial, Logger: slog.New(slog.DiscardHandler),
		}, "group")
		if err != nil {
			t.Fatal(err)
		}
		defer cluster.Close()
		produce := func(id string) *kgo.Client {
			t.Helper()
			cl := kafka.Client(t, id, kgo.TransactionalID(id), kgo.TransactionTimeout(time.Minute))
			if err := cl.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			if err := cl.ProduceSync(ctx, &kgo.Record{Topic: id, Value: []byte("v")}).FirstErr(); err != nil {
				t.Fatal(err)
			}
			return cl
		}
		open, committing := produce("open"), produce("committing")
		if err := committing.EndTransaction(ctx, kgo.TryCommit); err != nil { // answered; the markers come later
			t.Fatal(err)
		}
		before, err := cluster.Transactions(ctx, "open", "committing", "never")
		if err != nil {
			t.Fatal(err)
		}
		if _, known := before["never"]; known || before["open"].State != "Ongoing" || before["open"].Started.IsZero() {
			t.Errorf("before: %+v", before)
		}
		began := time.Now()
		if err := cluster.EndTransactions(ctx, time.Minute, "open", "committing", "never"); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("ending them took %s", took)
		}
		after, err := cluster.Transactions(ctx, "open")
		if err != nil {
			t.Fatal(err)
		}
		if tx := after["open"]; tx.State == "Ongoing" || tx.Epoch == before["open"].Epoch && tx.ProducerID == before["open"].ProducerID {
			t.Errorf("before: %+v, after: %+v", before["open"], tx)
		}
		adm := kafka.Admin(t, "observer")
		for topic, records := range map[string]int{"open": 0, "committing": 1} {
			stable, err := adm.ListCommittedOffsets(ctx, topic)
			if err != nil {
				t.Fatal(err)
			}
			if at, _ := stable.Lookup(topic, 0); at.Offset != 2 { // the record and its marker
				t.Errorf("%s is stable up to %d", topic, at.Offset)
			}
			if got := committedRecords(t, kafka, topic); got != records {
				t.Errorf("%s has %d committed records, want %d", topic, got, records)
			}
		}
		if err := open.EndTransaction(ctx, kgo.TryCommit); err == nil {
			t.Error("the process that was fenced has committed")
		}
	})
}

// committedRecords counts the committed records of the partition 0 of a topic that ends with a
// marker.
func committedRecords(t *testing.T, kafka *virtual.Kafka, topic string) (n int) {
	t.Helper()
	cl := kafka.Client(t, "reader", kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(0)}}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	for marker := false; !marker; {
		cl.PollFetches(t.Context()).EachRecord(func(r *kgo.Record) {
			if marker = marker || r.Attrs.IsControl(); !r.Attrs.IsControl() {
				n++
			}
		})
	}
	return n
}

// TestTransactionsBesideACoordinatorThatIsAway: what the other coordinators know is returned with
// the error.
func TestTransactionsBesideACoordinatorThatIsAway(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		network := virtual.NewNetwork(t, 1)
		kafka := virtual.NewKafka(t, network, 3)
		cluster, err := broker.Connect(t.Context(), broker.Config{
			Brokers: kafka.Brokers(), Dialer: network.Host("watcher").Dial, Logger: slog.New(slog.DiscardHandler),
		}, "group")
		if err != nil {
			t.Fatal(err)
		}
		defer cluster.Close()
		away, there := "id0", "id1"
		for i := 2; kafka.CoordinatorFor(there) == kafka.CoordinatorFor(away); i++ {
			there = fmt.Sprint("id", i)
		}
		if err := cluster.EndTransactions(t.Context(), time.Minute, away, there); err != nil {
			t.Fatal(err)
		}
		kafka.Fault(kfake.Fault{
			Keys: []kmsg.Key{kmsg.DescribeTransactions}, Nodes: []int32{kafka.CoordinatorFor(away)}, Err: kerr.CoordinatorLoadInProgress, Count: -1,
		})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		found, err := cluster.Transactions(ctx, away, there)
		if err == nil || len(found) != 1 || found[there].State != "Empty" {
			t.Errorf("the coordinators say %+v, %v, want %s only and an error", found, err, there)
		}
	})
}
