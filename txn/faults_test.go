package txn_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

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

// TestRefusedAnswers makes the broker refuse one request of a round after the other. Every refusal aborts, and the round runs again
// from its journal: the counts must have no hole and no repetition.
func TestRefusedAnswers(t *testing.T) {
	t.Parallel()
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
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
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
			app, _ := start(t, countTopology(t), txn.Config{
				Brokers: b.ListenAddrs(), StateDir: t.TempDir(), Workers: 1, CommitIntervalMax: 10 * time.Millisecond,
			})
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

// TestUnansweredCommit loses the reply to commits: sometimes after the broker has committed, sometimes together with the request. The
// client itself tries again on other connections, so all of them lose it for a while.
func TestUnansweredCommit(t *testing.T) {
	t.Parallel()
	for _, arrives := range []bool{true, false} {
		t.Run(fmt.Sprintf("arrives=%t", arrives), func(t *testing.T) {
			t.Parallel()
			b := newBroker(t, 2, "in", "out")
			f := &lossy{lose: keyEndTxn, arrives: arrives}
			app, _ := start(t, countTopology(t), txn.Config{
				Brokers: b.ListenAddrs(), StateDir: t.TempDir(), Workers: 1, CommitIntervalMax: 10 * time.Millisecond,
				Dialer: f.dial,
			})
			feed(t, b, 1000)
			b.read(t, "out", 1000)
			for range 3 {
				f.armed.Store(true)
				lost := f.lost.Load()
				feed(t, b, 200)
				waitFor(t, "a reply to be lost", func() bool { return f.lost.Load() > lost })
				// kgo repeats an unanswered EndTxn; keep losing until it has given up.
				time.AfterFunc(2*time.Second, func() { f.armed.Store(false) })
				waitFor(t, "the connection to be whole again", func() bool { return !f.armed.Load() })
			}
			check(t, b.read(t, "out", 1600), 80)
			waitFor(t, "the totals to show every record", func() bool { return app.Status().Totals.Records == 1600 })
		})
	}
}

// lossy makes connections on which requests of one kind get no reply.
type lossy struct {
	lose    int16
	arrives bool
	armed   atomic.Bool
	lost    atomic.Int64
}

func (f *lossy) dial(ctx context.Context, network, host string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, network, host)
	if err != nil {
		return nil, err
	}
	return &lossyConn{Conn: c, f: f}, nil
}

type lossyConn struct {
	net.Conn
	f    *lossy
	mu   sync.Mutex
	gone bool
}

var errLost = errors.New("connection lost by the test")

// Write sees whole requests: the client writes each one at once, and the kind is behind the length.
func (c *lossyConn) Write(p []byte) (int, error) {
	if len(p) >= 6 && int16(binary.BigEndian.Uint16(p[4:6])) == c.f.lose && c.f.armed.Load() {
		c.f.lost.Add(1)
		c.mu.Lock()
		c.gone = true
		c.mu.Unlock()
		if !c.f.arrives {
			_ = c.Conn.Close()
			return 0, errLost
		}
	}
	return c.Conn.Write(p)
}

func (c *lossyConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		_ = c.Conn.Close()
		return 0, errLost
	}
	return n, err
}

// patience bounds every wait for what is certain to come. It only decides how long a failure takes to show.
const patience = 90 * time.Second

// waitFor polls a condition that other goroutines make true.
func waitFor(t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited %s for %s", patience, what)
		}
	}
}
