package txn_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// slowCadence lets no round commit because of its age while a test looks.
const slowCadence = 2 * time.Minute

// large is so much output that a round sends it ahead, and its transaction is open before the round
// is sealed.
const large = 100 << 10

// TestNoOpenTransactionWhileRetrying: rule 2.6. A record fails for a while when the round's
// transaction is open already. The round so far is committed, and while the next attempt is waited
// for no transaction is open. Row of the failure matrix: failing dependency.
func TestNoOpenTransactionWhileRetrying(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const before = 8
		b := newBroker(t, 1, "in", "out")
		var attempts atomic.Int64
		inside, gate := make(chan struct{}), make(chan struct{})
		build := topology.NewBuilder("counting", topology.OnError(topology.Transient, topology.Policy{
			Action: topology.Retry, Attempts: 5, Backoff: time.Hour, BackoffMax: time.Hour, Then: topology.Stop,
		}))
		topology.From(build, topology.Topic("in", schemas.String(), schemas.Bytes())).
			Peek("flaky", func(r topology.Record[string, []byte]) error {
				if r.Key != "flaky" {
					return nil
				}
				if attempts.Add(1) == 1 {
					close(inside)
					<-gate
				}
				return topology.Fail(topology.Transient, schemas.Reason("not yet"))
			}).
			Into(topology.Topic("out", schemas.String(), schemas.Bytes()))
		top, err := build.Build()
		if err != nil {
			t.Fatal(err)
		}
		var random noise
		for range before {
			b.produce(t, &kgo.Record{Topic: "in", Key: []byte("k"), Value: random.bytes(large)})
		}
		b.produce(t, &kgo.Record{Topic: "in", Key: []byte("flaky")})
		app, _ := start(t, top, b.config(txn.Config{
			StateDir: t.TempDir(), Workers: 1, TransactionTimeout: 2 * slowCadence, CommitIntervalMax: slowCadence,
		}))
		<-inside
		waitFor(t, "the transaction to be open: the test needs that", func() bool { return len(b.ongoing(t)) == 1 })
		close(gate)
		waitFor(t, "what came before to be committed", func() bool { return app.Status().Totals.Records == before })
		b.read(t, "out", before)
		never(t, time.Minute, "a transaction is open while a retry is waited for", func() bool { return len(b.ongoing(t)) > 0 })
		if n := attempts.Load(); n != 1 || app.Status().Totals.Aborts > 0 {
			t.Errorf("%d attempts and %d aborts, want one attempt and no abort", n, app.Status().Totals.Aborts)
		}
	})
}

// TestAbortWhileRetrying: what comes before a record that waits for its next attempt is run again
// at once after an abort, and the record itself not before its time (rules 3.4, 9.4).
func TestAbortWhileRetrying(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const before = 8
		b := newBroker(t, 1, "in", "out")
		var attempts, refused atomic.Int64
		build := topology.NewBuilder("counting", topology.OnError(topology.Transient, topology.Policy{
			Action: topology.Retry, Attempts: 5, Backoff: time.Hour, BackoffMax: time.Hour, Then: topology.Stop,
		}))
		topology.From(build, topology.Topic("in", schemas.String(), schemas.String())).
			Peek("flaky", func(r topology.Record[string, string]) error {
				if r.Key != "flaky" {
					return nil
				}
				attempts.Add(1)
				return topology.Fail(topology.Transient, schemas.Reason("not yet"))
			}).
			Into(topology.Topic("out", schemas.String(), schemas.String()))
		top, err := build.Build()
		if err != nil {
			t.Fatal(err)
		}
		b.ControlKey(keyTxnOffsetCommit, func(req kmsg.Request) (kmsg.Response, error, bool) {
			if attempts.Load() == 0 { // a round that ends before the record has failed shows nothing
				b.KeepControl()
				return nil, nil, false
			}
			refused.Add(1)
			return refuse(req, kerr.UnknownServerError.Code), nil, true
		})
		for range before {
			b.produce(t, &kgo.Record{Topic: "in", Key: []byte("k"), Value: []byte("v")})
		}
		b.produce(t, &kgo.Record{Topic: "in", Key: []byte("flaky"), Value: []byte("v")})
		app, _ := start(t, top, b.config(txn.Config{
			StateDir: t.TempDir(), Workers: 1, TransactionTimeout: 2 * slowCadence, CommitIntervalMax: slowCadence,
		}))
		waitFor(t, "what came before to be committed", func() bool { return app.Status().Totals.Records == before })
		b.read(t, "out", before)
		if attempts.Load() != 1 || refused.Load() != 1 {
			t.Errorf("%d attempts and %d refused commits, want one of each", attempts.Load(), refused.Load())
		}
	})
}

// TestNoOpenTransactionWhileAnInputLags: the input "b" has shown its first records, is known to
// have more, and its broker falls silent. The processed records are committed, and while the
// records of "a" wait for those of "b" no transaction is open (rule 2.6).
func TestNoOpenTransactionWhileAnInputLags(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBrokers(t, 2, kfake.SeedTopics(1, "a", "b", "out"))
		b.connect(t, kgo.ProducerBatchCompression(kgo.NoCompression()))
		for topic, node := range map[string]int32{"a": 0, "b": 1} {
			if err := b.MoveTopicPartition(topic, 0, node); err != nil {
				t.Fatal(err)
			}
		}
		const ofB = 8
		const size = 3 * txn.FetchBytes / 10 // one fetch brings some of the records of "b" and not all, and one is enough to be sent ahead
		var random noise
		for i := range ofB {
			b.produce(t, &kgo.Record{Topic: "b", Key: fmt.Appendf(nil, "b%d", i), Value: random.bytes(size), Timestamp: time.UnixMilli(1000)})
		}
		b.produce(t, &kgo.Record{Topic: "a", Key: []byte("a"), Timestamp: time.UnixMilli(2000)})
		silent := make(chan struct{})
		b.ControlKey(int16(kmsg.Fetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
			b.KeepControl()
			later := false
			for _, topic := range kreq.(*kmsg.FetchRequest).Topics {
				for _, p := range topic.Partitions {
					later = later || p.FetchOffset > 0
				}
			}
			if b.CurrentNode() == 1 && later {
				b.SleepControl(func() { <-silent })
			}
			return nil, nil, false
		})
		speak := sync.OnceFunc(func() { close(silent) })
		t.Cleanup(speak)
		var seenA atomic.Int64
		inside, gate := make(chan struct{}), make(chan struct{})
		build := topology.NewBuilder("counting")
		x := topology.From(build, topology.Topic("a", schemas.String(), schemas.Bytes()))
		y := topology.From(build, topology.Topic("b", schemas.String(), schemas.Bytes()))
		x.Merge("both", y).Peek("gate", func(r topology.Record[string, []byte]) error {
			switch r.Key {
			case "a":
				seenA.Add(1)
			case "b1": // the output of the first one is enough to be sent ahead
				close(inside)
				<-gate
			}
			return nil
		}).Into(topology.Topic("out", schemas.String(), schemas.Bytes()))
		top, err := build.Build()
		if err != nil {
			t.Fatal(err)
		}
		app, _ := start(t, top, b.config(txn.Config{
			StateDir: t.TempDir(), Workers: 1, OrderWaitMax: time.Hour,
			TransactionTimeout: 2 * slowCadence, CommitIntervalMax: slowCadence,
		}))
		<-inside
		waitFor(t, "the transaction to be open: the test needs that", func() bool { return len(b.ongoing(t)) == 1 })
		close(gate)
		waitFor(t, "what came before to be committed", func() bool { return app.Status().Totals.Records > 1 && len(b.ongoing(t)) == 0 })
		never(t, time.Minute, "a transaction is open while an input is waited for", func() bool { return len(b.ongoing(t)) > 0 })
		if n := app.Status().Totals.Records; n >= ofB || seenA.Load() > 0 {
			t.Errorf("%d records were committed and %d of the input that has to wait: nothing was waited for", n, seenA.Load())
		}
		speak()
		waitFor(t, "the rest", func() bool { return app.Status().Totals.Records == ofB+1 })
		b.read(t, "out", ofB+1)
	})
}

// TestRetryBesideBusyTask: a record fails for a while in a worker whose other task never runs out
// of records. The records before it are committed before the next attempt, although the worker has
// no reason to end a round of the other task; and the attempts are made (rule 2.6).
func TestRetryBesideBusyTask(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const before, attemptsNeeded, busy = 4, 3, 60_000
		b := newBroker(t, 2, "in", "out")
		var attempts, others atomic.Int64
		var done atomic.Bool
		build := topology.NewBuilder("counting", topology.OnError(topology.Transient, topology.Policy{
			Action: topology.Retry, Attempts: 10, Backoff: time.Second, BackoffMax: time.Second, Then: topology.Stop,
		}))
		topology.From(build, topology.Topic("in", schemas.String(), schemas.Bytes())).
			Peek("work", func(r topology.Record[string, []byte]) error {
				switch r.Key {
				case "busy":
					if others.Add(1); !done.Load() {
						time.Sleep(time.Millisecond) // so that the task is busy for as long as the test needs
					}
				case "flaky":
					if attempts.Add(1) < attemptsNeeded {
						return topology.Fail(topology.Transient, schemas.Reason("not yet"))
					}
				}
				return nil
			}).
			Filter("quiet", func(r topology.Record[string, []byte]) (bool, error) { return r.Key != "busy", nil }).
			Into(topology.Topic("out", schemas.String(), schemas.Bytes()))
		top, err := build.Build()
		if err != nil {
			t.Fatal(err)
		}
		records := make([]*kgo.Record, busy)
		for i := range records {
			records[i] = &kgo.Record{Topic: "in", Partition: 1, Key: []byte("busy")}
		}
		b.produce(t, records...)
		app, _ := start(t, top, b.config(txn.Config{
			StateDir: t.TempDir(), Workers: 1, TransactionTimeout: 2 * slowCadence, CommitIntervalMax: slowCadence,
			QueueBytesMax: 1 << 30, RoundBytesMax: 1 << 30, // the busy task's memory ends no round
		}))
		waitFor(t, "the other task to be busy", func() bool { return others.Load() > 0 })
		var random noise
		for range before {
			b.produce(t, &kgo.Record{Topic: "in", Key: []byte("k"), Value: random.bytes(large)})
		}
		b.produce(t, &kgo.Record{Topic: "in", Key: []byte("flaky")})
		waitFor(t, "exactly what came before the record to be committed", func() bool { return b.committed(t)[0] == before })
		waitFor(t, "the attempts", func() bool { return attempts.Load() == attemptsNeeded })
		if n := others.Load(); n == busy {
			t.Error("the other task ran out of records: the test tested nothing")
		}
		done.Store(true)
		waitFor(t, "all records", func() bool { return app.Status().Totals.Records == busy+before+1 })
		b.read(t, "out", before+1)
		if n := app.Status().Totals.Aborts; n > 0 {
			t.Errorf("%d rounds were aborted", n)
		}
	})
}
