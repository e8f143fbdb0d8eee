package txn_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// taker is a leader of the group that gives every partition of "in" to the application, except that
// the first goes to itself while take is set. Its join data mean nothing to the application.
type taker struct {
	kgo.GroupBalancer
	take atomic.Bool

	cl  *kgo.Client
	mu  sync.Mutex
	has []int32
}

// newTaker makes it the only member: the application must be started after it.
func newTaker(t *testing.T, b *testBroker) *taker {
	t.Helper()
	k := &taker{GroupBalancer: kgo.CooperativeStickyBalancer()}
	k.cl = b.client(t, kgo.ConsumerGroup("counting"), kgo.ConsumeTopics("in"),
		kgo.Balancers(k), kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, ps map[string][]int32) {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.has = append(k.has, ps["in"]...)
		}),
		kgo.OnPartitionsRevoked(func(context.Context, *kgo.Client, map[string][]int32) {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.has = nil
		}))
	waitFor(t, "the leader", func() bool { _, generation := k.cl.GroupMetadata(); return generation > 0 })
	return k
}

// moveFirst gives the first partition to the taker, or back to the application.
func (k *taker) moveFirst(away bool) {
	k.take.Store(away)
	k.cl.ForceRebalance()
}

// holds reports whether the taker was assigned the first partition.
func (k *taker) holds() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Contains(k.has, 0)
}

func (*taker) ProtocolName() string { return "onceward-cooperative" }

func (k *taker) MemberBalancer(
	members []kmsg.JoinGroupResponseMember,
) (kgo.GroupMemberBalancer, map[string]struct{}, error) {
	b, err := kgo.NewConsumerBalancer(k, members)
	return b, b.MemberTopics(), err
}

func (k *taker) Balance(b *kgo.ConsumerBalancer, topics map[string]int32) kgo.IntoSyncAssignment {
	plan := b.NewPlan()
	alone := len(b.Members()) == 1
	b.EachMember(func(m *kmsg.JoinGroupResponseMember, _ *kmsg.ConsumerMemberMetadata) {
		app := m.InstanceID != nil
		for p := range topics["in"] {
			if mine := p == 0 && k.take.Load(); !alone && app != mine {
				plan.AddPartition(m, "in", p)
			}
		}
	})
	plan.AdjustCooperative(b)
	return plan
}

// TestRevokeWithRoundInFlight: a revoke whose round does not come to an end returns when its limit
// is over, and the partition goes to the next member (rule 6.4). The round can only abort, also
// when the partition has come back to the same member before it was answered (rule 6.1), and every
// record is counted once.
func TestRevokeWithRoundInFlight(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 2, "in", "out")
		k := newTaker(t, b)
		c := newCommits()
		c.watch(b, func(*kmsg.TxnOffsetCommitRequest) bool { return false })
		held, release := make(chan identity, 1), make(chan struct{})
		var armed atomic.Bool
		b.ControlKey(keyProduce, func(req kmsg.Request) (kmsg.Response, error, bool) {
			b.KeepControl()
			if !transactional(req) || !armed.CompareAndSwap(true, false) {
				return nil, nil, false
			}
			var batch kmsg.RecordBatch
			if err := batch.ReadFrom(req.(*kmsg.ProduceRequest).Topics[0].Partitions[0].Records); err != nil {
				t.Error(err)
			}
			held <- identity{batch.ProducerID, batch.ProducerEpoch}
			b.SleepControl(func() { <-release })
			return nil, nil, false
		})
		letGo := sync.OnceFunc(func() { close(release) })
		defer letGo()
		// The transaction may take longer than the revoke: no deadline of the round itself ends it.
		app, _ := start(t, countTopology(t), b.config(txn.Config{
			StateDir: t.TempDir(), Workers: 1, TransactionTimeout: time.Minute,
		}))
		waitFor(t, "both tasks", running(app, 2))
		feed(t, b, 200)
		b.read(t, "out", 200)
		armed.Store(true)
		feedPartition(t, b, 0, 100) // first: the round that is held has to be one of the partition that moves
		var round identity
		select {
		case round = <-held:
		case <-time.After(patience):
			t.Fatal("no round was sent")
		}
		feedPartition(t, b, 1, 100)
		began := time.Now()
		k.moveFirst(true)
		waitFor(t, "the partition to move although the round is in flight", k.holds)
		if took := time.Since(began); took < txn.RevokeWait || took > 2*txn.RevokeWait {
			t.Errorf("the revoke took %s, its limit is %s", took, txn.RevokeWait)
		}
		k.moveFirst(false)
		waitFor(t, "the partition to come back", func() bool { return !k.holds() && len(app.Status().Tasks) == 2 })
		c.mu.Lock()
		_, over := c.ended[round]
		c.mu.Unlock()
		if over {
			t.Fatal("the round ended before it was answered: the test tests nothing")
		}
		letGo()
		check(t, b.read(t, "out", 400), 20)
		c.mu.Lock()
		defer c.mu.Unlock()
		if committed, ok := c.ended[round]; !ok || committed || len(c.of[round]) > 0 {
			t.Errorf("the round of the task that was given up has ended %t with commit=%t and offsets under the generations %v, want an abort "+
				"and no offsets", ok, committed, c.of[round])
		}
	})
}

// TestFailureOfGivenUpTask: a task that is given up while its worker is in user code, and fails
// there after it has come back, does not stop its successor (rule 6.1).
func TestFailureOfGivenUpTask(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 2, "in", "out")
		k := newTaker(t, b)
		entered, release := make(chan struct{}), make(chan struct{})
		letGo := sync.OnceFunc(func() { close(release) })
		t.Cleanup(letGo)
		var tries atomic.Int64
		builder := topology.NewBuilder("counting")
		topology.From(builder, topology.Topic("in", schemas.String(), schemas.String())).
			Peek("work", func(topology.Record[string, string]) error {
				if tries.Add(1) > 1 {
					return nil
				}
				close(entered)
				<-release
				return topology.Fail(topology.Fatal, errors.New("only the first try fails"))
			}).Into(topology.Topic("out", schemas.String(), schemas.String()))
		top, err := builder.Build()
		if err != nil {
			t.Fatal(err)
		}
		cfg := b.config(txn.Config{StateDir: t.TempDir(), Workers: 1})
		app, _ := start(t, top, cfg)
		waitFor(t, "both tasks", running(app, 2))
		b.produce(t, &kgo.Record{Topic: "in", Partition: 0, Key: []byte("k"), Value: []byte("v")})
		<-entered
		k.moveFirst(true)
		waitFor(t, "the partition to move", k.holds)
		k.moveFirst(false)
		waitFor(t, "the partition to come back", func() bool { return !k.holds() && len(app.Status().Tasks) == 2 })
		letGo()
		waitFor(t, "the successor to process the record", func() bool {
			for _, task := range app.Status().Tasks {
				if task.State == txn.TaskStopped {
					t.Fatalf("task %s has stopped: %s", task.ID, task.Reason)
				}
			}
			return app.Status().Totals.Records == 1
		})
	})
}
