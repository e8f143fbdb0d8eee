package txn_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/e2e/proxy"
	"github.com/onceward/onceward/txn"
)

const (
	keyProduce         = 0
	keyEndTxn          = 26
	keyTxnOffsetCommit = 28
)

// feed produces n records over 20 keys, in batches, so that many rounds are needed.
func feed(t *testing.T, b *testBroker, n int) {
	t.Helper()
	for i := 0; i < n; i += 100 {
		var records []*kgo.Record
		for j := i; j < i+100; j++ {
			records = append(records, &kgo.Record{
				Topic: "in", Partition: int32(j % 2), Key: fmt.Appendf(nil, "k%d", j%20), Value: []byte("v"),
			})
		}
		b.produce(t, records...)
	}
}

// feedPartition writes to one partition what a feed of 2n records has for it.
func feedPartition(t *testing.T, b *testBroker, p int32, n int) {
	t.Helper()
	records := make([]*kgo.Record, n)
	for i := range records {
		records[i] = &kgo.Record{Topic: "in", Partition: p, Key: fmt.Appendf(nil, "k%d", (2*i+int(p))%20), Value: []byte("v")}
	}
	b.produce(t, records...)
}

// TestRefusedAnswers makes the broker refuse one request of a round after the other. Every refusal
// aborts, and the round runs again from its journal: the counts must have no hole and no
// repetition.
func TestRefusedAnswers(t *testing.T) {
	for _, tc := range []struct {
		name string
		key  int16
		code *kerr.Error
	}{
		{"produce: unknown", keyProduce, kerr.UnknownServerError},
		{"produce: fenced epoch", keyProduce, kerr.InvalidProducerEpoch},
		{"offsets: illegal generation", keyTxnOffsetCommit, kerr.IllegalGeneration},
		{"offsets: not coordinator", keyTxnOffsetCommit, kerr.NotCoordinator},
		{"offsets: loading", keyTxnOffsetCommit, kerr.CoordinatorLoadInProgress},
		{"offsets: fenced", keyTxnOffsetCommit, kerr.ProducerFenced},
		{"offsets: a coordinator that does not know the topic yet", keyTxnOffsetCommit, kerr.UnknownTopicOrPartition},
		{"offsets: unknown code", keyTxnOffsetCommit, &kerr.Error{Code: 9999}},
		{"end: unknown", keyEndTxn, kerr.UnknownServerError},
		{"end: fenced", keyEndTxn, kerr.ProducerFenced},
		{"end: concurrent", keyEndTxn, kerr.ConcurrentTransactions},
	} {
		bubble(t, tc.name, func(t *testing.T) {
			b := newBroker(t, 2, "in", "out")
			var seen, refused atomic.Int64
			b.ControlKey(tc.key, func(req kmsg.Request) (kmsg.Response, error, bool) {
				b.KeepControl()
				if !transactional(req) || seen.Add(1)%5 != 3 || refused.Load() >= 6 {
					return nil, nil, false
				}
				refused.Add(1)
				return refuse(req, tc.code.Code), nil, true
			})
			app, _ := start(t, countTopology(t), b.config(txn.Config{
				StateDir: t.TempDir(), Workers: 1, CommitIntervalMax: 10 * time.Millisecond,
			}))
			for i := range 10 { // at least ten rounds
				feed(t, b, 400)
				waitFor(t, "the records to be committed", func() bool { return app.Status().Totals.Records == int64(400*(i+1)) })
			}
			check(t, b.read(t, "out", 4000), 200)
			if refused.Load() == 0 {
				t.Error("nothing was refused: the test tested nothing")
			}
		})
	}
}

// transactional leaves the test's own producer alone.
func transactional(req kmsg.Request) bool {
	p, ok := req.(*kmsg.ProduceRequest)
	return !ok || p.TransactionID != nil
}

func refuse(req kmsg.Request, code int16) kmsg.Response {
	switch req := req.(type) {
	case *kmsg.ProduceRequest:
		resp := req.ResponseKind().(*kmsg.ProduceResponse)
		for _, t := range req.Topics {
			rt := kmsg.NewProduceResponseTopic()
			rt.Topic, rt.TopicID = t.Topic, t.TopicID
			for _, p := range t.Partitions {
				rp := kmsg.NewProduceResponseTopicPartition()
				rp.Partition, rp.ErrorCode = p.Partition, code
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		return resp
	case *kmsg.TxnOffsetCommitRequest:
		resp := req.ResponseKind().(*kmsg.TxnOffsetCommitResponse)
		for _, t := range req.Topics {
			rt := kmsg.NewTxnOffsetCommitResponseTopic()
			rt.Topic, rt.TopicID = t.Topic, t.TopicID
			for i, p := range t.Partitions {
				rp := kmsg.NewTxnOffsetCommitResponseTopicPartition()
				rp.Partition = p.Partition
				if i == len(t.Partitions)-1 { // one refused partition is enough
					rp.ErrorCode = code
				}
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		return resp
	case *kmsg.EndTxnRequest:
		resp := req.ResponseKind().(*kmsg.EndTxnResponse)
		resp.ErrorCode = code
		return resp
	default:
		panic(fmt.Sprintf("no refusal for %T", req))
	}
}

// TestUnansweredCommit loses the reply to commits: sometimes after the broker has committed,
// sometimes together with the request. The client itself tries again on other connections, so all
// of them lose it for a while.
func TestUnansweredCommit(t *testing.T) {
	for _, arrives := range []bool{true, false} {
		bubble(t, fmt.Sprintf("arrives=%t", arrives), func(t *testing.T) {
			b := newBroker(t, 2, "in", "out")
			lost := proxy.Match{Key: proxy.KeyEndTxn, Direction: proxy.ToBroker}
			if arrives {
				lost.Direction = proxy.ToClient
			}
			app, _ := start(t, countTopology(t), b.config(txn.Config{
				StateDir: t.TempDir(), Workers: 1, CommitIntervalMax: 10 * time.Millisecond,
			}))
			feed(t, b, 1000)
			b.read(t, "out", 1000)
			for range 3 {
				rule := b.network.Add(lost, proxy.Cut())
				feed(t, b, 200)
				waitFor(t, "a reply to be lost", matched(rule))
				time.Sleep(10 * time.Second) // kgo repeats an unanswered EndTxn; keep losing until it has given up
				rule.Lift()
			}
			check(t, b.read(t, "out", 1600), 80)
			waitFor(t, "the totals to show every record", func() bool { return app.Status().Totals.Records == 1600 })
		})
	}
}

// matched reports whether a rule of the network has met a frame.
func matched(rule *proxy.Rule) func() bool {
	return func() bool { return rule.Counts().Matched > 0 }
}

// patience bounds every wait for what is certain to come, on virtual time. On real sockets it is
// longer than a test may take.
const patience = 10 * time.Minute

// pollMax is the longest pause between two looks at a condition.
const pollMax = 100 * time.Millisecond

// waitFor polls a condition that other goroutines make true.
func waitFor(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for pause := time.Millisecond; !cond(); pause = min(2*pause, pollMax) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s for %s", patience, what)
		}
		<-time.After(pause)
	}
}
