package txn_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/txn"
)

const (
	keyOffsetFetch = 9
	keyHeartbeat   = 12
)

// identity is what a request of a transaction says who sends it.
type identity struct {
	producer int64
	epoch    int16
}

// commits remembers the requests that end transactions, in the order in which the broker got them.
type commits struct {
	mu         sync.Mutex
	of         map[identity][]int32 // the generations that offsets were sent under
	leaders    []int32              // the leader epochs that were sent
	ended      map[identity]bool    // how a transaction was ended: whether by a commit
	refused    identity
	refusedGen int32
}

func newCommits() *commits {
	return &commits{of: map[identity][]int32{}, ended: map[identity]bool{}, refusedGen: -1}
}

// watch notes every request; refuse says of an offset commit whether it gets ILLEGAL_GENERATION.
// The lock is held meanwhile.
func (c *commits) watch(b *testBroker, refuseIf func(*kmsg.TxnOffsetCommitRequest) bool) {
	b.ControlKey(keyTxnOffsetCommit, func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		r := req.(*kmsg.TxnOffsetCommitRequest)
		c.mu.Lock()
		defer c.mu.Unlock()
		id := identity{r.ProducerID, r.ProducerEpoch}
		c.of[id] = append(c.of[id], r.Generation)
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				c.leaders = append(c.leaders, p.LeaderEpoch)
			}
		}
		if !refuseIf(r) {
			return nil, nil, false
		}
		c.refused, c.refusedGen = id, r.Generation
		return refuse(req, kerr.IllegalGeneration.Code), nil, true
	})
	b.ControlKey(keyEndTxn, func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		r := req.(*kmsg.EndTxnRequest)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.ended[identity{r.ProducerID, r.ProducerEpoch}] = r.Commit
		return nil, nil, false
	})
}

// TestNewerGenerationWithinTransaction: offsets are refused because a rebalance has begun a new
// generation. They are sent a second time in the same transaction, under the newer generation, and
// it commits: nothing is aborted and nothing is computed twice (rule 6.3).
func TestNewerGenerationWithinTransaction(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 2, "in", "out")
		c := newCommits()
		// The leader is made to join again, which begins a generation, and its request is held
		// until offsets came under the old one.
		var rebalance, joining, armed bool // under c.mu
		refused := make(chan struct{})
		c.watch(b, func(*kmsg.TxnOffsetCommitRequest) bool {
			if !joining || c.refusedGen >= 0 {
				return false
			}
			close(refused)
			return true
		})
		b.ControlKey(keyHeartbeat, func(req kmsg.Request) (kmsg.Response, error, bool) {
			b.KeepControl()
			c.mu.Lock()
			defer c.mu.Unlock()
			if !rebalance {
				return nil, nil, false
			}
			rebalance = false
			resp := req.ResponseKind().(*kmsg.HeartbeatResponse)
			resp.ErrorCode = kerr.RebalanceInProgress.Code
			return resp, nil, true
		})
		b.ControlKey(keyJoinGroup, func(kmsg.Request) (kmsg.Response, error, bool) {
			b.KeepControl()
			c.mu.Lock()
			held := armed
			joining, armed = armed, false
			c.mu.Unlock()
			if held {
				b.SleepControl(func() { <-refused })
			}
			return nil, nil, false
		})
		app, _ := start(t, countTopology(t), b.config(txn.Config{
			StateDir: t.TempDir(), Workers: 1, CommitIntervalMax: 10 * time.Millisecond,
		}))
		feed(t, b, 200)
		b.read(t, "out", 200)
		aborts := app.Status().Totals.Aborts
		c.mu.Lock()
		rebalance, armed = true, true
		c.mu.Unlock()
		sent := 200
		waitFor(t, "offsets under the old generation", func() bool {
			select {
			case <-refused:
				return true
			default:
				feed(t, b, 200)
				sent += 200
				return false
			}
		})
		feed(t, b, 200)
		sent += 200
		check(t, b.read(t, "out", sent), int64(sent/20))
		waitFor(t, "the totals", func() bool { return app.Status().Totals.Records == int64(sent) })
		c.mu.Lock()
		defer c.mu.Unlock()
		generations := c.of[c.refused]
		if len(generations) != 2 || generations[0] != c.refusedGen || generations[1] <= c.refusedGen {
			t.Errorf("generation %d was refused, and the transaction has sent its offsets under the generations %v, want that and a newer one",
				c.refusedGen, generations)
		}
		if committed, ok := c.ended[c.refused]; !ok || !committed {
			t.Errorf("the transaction whose offsets were refused once has ended with commit=%t (%t)", committed, ok)
		}
		if got := app.Status().Totals.Aborts; got != aborts {
			t.Errorf("%d rounds were aborted", got-aborts)
		}
	})
}

// TestLeaderEpochIsCommitted: offsets are committed with the leader epoch of the record before
// them, so that a consumer of the group can tell a log that was truncated (rule 11.4).
func TestLeaderEpochIsCommitted(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 1, "in", "out")
		const moves = 3
		for range moves { // each gives the partition a higher epoch
			if err := b.MoveTopicPartition("in", 0, 0); err != nil {
				t.Fatal(err)
			}
		}
		want := b.PartitionInfo("in", 0).Epoch
		if want < 1 {
			t.Fatalf("the leader epoch of the input is %d: nothing could be told from it", want)
		}
		c := newCommits()
		c.watch(b, func(*kmsg.TxnOffsetCommitRequest) bool { return false })
		_, stop := start(t, copyTopology(t, "out"), b.config(txn.Config{StateDir: t.TempDir(), Workers: 1}))
		b.sendNumbered(t, 100, 1)
		b.read(t, "out", 100)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.leaders) == 0 || slices.ContainsFunc(c.leaders, func(e int32) bool { return e != want }) {
			t.Errorf("offsets were committed with the leader epochs %v, want %d in each", c.leaders, want)
		}
	})
}
