package txn_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// Every test here shows a defect that the runtime once had.

const keyJoinGroup = 11

// merged reads two topics in one task, and remembers the values that it has processed.
func merged(t *testing.T, seen *sync.Map, opts ...topology.SourceOption) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder("counting")
	x := topology.From(b, topology.Topic("a", schemas.String(), schemas.String()), opts...)
	y := topology.From(b, topology.Topic("b", schemas.String(), schemas.String()), opts...)
	x.Merge("both", y).Peek("see", func(r topology.Record[string, string]) error {
		seen.Store(r.Value, true)
		return nil
	}).Into(topology.Topic("out", schemas.String(), schemas.String()))
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top
}

func size(m *sync.Map) (n int) {
	m.Range(func(any, any) bool { n++; return true })
	return n
}

func (b *testBroker) send(t *testing.T, topic, prefix string, n int) {
	t.Helper()
	for i := range n {
		b.produce(t, &kgo.Record{Topic: topic, Key: []byte("k"), Value: fmt.Appendf(nil, "%s%d", prefix, i)})
	}
}

func running(app *txn.App, tasks int) func() bool {
	return func() bool {
		n := 0
		for _, task := range app.Status().Tasks {
			if task.State == txn.TaskRunning {
				n++
			}
		}
		return n == tasks
	}
}

// An input that had never moved was never committed, and every incarnation resolved its start
// ("latest") again: records that had arrived in between were skipped.
func TestStartOffsetOfQuietInputIsCommitted(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 1, "a", "b", "out")
		var seen sync.Map
		cfg := b.config(txn.Config{StateDir: t.TempDir(), Workers: 1})
		app, stop := start(t, merged(t, &seen, topology.StartLatest()), cfg)
		waitFor(t, "the task to run", running(app, 1))
		// Which of these comes after the start was resolved is open; that one does is enough.
		waitFor(t, "a record of a", func() bool {
			b.send(t, "a", "a", 1)
			return app.Status().Totals.Records > 0
		})
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		b.send(t, "b", "b", 5)
		app, _ = start(t, merged(t, &seen, topology.StartLatest()), cfg)
		waitFor(t, "the task to run", running(app, 1))
		b.send(t, "b", "c", 5)
		waitFor(t, "every record of b", func() bool {
			for i := range 5 {
				for _, prefix := range []string{"b", "c"} {
					if _, ok := seen.Load(fmt.Sprint(prefix, i)); !ok {
						return false
					}
				}
			}
			return true
		})
	})
}

// A task that lost one of its inputs dropped what was fetched of the others, and went on behind it
// when the input came back.
func TestTaskLosesOneInput(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 1, "a", "b", "out")
		var seen sync.Map
		foreign := &foreignLeader{GroupBalancer: kgo.CooperativeStickyBalancer()}
		other := b.client(t, kgo.ConsumerGroup("counting"), kgo.ConsumeTopics("a", "b"),
			kgo.Balancers(foreign), kgo.DisableAutoCommit())
		waitFor(t, "the leader", func() bool { _, generation := other.GroupMetadata(); return generation > 0 })
		app, _ := start(t, merged(t, &seen), b.config(txn.Config{StateDir: t.TempDir(), Workers: 1}))
		b.send(t, "a", "a", 5)
		b.send(t, "b", "b", 5)
		waitFor(t, "the first records", func() bool { return size(&seen) == 10 })
		foreign.tear.Store(true)
		other.ForceRebalance()
		waitFor(t, "the task to go", func() bool { return len(app.Status().Tasks) == 0 })
		b.send(t, "a", "x", 5)
		b.send(t, "b", "y", 5)
		other.Close()
		waitFor(t, "the task to come back", running(app, 1))
		b.send(t, "a", "z", 5)
		b.send(t, "b", "w", 5)
		waitFor(t, "all 30 records", func() bool { return size(&seen) == 30 })
	})
}

// foreignLeader is a member that shares our protocol's name and moves partitions one by one, as no
// version of ours does: b to itself when tear is set, everything else to the application. Its join
// data mean nothing to us, and its plan names no member.
type foreignLeader struct {
	kgo.GroupBalancer
	tear atomic.Bool
}

func (*foreignLeader) ProtocolName() string { return "onceward-cooperative" }

func (f *foreignLeader) MemberBalancer(
	members []kmsg.JoinGroupResponseMember,
) (kgo.GroupMemberBalancer, map[string]struct{}, error) {
	b, err := kgo.NewConsumerBalancer(f, members)
	return b, b.MemberTopics(), err
}

func (f *foreignLeader) Balance(b *kgo.ConsumerBalancer, _ map[string]int32) kgo.IntoSyncAssignment {
	plan := b.NewPlan()
	b.EachMember(func(m *kmsg.JoinGroupResponseMember, _ *kmsg.ConsumerMemberMetadata) {
		app := m.InstanceID != nil
		if app {
			plan.AddPartition(m, "a", 0)
		}
		if app != f.tear.Load() {
			plan.AddPartition(m, "b", 0)
		}
	})
	plan.AdjustCooperative(b)
	return plan
}

// A client that rejoined silently as a new member was refused for ever.
func TestSilentRejoin(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 2, "in", "out")
		app, _ := start(t, countTopology(t), b.config(txn.Config{StateDir: t.TempDir(), Workers: 1}))
		feed(t, b, 200)
		waitFor(t, "the first records", func() bool { return app.Status().Totals.Records == 200 })
		var refused atomic.Bool
		b.ControlKey(keyJoinGroup, func(req kmsg.Request) (kmsg.Response, error, bool) {
			b.KeepControl()
			join := req.(*kmsg.JoinGroupRequest)
			if join.InstanceID == nil || join.MemberID == "" || !refused.CompareAndSwap(false, true) {
				return nil, nil, false
			}
			resp := join.ResponseKind().(*kmsg.JoinGroupResponse)
			resp.ErrorCode = kerr.UnknownMemberID.Code
			return resp, nil, true
		})
		other := b.client(t, kgo.ConsumerGroup("counting"), kgo.ConsumeTopics("in"),
			kgo.Balancers(&foreignLeader{GroupBalancer: kgo.CooperativeStickyBalancer()}), kgo.DisableAutoCommit())
		waitFor(t, "the rejoin", refused.Load)
		other.Close()
		feed(t, b, 200)
		check(t, b.read(t, "out", 400), 20)
	})
}

// The producer built batches by the client's default, whatever the topic takes.
func TestTopicLimits(t *testing.T) {
	for name, tc := range map[string]struct {
		limit   string
		size, n int
	}{
		"a topic for 10 MB, a record of 2 MB":     {"10485760", 2 << 20, 1},
		"a topic for 64 KB, many records of 1 KB": {"65536", 1000, 500},
	} {
		bubble(t, name, func(t *testing.T) {
			b := newBroker(t, 1)
			b.create(t, "in", "10485760")
			b.create(t, "out", tc.limit)
			cl := b.client(t, kgo.ProducerBatchMaxBytes(9<<20))
			var random noise
			for range tc.n {
				if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "in", Value: random.bytes(tc.size)}).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
			app, _ := start(t, copyTopology(t, "out"), b.config(txn.Config{StateDir: t.TempDir(), Workers: 1}))
			waitFor(t, "the records to be committed", func() bool { return app.Status().Totals.Records == int64(tc.n) })
		})
	}
}

func (b *testBroker) create(t *testing.T, topic, maxMessageBytes string) {
	t.Helper()
	configs := map[string]*string{"max.message.bytes": &maxMessageBytes}
	if _, err := b.adm.CreateTopic(t.Context(), 1, 1, configs, topic); err != nil {
		t.Fatal(err)
	}
}

// noise makes bytes that do not compress.
type noise uint32

func (n *noise) bytes(size int) []byte {
	out := make([]byte, size)
	for i := range out {
		*n = *n*1664525 + 1013904223
		out[i] = byte(*n >> 24)
	}
	return out
}

func copyTopology(t *testing.T, outs ...string) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder("counting")
	in := topology.From(b, topology.Topic("in", schemas.Bytes(), schemas.Bytes()))
	for _, out := range outs {
		in.IntoNamed("to-"+out, topology.Topic(out, schemas.Bytes(), schemas.Bytes()))
	}
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// A round that sends nothing was held for 10 s while its journal filled the queue.
func TestFilteringDoesNotStall(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 1, "in", "out")
		var seen atomic.Int64
		build := topology.NewBuilder("counting")
		topology.From(build, topology.Topic("in", schemas.Bytes(), schemas.Bytes())).
			Filter("none", func(topology.Record[[]byte, []byte]) (bool, error) { seen.Add(1); return false, nil }).
			Into(topology.Topic("out", schemas.Bytes(), schemas.Bytes()))
		top, err := build.Build()
		if err != nil {
			t.Fatal(err)
		}
		const n = 40_000 // of 1 KiB: five times what may be queued
		records := make([]*kgo.Record, n)
		for i := range records {
			records[i] = &kgo.Record{Topic: "in", Key: []byte("k"), Value: bytes.Repeat([]byte("v"), 1024)}
		}
		b.produce(t, records...)
		began := time.Now()
		start(t, top, b.config(txn.Config{StateDir: t.TempDir(), Workers: 1}))
		waitFor(t, "everything to be filtered", func() bool { return seen.Load() == n })
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("it took %s: rounds were held back", took)
		}
	})
}

// An outage ended the process once the membership had to be begun again.
func TestOutageIsWaitedOut(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 2, "in", "out")
		var restarts atomic.Int64
		app, _ := start(t, countTopology(t), b.config(txn.Config{
			StateDir: t.TempDir(), Workers: 1,
			Logger: countLogs("the membership ended and is begun again", &restarts),
		}))
		feed(t, b, 200)
		waitFor(t, "the first records", func() bool { return app.Status().Totals.Records == 200 })
		feed(t, b, 200)
		b.network.Host("app").Down()
		// The second one comes after a start that failed.
		waitFor(t, "two restarts of the membership", func() bool { return restarts.Load() >= 2 })
		b.network.Host("app").Up()
		check(t, b.read(t, "out", 400), 20)
	})
}

// An error at the very end, when databases are flushed and closed, was swallowed.
func TestErrorsAtTheEndAreReturned(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 2, "in", "out")
		dir := t.TempDir()
		app, err := txn.New(countTopology(t), b.config(txn.Config{StateDir: dir, Workers: 1, Logger: testLogger(t)}))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- app.Run(ctx) }()
		feed(t, b, 200)
		waitFor(t, "the records to be committed", func() bool { return app.Status().Totals.Records == 200 })
		for _, partition := range []string{"0", "1"} {
			if err := os.RemoveAll(filepath.Join(dir, "tasks", "in", partition)); err != nil {
				t.Fatal(err)
			}
		}
		cancel()
		if err := <-done; err == nil {
			t.Error("Run returned nil although no database could be flushed")
		}
	})
}

// A failure for good left the other producer's transaction open, and with it the last stable offset
// of the output topics.
func TestNothingIsLeftOpenAfterFailure(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 1, "in", "side", "out")
		app, err := txn.New(copyTopology(t, "side", "out"), b.config(txn.Config{
			StateDir: t.TempDir(), Workers: 1, Logger: testLogger(t), CommitIntervalMax: 20 * time.Millisecond,
		}))
		if err != nil {
			t.Fatal(err)
		}
		var refusing atomic.Bool
		b.ControlKey(keyTxnOffsetCommit, func(req kmsg.Request) (kmsg.Response, error, bool) {
			b.KeepControl()
			if !refusing.Load() {
				return nil, nil, false
			}
			return refuse(req, kerr.GroupAuthorizationFailed.Code), nil, true
		})
		var random noise
		done := make(chan error, 1)
		go func() { done <- app.Run(t.Context()) }()
		over := false
		for i := 0; i < 500 && !over; i++ { // enough that a round streams while the one before it commits
			var records []*kgo.Record
			for range 500 {
				records = append(records, &kgo.Record{Topic: "in", Value: random.bytes(1000)})
			}
			b.produce(t, records...)
			refusing.Store(i > 5)
			select {
			case err = <-done:
				over = true
			default:
			}
		}
		if !over {
			select {
			case err = <-done:
			case <-time.After(patience):
				t.Fatal("Run does not return although every commit is refused for good")
			}
		}
		if !errors.Is(err, kerr.GroupAuthorizationFailed) {
			t.Fatalf("Run returned %v, want the refusal", err)
		}
		if open := b.ongoing(t); len(open) > 0 {
			t.Errorf("the transactions %q are still open", open)
		}
	})
}

// A refusal that will come back for ever made the runtime run in circles.
func TestInvalidTimestampStopsWithoutDeadLetters(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 2, "in", "out")
		feed(t, b, 100)
		b.refuseProduce(t, "out", kerr.InvalidTimestamp, func([]byte, int) bool { return true })
		app, err := txn.New(countTopology(t), b.config(txn.Config{StateDir: t.TempDir(), Workers: 1, Logger: testLogger(t)}))
		if err != nil {
			t.Fatal(err)
		}
		err = app.Run(t.Context())
		if !errors.Is(err, txn.ErrAllStopped) || !strings.Contains(err.Error(), kerr.InvalidTimestamp.Message) {
			t.Errorf("Run returned %v, want that all tasks have stopped with the refusal", err)
		}
	})
}
