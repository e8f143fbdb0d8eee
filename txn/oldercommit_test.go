package txn_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/txn"
)

// TestOlderCommitForAWhile: a coordinator that is still loading answers with offsets of long ago,
// as if they were the last ones (Kafka 4.3: a leadership that comes back while the partition is
// loaded). Nothing is decided by the first such answer: the task is opened once the right one
// comes, whether its database shows what is wrong or, where that is lost, the changelog.
func TestOlderCommitForAWhile(t *testing.T) {
	for name, lost := range map[string]bool{"with its database": false, "without a database": true} {
		bubble(t, name, func(t *testing.T) {
			b := newBroker(t, 1, "in", "out")
			var asked atomic.Int64
			cfg := b.config(txn.Config{
				StateDir: t.TempDir(), Workers: 1,
				Logger: countLogs("the last commit is older than the state, and is asked for again: a coordinator that loads can answer so", &asked),
			})
			sent := 0
			life := func() {
				t.Helper()
				_, stop := start(t, countTopology(t), cfg)
				b.send(t, "in", "v", 10)
				sent += 10
				b.read(t, "out", sent)
				if err := stop(); err != nil {
					t.Fatal(err)
				}
			}
			var early *kmsg.OffsetFetchResponse
			life()
			early = b.stableOffsets(t, "counting", "in")
			life()
			if lost {
				cfg.StateDir = t.TempDir()
			}
			var left atomic.Int64
			left.Store(2)
			b.ControlKey(int16(kmsg.OffsetFetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
				b.KeepControl()
				req := kreq.(*kmsg.OffsetFetchRequest)
				if !req.RequireStable || left.Add(-1) < 0 {
					return nil, nil, false
				}
				resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
				resp.Groups = early.Groups
				return resp, nil, true
			})
			began := time.Now()
			life()
			check(t, b.read(t, "out", sent), int64(sent))
			if n := asked.Load(); n != 1 || left.Load() >= 0 {
				t.Errorf("the older commit was told %d times, want once, and %d answers are left", n, left.Load())
			}
			t.Logf("opened after %s", time.Since(began))
		})
	}
}

// stableOffsets asks as the runtime does.
func (b *testBroker) stableOffsets(t *testing.T, group, topic string) *kmsg.OffsetFetchResponse {
	t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version, req.RequireStable = 8, true
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	in := kmsg.NewOffsetFetchRequestGroupTopic()
	in.Topic, in.Partitions = topic, []int32{0}
	g.Topics = append(g.Topics, in)
	req.Groups = append(req.Groups, g)
	resp, err := req.RequestWith(t.Context(), b.cl)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}
