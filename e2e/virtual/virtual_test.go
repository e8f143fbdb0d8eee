package virtual_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/e2e/leaktest"
	"github.com/onceward/onceward/e2e/proxy"
	"github.com/onceward/onceward/e2e/virtual"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// write produces one record and returns the error.
func write(t *testing.T, cl *kgo.Client) error {
	t.Helper()
	return cl.ProduceSync(t.Context(), &kgo.Record{Topic: "in", Value: []byte("v")}).FirstErr()
}

func TestLatencyTakesVirtualTime(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		n := virtual.NewNetwork(t, 1)
		k := virtual.NewKafka(t, n, 1, kfake.SeedTopics(1, "in"))
		n.SetWeather(virtual.Weather{LatencyMax: time.Minute})
		cl := k.Client(t, "writer", kgo.RequestTimeoutOverhead(10*time.Minute), kgo.DialTimeout(10*time.Minute))
		began := time.Now()
		if err := write(t, cl); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < time.Minute {
			t.Errorf("with a latency of up to a minute a first record took only %s", took)
		}
	})
}

func TestCutConnectionIsAReset(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		n := virtual.NewNetwork(t, 1)
		virtual.NewKafka(t, n, 1)
		host := n.Host("client")
		c, err := host.Dial(t.Context(), "tcp", "localhost:9092")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		time.AfterFunc(time.Second, host.Cut)
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("reading a connection that is cut gives %v", err)
		}
		host.Down()
		if _, err := host.Dial(t.Context(), "tcp", "localhost:9092"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("a host without network dials with %v", err)
		}
		host.Up()
		again, err := host.Dial(t.Context(), "tcp", "localhost:9092")
		if err != nil {
			t.Fatal(err)
		}
		_ = again.Close()
	})
}

// TestRequestOfAStalledHostArrivesLate: what a stalled host has sent is neither lost nor answered;
// it arrives when the stall is over, although the client has given up long before.
func TestRequestOfAStalledHostArrivesLate(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		n := virtual.NewNetwork(t, 1)
		k := virtual.NewKafka(t, n, 1, kfake.SeedTopics(1, "in"))
		cl := k.Client(t, "writer", kgo.DisableIdempotentWrite(), kgo.RecordRetries(0), kgo.ProduceRequestTimeout(time.Second),
			kgo.RequestTimeoutOverhead(time.Second))
		if err := write(t, cl); err != nil {
			t.Fatal(err)
		}
		n.Host("writer").Stall()
		if err := write(t, cl); err == nil {
			t.Error("a stalled host wrote a record and got an answer")
		}
		if end := endOf(t, k, n); end != 1 {
			t.Errorf("the log ends at %d while the host is stalled, want 1", end)
		}
		cl.Close()
		n.Host("writer").Resume()
		time.Sleep(time.Second) // virtual: what is under way arrives
		if end := endOf(t, k, n); end != 2 {
			t.Errorf("the log ends at %d after the stall, want 2", end)
		}
	})
}

func endOf(t *testing.T, k *virtual.Kafka, n *virtual.Network) int64 {
	t.Helper()
	n.Host("observer").Steady()
	ends, err := k.Admin(t, "observer").ListEndOffsets(t.Context(), "in")
	if err != nil {
		t.Fatal(err)
	}
	o, _ := ends.Lookup("in", 0)
	return o.Offset
}

func TestRuleLosesTheReplyAndNotTheRequest(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		n := virtual.NewNetwork(t, 1)
		k := virtual.NewKafka(t, n, 1, kfake.SeedTopics(1, "in"))
		cl := k.Client(t, "writer", kgo.DisableIdempotentWrite(), kgo.RecordRetries(0))
		rule := n.Add(proxy.Match{Key: proxy.KeyProduce, Direction: proxy.ToClient, Limit: 1}, proxy.Cut())
		if err := write(t, cl); err == nil {
			t.Error("the reply was lost, and the write was acknowledged")
		}
		if rule.Counts().Matched != 1 {
			t.Errorf("the rule matched %d frames, want 1", rule.Counts().Matched)
		}
		if end := endOf(t, k, n); end != 1 {
			t.Errorf("the log ends at %d, want 1: the request has arrived", end)
		}
		if trace := n.Trace().Last(100); !strings.Contains(trace, "lost, connection cut Produce reply") {
			t.Errorf("the trace does not name the lost reply:\n%s", trace)
		}
	})
}

// TestKilledHost: what a killed host has sent arrives or not, as the seed says; nothing is sent
// afterwards.
func TestKilledHost(t *testing.T) {
	arrived := map[int64]int{}
	for seed := range uint64(16) {
		virtual.Test(t, func(t *testing.T) {
			n := virtual.NewNetwork(t, seed)
			k := virtual.NewKafka(t, n, 1, kfake.SeedTopics(1, "in"))
			cl := k.Client(t, "writer", kgo.DisableIdempotentWrite(), kgo.RecordRetries(0))
			if err := cl.Ping(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := write(t, cl); err != nil {
				t.Fatal(err)
			}
			n.SetWeather(virtual.Weather{LatencyMax: time.Second})
			time.AfterFunc(time.Millisecond, n.Host("writer").Kill)
			if err := write(t, cl); err == nil {
				t.Error("a killed host got an answer")
			}
			time.Sleep(5 * time.Second) // virtual: what is under way arrives
			arrived[endOf(t, k, n)]++
		})
	}
	if arrived[1] == 0 || arrived[2] == 0 || len(arrived) != 2 {
		t.Errorf("the log ended at 1 or 2 (%v runs); both have to happen", arrived)
	}
}

// TestDelayedMarkers: between the answer to EndTxn and the markers, offsets are unstable, records
// invisible, and the producer's next transaction waits. Then all of it is committed.
func TestDelayedMarkers(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		n := virtual.NewNetwork(t, 1)
		k := virtual.NewKafka(t, n, 2, kfake.SeedTopics(1, "in"))
		k.DelayMarkers(t, func(string) time.Duration { return 3 * time.Second })
		cl := k.Client(t, "writer", kgo.TransactionalID("tx"))
		adm := k.Admin(t, "observer")
		stable := func() int64 {
			t.Helper()
			ends, err := adm.ListCommittedOffsets(t.Context(), "in")
			if err != nil {
				t.Fatal(err)
			}
			o, _ := ends.Lookup("in", 0)
			return o.Offset
		}
		topics, err := adm.ListTopics(t.Context(), "in")
		if err != nil {
			t.Fatal(err)
		}
		var none kadm.Offsets
		none.AddOffset("in", 0, 0, -1)
		if err := adm.CommitAllOffsets(t.Context(), "g", none); err != nil { // kfake has no group before its first commit
			t.Fatal(err)
		}
		began := time.Now()
		for i := range int64(3) {
			if err := cl.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			if err := write(t, cl); err != nil {
				t.Fatal(err)
			}
			id, epoch, err := cl.ProducerID(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			req := kmsg.NewPtrTxnOffsetCommitRequest()
			req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch, req.Generation = "tx", "g", id, epoch, -1
			req.Topics = []kmsg.TxnOffsetCommitRequestTopic{{
				Topic: "in", TopicID: topics["in"].ID, Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{{Offset: i + 1}},
			}}
			resp, err := req.RequestWith(t.Context(), cl)
			if err != nil || resp.Topics[0].Partitions[0].ErrorCode != 0 {
				t.Fatal(err, resp)
			}
			if err := cl.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
				t.Fatal(err)
			}
			if at := stable(); at != 2*i {
				t.Errorf("after commit %d and before its markers the stable offset is %d, want %d", i, at, 2*i)
			}
			_, err = adm.FetchOffsetsForTopics(kadm.RequireStable(t.Context()), "g", "in")
			if !errors.Is(err, kerr.UnstableOffsetCommit) {
				t.Errorf("before the markers offsets are fetched with %v", err)
			}
		}
		if took := time.Since(began); took < 6*time.Second {
			t.Errorf("three transactions took %s; the second and the third have to wait for the markers before them", took)
		}
		time.Sleep(4 * time.Second) // virtual: the last markers are written
		if at := stable(); at != 6 {
			t.Errorf("in the end the stable offset is %d, want 6", at)
		}
		offsets, err := adm.FetchOffsets(kadm.RequireStable(t.Context()), "g")
		if err != nil {
			t.Fatal(err)
		}
		if o, _ := offsets.Lookup("in", 0); o.At != 3 {
			t.Errorf("the committed offset is %d, want 3", o.At)
		}
	})
}
