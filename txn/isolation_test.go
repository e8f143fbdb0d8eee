package txn_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// mirror copies values under one key, so that every task writes to the same output partition, and
// has dead letters.
func mirror(t *testing.T) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder("counting", topology.DeadLetters("dead"))
	topology.From(b, topology.Topic("in", schemas.Bytes(), schemas.Bytes())).
		Into(topology.Topic("out", schemas.Bytes(), schemas.Bytes()))
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// refuseProduce makes the broker refuse what the runtime produces to one topic where pred holds for
// the records' bytes.
func (b *testBroker) refuseProduce(t *testing.T, topic string, code *kerr.Error, pred func(records []byte, n int) bool) *atomic.Int64 {
	t.Helper()
	info := b.TopicInfo(topic)
	if info == nil {
		t.Fatalf("there is no topic %s", topic)
	}
	return b.refuseProduceTo(t, [][16]byte{info.TopicID}, code, pred)
}

// refuseProduceTo is refuseProduce for several topics, by their ids.
func (b *testBroker) refuseProduceTo(t *testing.T, topics [][16]byte, code *kerr.Error, pred func(records []byte, n int) bool) *atomic.Int64 {
	t.Helper()
	var refused atomic.Int64
	decompress := kgo.DefaultDecompressor()
	b.ControlKey(keyProduce, func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		produce := req.(*kmsg.ProduceRequest)
		if produce.TransactionID == nil {
			return nil, nil, false
		}
		resp := produce.ResponseKind().(*kmsg.ProduceResponse)
		guilty := false
		for _, rt := range produce.Topics {
			answer := kmsg.NewProduceResponseTopic()
			answer.Topic, answer.TopicID = rt.Topic, rt.TopicID
			for _, p := range rt.Partitions {
				part := kmsg.NewProduceResponseTopicPartition()
				part.Partition, part.ErrorCode = p.Partition, kerr.NotLeaderForPartition.Code // what is not guilty is sent again
				answer.Partitions = append(answer.Partitions, part)
				if !slices.Contains(topics, rt.TopicID) || len(p.Records) == 0 {
					continue
				}
				var batch kmsg.RecordBatch
				if err := batch.ReadFrom(p.Records); err != nil {
					t.Errorf("a batch of %d bytes that cannot be read: %v", len(p.Records), err)
					return nil, nil, false
				}
				records, err := decompress.Decompress(batch.Records, kgo.CompressionCodecType(batch.Attributes&7))
				if err != nil {
					t.Errorf("a batch that cannot be decompressed: %v", err)
				}
				if pred(records, int(batch.NumRecords)) {
					guilty = true
					answer.Partitions[len(answer.Partitions)-1].ErrorCode = code.Code
				}
			}
			resp.Topics = append(resp.Topics, answer)
		}
		if !guilty {
			return nil, nil, false
		}
		refused.Add(1)
		return resp, nil, true
	})
	return &refused
}

// sendNumbered produces n records round robin to the partitions of "in"; some of them are poison.
func (b *testBroker) sendNumbered(t *testing.T, n, partitions int, poison ...int) {
	t.Helper()
	records := make([]*kgo.Record, n)
	for i := range records {
		value := fmt.Appendf(nil, "value-%06d", i)
		if slices.Contains(poison, i) {
			value = append(value, "-poison"...)
		}
		records[i] = &kgo.Record{Topic: "in", Partition: int32(i % partitions), Key: []byte("k"), Value: value}
	}
	b.produce(t, records...)
}

// TestOneRefusedRecord: of thousands of records of several tasks that write to one partition, the
// cluster refuses some. Exactly those end as dead letters, all others are written once, and in the
// order of their task (protocol rule 9.3).
func TestOneRefusedRecord(t *testing.T) {
	const n, partitions = 2000, 3
	for _, tc := range []struct {
		name   string
		poison []int
	}{
		{"first", []int{0}},
		{"last", []int{n - 1}},
		{"two tasks", []int{700, 701}},
		{"neighbours in one task", []int{900, 903, 906}},
		{"every task", []int{3, 400, 1001, 1999}},
	} {
		bubble(t, tc.name, func(t *testing.T) {
			b := newBroker(t, partitions, "in", "out", "dead")
			b.sendNumbered(t, n, partitions, tc.poison...)
			refused := b.refuseProduce(t, "out", kerr.InvalidRecord, func(records []byte, _ int) bool {
				return bytes.Contains(records, []byte("-poison"))
			})
			app, _ := start(t, mirror(t), b.config(txn.Config{StateDir: t.TempDir(), Workers: 1}))
			waitFor(t, "all records to be committed", func() bool { return app.Status().Totals.Records == n })
			next := map[int]int{0: 0, 1: 1, 2: 2}
			for _, r := range b.read(t, "out", n-len(tc.poison)) {
				var i int
				if _, err := fmt.Sscanf(string(r.Value), "value-%06d", &i); err != nil {
					t.Fatalf("an output that was never an input: %v", err)
				}
				task := i % partitions
				for slices.Contains(tc.poison, next[task]) {
					next[task] += partitions
				}
				if i != next[task] {
					t.Fatalf("task %d wrote record %d, the next one is %d", task, i, next[task])
				}
				next[task] += partitions
			}
			for _, r := range b.read(t, "dead", len(tc.poison)) {
				if !strings.HasSuffix(string(r.Value), "-poison") {
					t.Errorf("record %s is a dead letter and was never refused", r.Value)
				}
			}
			// Halving: far fewer tries than records.
			if tries := refused.Load(); tries < int64(len(tc.poison)) || tries > int64(40+40*len(tc.poison)) {
				t.Errorf("%d refusals for %d guilty records", tries, len(tc.poison))
			}
		})
	}
}

// TestRefusedTopic: a topic that takes nothing stops the tasks that write to it, and only those
// (protocol rule 9.3, topic-wide).
func TestRefusedTopic(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 2, "in", "out", "side")
		refused := b.refuseProduce(t, "side", kerr.TopicAuthorizationFailed, func([]byte, int) bool { return true })
		builder := topology.NewBuilder("counting")
		in := topology.From(builder, topology.Topic("in", schemas.Bytes(), schemas.Bytes()))
		odd := func(r topology.Record[[]byte, []byte]) (bool, error) {
			_, partition, _ := r.Source()
			return partition == 1, nil
		}
		in.Filter("odd", odd).Into(topology.Topic("side", schemas.Bytes(), schemas.Bytes()))
		in.Into(topology.Topic("out", schemas.Bytes(), schemas.Bytes()))
		top, err := builder.Build()
		if err != nil {
			t.Fatal(err)
		}
		app, stop := start(t, top, b.config(txn.Config{StateDir: t.TempDir(), Workers: 1}))
		b.sendNumbered(t, 200, 2)
		waitFor(t, "one task to stop and the other one to finish", func() bool {
			stopped, records := 0, int64(0)
			for _, task := range app.Status().Tasks {
				if task.State == txn.TaskStopped && task.ID.Partition == 1 && strings.Contains(task.Reason, "side") {
					stopped++
				}
				records += task.Records
			}
			return stopped == 1 && records == 100
		})
		b.sendNumbered(t, 100, 1)
		b.read(t, "out", 200) // all of partition 0, nothing of partition 1
		if refused.Load() == 0 {
			t.Error("nothing was refused: the test tested nothing")
		}
		if at := b.committed(t); at[0] != 200 || at[1] > 0 {
			t.Errorf("committed offsets are %v, want 200 and none", at)
		}
		if err := stop(); !errors.Is(err, txn.ErrStopped) || !errors.Is(err, kerr.TopicAuthorizationFailed) {
			t.Errorf("Run returned %v, want that a task is stopped and why", err)
		}
	})
}

// TestFailFast: with that setting the first task that stops ends Run, in order.
func TestFailFast(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 2, "in", "out")
		app, err := txn.New(stopTopology(t), b.config(txn.Config{
			StateDir: t.TempDir(), Workers: 1, Logger: testLogger(t), FailFast: true,
		}))
		if err != nil {
			t.Fatal(err)
		}
		b.produce(t, &kgo.Record{Topic: "in", Key: []byte("k0"), Value: []byte("v")}, &kgo.Record{Topic: "in", Key: []byte("k0"), Value: []byte("stop")})
		if err := app.Run(t.Context()); !errors.Is(err, txn.ErrStopped) || errors.Is(err, txn.ErrAllStopped) {
			t.Errorf("Run returned %v, want ErrStopped", err)
		}
		if at := b.committed(t); at[0] != 1 {
			t.Errorf("the committed offset is %d, want 1: what came before the record is committed", at[0])
		}
	})
}

// TestLargeRoundsShrink: a producer that the broker gives up whenever a round is large gets smaller
// rounds, until they fit (protocol rule 9.5). Run again as it was, the round would fail for ever.
func TestLargeRoundsShrink(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 1, "in", "out")
		b.sendNumbered(t, 1000, 1)
		var largest atomic.Int64
		refused := b.refuseProduce(t, "out", kerr.InvalidProducerEpoch, func(_ []byte, n int) bool {
			if n > 7 {
				return true
			}
			largest.Store(max(largest.Load(), int64(n))) // the broker calls one at a time
			return false
		})
		app, _ := start(t, mirrorWithoutDeadLetters(t), b.config(txn.Config{StateDir: t.TempDir(), Workers: 1}))
		waitFor(t, "200 records", func() bool { return app.Status().Totals.Records >= 200 })
		if refused.Load() == 0 || largest.Load() < 2 {
			t.Errorf("%d rounds were refused and the largest that was not has %d records: the limit never came back up", refused.Load(), largest.Load())
		}
	})
}

func mirrorWithoutDeadLetters(t *testing.T) *topology.Topology {
	t.Helper()
	return copyTopology(t, "out")
}

// TestSlowRecords: user code that needs longer for a handful of records than a transaction may take
// does not cost a single abort: a round commits between two records.
func TestSlowRecords(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 1, "in", "out")
		builder := topology.NewBuilder("counting")
		topology.From(builder, topology.Topic("in", schemas.Bytes(), schemas.Bytes())).
			Peek("slow", func(topology.Record[[]byte, []byte]) error {
				time.Sleep(time.Second) // what the test is about: 10 s is the transaction timeout
				return nil
			}).Into(topology.Topic("out", schemas.Bytes(), schemas.Bytes()))
		top, err := builder.Build()
		if err != nil {
			t.Fatal(err)
		}
		var random noise
		for range 24 { // large enough that each round streams
			b.produce(t, &kgo.Record{Topic: "in", Value: random.bytes(200 << 10)})
		}
		app, _ := start(t, top, b.config(txn.Config{StateDir: t.TempDir(), Workers: 1}))
		waitFor(t, "all records", func() bool { return app.Status().Totals.Records == 24 })
		b.read(t, "out", 24)
		if n := app.Status().Totals.Aborts; n > 0 {
			t.Errorf("%d rounds were aborted", n)
		}
	})
}

// TestOneInputOutOfRange: a partition whose records were deleted before they were read stops its
// task with both numbers; the neighbour goes on.
func TestOneInputOutOfRange(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 2, "in", "out")
		cfg := b.config(txn.Config{StateDir: t.TempDir(), Workers: 1})
		app, stop := start(t, countTopology(t), cfg)
		feed(t, b, 200)
		waitFor(t, "the first records", func() bool { return app.Status().Totals.Records == 200 })
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		feed(t, b, 200)
		if err := b.DeleteRecords("in", 0, 150); err != nil {
			t.Fatal(err)
		}
		app, stop = start(t, countTopology(t), cfg)
		waitFor(t, "one task to stop and one to go on", func() bool {
			s := map[int32]txn.TaskStatus{}
			for _, task := range app.Status().Tasks {
				s[task.ID.Partition] = task
			}
			return s[0].State == txn.TaskStopped && strings.Contains(s[0].Reason, "150 to 200") && strings.Contains(s[0].Reason, "100") &&
				s[1].Records == 100
		})
		if err := stop(); !errors.Is(err, txn.ErrStopped) || !errors.Is(err, txn.ErrIntegrity) {
			t.Errorf("Run returned %v, want ErrStopped because of ErrIntegrity", err)
		}
	})
}

// TestPurge: what was read of a repartition topic and is committed is deleted, and nothing else
// (protocol rule 11.3).
func TestPurge(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 2, "in", "out")
		builder := topology.NewBuilder("counting")
		in := topology.From(builder, topology.Topic("in", schemas.String(), schemas.String()))
		keyed := topology.RepartitionWith(in, "again", schemas.String(), schemas.String())
		counts := topology.KeyValueStore("counts", schemas.String(), schemas.Int64())
		topology.Process(keyed, "count", counts, countRecord).Into(topology.Topic("out", schemas.String(), schemas.Int64()))
		top, err := builder.Build()
		if err != nil {
			t.Fatal(err)
		}
		cfg := b.config(txn.Config{StateDir: t.TempDir(), Workers: 1})
		_, _ = start(t, top, cfg)
		const repartition = "counting-again-repartition"
		starts := func() (out [2]int64) {
			listed, err := b.adm.ListStartOffsets(t.Context(), repartition)
			if err != nil {
				t.Fatal(err)
			}
			listed.Each(func(o kadm.ListedOffset) { out[o.Partition] = o.Offset })
			return out
		}
		var last [2]int64
		for i := range 3 {
			feed(t, b, 400)
			check(t, b.read(t, "out", 400*(i+1)), int64(20*(i+1)))
			waitFor(t, "the topic to be purged up to what is committed", func() bool {
				time.Sleep(5 * time.Second)
				now, done := starts(), true // before the offsets, which only grow
				committed := b.committedIn(t, repartition)
				for p, at := range now {
					if at > committed[int32(p)] {
						t.Fatalf("partition %d starts at %d and is committed up to %d", p, at, committed[int32(p)])
					}
					done = done && at == committed[int32(p)] && at > last[p]
				}
				if done {
					last = now
				}
				return done
			})
		}
	})
}
