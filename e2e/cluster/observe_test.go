package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// newTopic creates a topic of the test's own.
func newTopic(t *testing.T, c *Cluster, partitions int32) string {
	t.Helper()
	topic := c.Name(t, "topic")
	if err := c.CreateTopic(t.Context(), topic, partitions, nil); err != nil {
		t.Fatal(err)
	}
	return topic
}

// producer is a transactional client that writes values to partitions by number.
type producer struct {
	t      *testing.T
	client *kgo.Client
}

func newProducer(t *testing.T, c *Cluster, id string) producer {
	t.Helper()
	// A transaction that is open over a restart must not run out while a busy machine starts the
	// broker.
	return producer{t, c.Client(t, kgo.TransactionalID(id), kgo.TransactionTimeout(5*time.Minute),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))}
}

// write adds records to the transaction, beginning one if begin is set, and waits until the broker
// has them.
func (p producer) write(begin bool, topic string, partition int32, values ...string) {
	p.t.Helper()
	if begin {
		if err := p.client.BeginTransaction(); err != nil {
			p.t.Fatal(err)
		}
	}
	for _, v := range values {
		r := &kgo.Record{Topic: topic, Partition: partition, Value: []byte(v)}
		if err := p.client.ProduceSync(p.t.Context(), r).FirstErr(); err != nil {
			p.t.Fatal(err)
		}
	}
}

func (p producer) end(how kgo.TransactionEndTry) {
	p.t.Helper()
	if err := p.client.EndTransaction(p.t.Context(), how); err != nil {
		p.t.Fatal(err)
	}
}

// ended waits for the markers of what end has ended. Kafka 4.3.1 can lose those that are under way
// when its only broker goes down or comes back: see docs/limits.md.
func (p producer) ended(c *Cluster) {
	p.t.Helper()
	id, _ := p.client.OptValue(kgo.TransactionalID).(string)
	if err := c.WaitEnded(p.t.Context(), id); err != nil {
		p.t.Fatal(err)
	}
}

// values draws what ReadAll returned: a row of values per partition.
func values(records [][]*kgo.Record) []string {
	var rows []string
	for _, partition := range records {
		var row []string
		for _, r := range partition {
			row = append(row, string(r.Value))
		}
		rows = append(rows, strings.Join(row, " "))
	}
	return rows
}

func expectAll(t *testing.T, c *Cluster, topic string, want ...string) {
	t.Helper()
	records, err := c.ReadAll(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	if got := values(records); !slices.Equal(got, want) {
		t.Errorf("%s has %q, want %q", topic, got, want)
	}
}

func TestReadAllHasWhatWasCommitted(t *testing.T) {
	Scenario(t, func(t *testing.T, c *Cluster) {
		topic := newTopic(t, c, 3)
		p := newProducer(t, c, c.Name(t, "txn"))
		p.write(true, topic, 0, "a", "b")
		p.write(false, topic, 1, "c")
		p.end(kgo.TryCommit)
		p.write(true, topic, 0, "aborted")
		p.end(kgo.TryAbort)
		p.write(true, topic, 0, "d")
		p.end(kgo.TryCommit)
		// Both logs end in something invisible: one in aborted records and a marker, one in a
		// marker.
		p.write(true, topic, 0, "aborted", "aborted")
		p.end(kgo.TryAbort)

		expectAll(t, c, topic, "a b d", "c", "")

		ends, err := c.EndOffsets(t.Context(), topic)
		if err != nil {
			t.Fatal(err)
		}
		// 2 records, marker, 1 aborted, marker, 1 record, marker, 2 aborted, marker.
		if want := []int64{10, 2, 0}; !slices.Equal(ends, want) {
			t.Errorf("end offsets %v, want %v", ends, want)
		}
	})
}

func TestReadAllReadsManyBatches(t *testing.T) {
	Scenario(t, func(t *testing.T, c *Cluster) {
		topic := newTopic(t, c, 2)
		client := c.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()),
			kgo.ProducerBatchCompression(kgo.NoCompression()))
		const n = 12_000 // of 1 kB: more than one fetch brings
		value := []byte(strings.Repeat("x", 1000))
		for i := range n {
			r := &kgo.Record{Topic: topic, Partition: 1, Key: fmt.Append(nil, i), Value: value}
			client.Produce(t.Context(), r, nil) // a lost one is missed below
		}
		if err := client.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		records, err := c.ReadAll(t.Context(), topic)
		if err != nil {
			t.Fatal(err)
		}
		if len(records[0]) != 0 || len(records[1]) != n {
			t.Fatalf("got %d and %d records, want 0 and %d", len(records[0]), len(records[1]), n)
		}
		for i, r := range records[1] {
			if string(r.Key) != fmt.Sprint(i) || r.Offset != int64(i) {
				t.Fatalf("record %d is the one of offset %d", i, r.Offset)
			}
		}
	})
}

// TestReadAllReadsManyAbortedBatches: what was aborted stays away if it is more than one answer
// brings.
func TestReadAllReadsManyAbortedBatches(t *testing.T) {
	Scenario(t, func(t *testing.T, c *Cluster) {
		topic := newTopic(t, c, 1)
		p := newProducer(t, c, c.Name(t, "txn"))
		var large []string
		random := rand.NewChaCha8([32]byte{}) // nothing that a compression makes small
		for range 2 * fetchBytes / (900 << 10) {
			value := make([]byte, 900<<10)
			_, _ = random.Read(value) // never fails
			large = append(large, string(value))
		}
		p.write(true, topic, 0, large...)
		p.end(kgo.TryAbort)
		p.write(true, topic, 0, "a")
		p.end(kgo.TryCommit)
		records, err := c.ReadAll(t.Context(), topic)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(records[0]); n != 1 || string(records[0][0].Value) != "a" {
			t.Errorf("there are %d records, want the one that is committed", n)
		}
	})
}

func TestReadStopsAtItsEnd(t *testing.T) {
	c := Embedded(t)
	topic := newTopic(t, c, 1)
	p := newProducer(t, c, c.Name(t, "txn"))
	p.write(true, topic, 0, "a", "b", "c", "d")
	p.end(kgo.TryCommit)
	r := reader{cluster: c, topic: topic, next: 1, end: 3}
	records, err := r.readAll(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := values([][]*kgo.Record{records}); got[0] != "b c" {
		t.Errorf("offsets 1 and 2 are %q, want b c", got[0])
	}
}

// TestOpenTransaction follows one transaction through all the observations.
func TestOpenTransaction(t *testing.T) {
	Scenario(t, func(t *testing.T, c *Cluster) {
		topic := newTopic(t, c, 2)
		app, other := c.Name(t, "app"), c.Name(t, "other")
		done := newProducer(t, c, app+"-done")
		done.write(true, topic, 1, "done")
		done.end(kgo.TryCommit)
		foreign := newProducer(t, c, other)
		foreign.write(true, topic, 1, "foreign")
		open := newProducer(t, c, app+"-open")
		open.write(true, topic, 0, "open")

		expectOpen(t, c, app, app+"-open")
		expectOpen(t, c, other, other)
		expectOpen(t, c, app+"-done")
		foreign.end(kgo.TryCommit)
		foreign.ended(c)
		records, err := c.ReadStable(t.Context(), topic)
		if got := values(records); err != nil || !slices.Equal(got, []string{"", "done foreign"}) {
			t.Errorf("in front of what is open there is %q, %v", got, err)
		}

		for what, wait := range map[string]func(context.Context) error{
			"ReadAll":    func(ctx context.Context) error { _, err := c.ReadAll(ctx, topic); return err },
			"WaitStable": func(ctx context.Context) error { return c.WaitStable(ctx, topic) },
		} {
			err := expectWait(t, wait, topic+"-0 is held from offset 0 by "+app+"-open (Ongoing)")
			if strings.Contains(err.Error(), topic+"-1") {
				t.Errorf("%s names a partition without an open transaction: %v", what, err)
			}
		}

		open.end(kgo.TryCommit)
		if err := c.WaitStable(t.Context(), topic); err != nil {
			t.Fatal(err)
		}
		expectOpen(t, c, app)
		expectAll(t, c, topic, "open", "done foreign")
	})
}

// expectWait calls wait with longer and longer deadlines until its error at the deadline contains
// reason: how long it takes to find the reason out is the machine's business. It fails if wait
// returns before its deadline.
func expectWait(t *testing.T, wait func(context.Context) error, reason string) error {
	t.Helper()
	for deadline := 250 * time.Millisecond; ; deadline *= 2 {
		ctx, cancel := context.WithTimeout(t.Context(), deadline)
		err := wait(ctx)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("did not wait: %v", err)
		}
		if strings.Contains(err.Error(), reason) {
			return err
		}
		if deadline > settleTimeout/2 {
			t.Fatalf("waited for another reason than %q: %v", reason, err)
		}
	}
}

func expectOpen(t *testing.T, c *Cluster, prefix string, want ...string) {
	t.Helper()
	got, err := c.OpenTransactions(t.Context(), prefix)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want) {
		t.Errorf("open transactions of %s: %q, want %q", prefix, got, want)
	}
}

func TestCommittedOffsets(t *testing.T) {
	Scenario(t, func(t *testing.T, c *Cluster) {
		topic, group := newTopic(t, c, 3), c.Name(t, "group")
		expectCommits(t, c, group, topic, Commit{Offset: -1}, Commit{Offset: -1}, Commit{Offset: -1})

		var plain kadm.Offsets
		plain.Add(kadm.Offset{Topic: topic, Partition: 0, At: 7, LeaderEpoch: -1, Metadata: "m"})
		if err := c.Admin().CommitAllOffsets(t.Context(), group, plain); err != nil {
			t.Fatal(err)
		}
		expectCommits(t, c, group, topic, Commit{Offset: 7, Metadata: "m"}, Commit{Offset: -1}, Commit{Offset: -1})

		// A partition whose first commit is pending is the one that other requests leave out.
		p := newProducer(t, c, c.Name(t, "txn"))
		p.write(true, topic, 0, "a")
		commitInTransaction(t, c, p.client, group, topic, 1, 9, "pending")
		expectWait(t, func(ctx context.Context) error {
			_, err := c.CommittedOffsets(ctx, group, topic)
			return err
		}, "UNSTABLE_OFFSET_COMMIT")
		p.end(kgo.TryCommit)
		expectCommits(t, c, group, topic,
			Commit{Offset: 7, Metadata: "m"}, Commit{Offset: 9, Metadata: "pending"}, Commit{Offset: -1})
	})
}

func expectCommits(t *testing.T, c *Cluster, group, topic string, want ...Commit) {
	t.Helper()
	got, err := c.CommittedOffsets(t.Context(), group, topic)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got[topic], want) {
		t.Errorf("group %s has committed %v, want %v", group, got[topic], want)
	}
}

// commitInTransaction sends an offset with the client's open transaction, as a member of an empty
// group.
func commitInTransaction(
	t *testing.T, c *Cluster, client *kgo.Client,
	group, topic string, partition int32, offset int64, metadata string,
) {
	t.Helper()
	md, err := c.Admin().Metadata(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	id, epoch, err := client.ProducerID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, _ = client.OptValue(kgo.TransactionalID).(string)
	req.Group, req.ProducerID, req.ProducerEpoch, req.Generation = group, id, epoch, -1
	rt := kmsg.NewTxnOffsetCommitRequestTopic()
	rt.Topic, rt.TopicID = topic, md.Topics[topic].ID // version 6 takes the id, older ones the name
	rp := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	rp.Partition, rp.Offset, rp.LeaderEpoch, rp.Metadata = partition, offset, -1, &metadata
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	if err := kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode); err != nil {
		t.Fatal(err)
	}
}

func TestObservationsOfAMissingTopicFail(t *testing.T) {
	Scenario(t, func(t *testing.T, c *Cluster) {
		ctx, missing := t.Context(), c.Name(t, "missing")
		if got, err := c.EndOffsets(ctx, missing); err == nil {
			t.Errorf("EndOffsets: %v", got)
		}
		if got, err := c.ReadAll(ctx, missing); err == nil {
			t.Errorf("ReadAll: %v", got)
		}
		if err := c.WaitStable(ctx, missing); err == nil {
			t.Error("WaitStable returned")
		}
		if got, err := c.CommittedOffsets(ctx, "group", missing); err == nil {
			t.Errorf("CommittedOffsets: %v", got)
		}
		if err := c.CreateTopic(ctx, missing, 1, nil); err != nil {
			t.Error(err)
		}
		if err := c.CreateTopic(ctx, missing, 1, nil); !errors.Is(err, kerr.TopicAlreadyExists) {
			t.Errorf("creating it twice: %v", err)
		}
	})
}
