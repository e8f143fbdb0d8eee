package admin_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/admin"
)

// hung returns an application of whose transactions one hangs in out[0], dead[0] and the
// committed offsets, and is known to be committed by a marker in dead[1].
func hung(t *testing.T) (*admin.Application, *virtual.Kafka) {
	t.Helper()
	client, broker := connect(t, kfake.SeedTopics(2, "in", "out", "dead"))
	broker.LoseMarkers(t, func(virtual.End) virtual.Loss {
		return func(topic string, partition int32) bool { return topic == "dead" && partition == 1 }
	})
	b := topology.NewBuilder("app", topology.DeadLetters("dead"))
	bytes := func(topic string) topology.TopicOf[[]byte, []byte] {
		return topology.Topic(topic, schemas.Bytes(), schemas.Bytes())
	}
	topology.From(b, bytes("in")).Into(bytes("out"))
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	cl := broker.Client(t, "app", kgo.TransactionalID("app~i~0~0"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	for _, r := range []*kgo.Record{{Topic: "out"}, {Topic: "dead"}, {Topic: "dead", Partition: 1}} {
		if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	addOffset(t, broker, cl)
	if err := cl.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	return client.Application(top), broker
}

// addOffset adds a committed offset of the application to the transaction that is open.
func addOffset(t *testing.T, broker *virtual.Kafka, cl *kgo.Client) {
	t.Helper()
	producerID, epoch, err := cl.ProducerID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch, req.Generation = "app~i~0~0", "app", producerID, epoch, -1
	rt := kmsg.NewTxnOffsetCommitRequestTopic()
	rt.Topic = "in"
	rp := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	rp.Offset, rp.LeaderEpoch = 4, -1
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(int16(kmsg.TxnOffsetCommit), 5) // the last one that names topics
	resp, err := req.RequestWith(t.Context(), broker.Client(t, "committer", kgo.MaxVersions(versions)))
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestOffsetsNeedAllTopics: where a topic may not be read, or the cluster does not name it, results
// that belong to the offsets can be open. Then offsets are repaired only if they are named. Nothing
// else of the transaction is repaired without them.
func TestOffsetsNeedAllTopics(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		a, broker := hung(t)
		report, err := a.RepairTransactions(t.Context(), admin.RepairOptions{})
		if err != nil || len(report.Transactions) != 1 || report.Transactions[0].Left == "" || !strings.Contains(report.Unasked, "app-rounds") {
			t.Errorf("without a topic a repair has done %+v, %v", report, err)
		}
		if err := broker.CreateTopic("app-rounds", 1, nil); err != nil {
			t.Fatal(err)
		}
		denied := broker.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeProducers}, Topic: "dead", Err: kerr.TopicAuthorizationFailed, Count: -1})
		for _, dry := range []bool{true, false} {
			report, err := a.RepairTransactions(t.Context(), admin.RepairOptions{DryRun: dry})
			if err != nil || len(report.Transactions) != 1 || !strings.Contains(report.Transactions[0].Left, "Grant Read") {
				t.Errorf("without a permission a repair has done %+v, %v", report, err)
			}
		}
		report, err = a.RepairTransactions(t.Context(), admin.RepairOptions{Partitions: []admin.Partition{{Topic: "out", Partition: 0}}})
		if err != nil || len(report.Transactions) != 1 || len(report.Transactions[0].Written) != 1 {
			t.Errorf("a partition that was named was not repaired: %+v, %v", report, err)
		}
		denied.Remove()
		report, err = a.RepairTransactions(t.Context(), admin.RepairOptions{})
		if err != nil || len(report.Transactions) != 1 || len(report.Transactions[0].Written) != 2 {
			t.Errorf("with the permission a repair has done %+v, %v", report, err)
		}
	})
}

// TestDeniedAndUnanswered: one topic may not be read, and another one has no leader. That is an
// error, and not a view without hanging transactions.
func TestDeniedAndUnanswered(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		a, broker := hung(t)
		broker.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeProducers}, Topic: "dead", Err: kerr.TopicAuthorizationFailed, Count: -1})
		open, err := a.Transactions(t.Context())
		if err != nil || len(open.Transactions) != 1 || !strings.Contains(open.Unasked, `Read on Topic "dead"`) {
			t.Errorf("without one permission %+v are open, %v", open, err)
		}
		broker.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeProducers}, Topic: "out", Err: kerr.NotLeaderForPartition, Count: -1})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if open, err := a.Transactions(ctx); err == nil {
			t.Errorf("while a partition does not answer %+v are open", open)
		}
		if report, err := a.RepairTransactions(ctx, admin.RepairOptions{}); err == nil {
			t.Errorf("while a partition does not answer a repair has done %+v", report)
		}
	})
}

// TestEvidenceOfOne: logs are read for what is asked for only.
func TestEvidenceOfOne(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		a, _ := hung(t)
		all, err := a.Transactions(t.Context())
		if err != nil || len(all.Transactions) != 1 || all.Transactions[0].Verdict != admin.OutcomeCommit || !all.Transactions[0].Hangs() {
			t.Fatalf("%+v are open, %v", all, err)
		}
		other, err := a.Transactions(t.Context(), "1/1")
		if err != nil || len(other.Transactions) != 1 || other.Transactions[0].Verdict != "" || !other.Transactions[0].Hangs() {
			t.Errorf("asked for another one %+v are open, %v", other, err)
		}
	})
}
