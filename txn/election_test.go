package txn_test

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/txn"
)

// TestCoordinatorThatHasNotHeardOfItsElection: every broker names a coordinator that refuses what
// only a coordinator may answer, as one does that does not know yet that it is. The application
// starts, or goes on, when it has heard of it, and no record is counted twice or not at all.
func TestCoordinatorThatHasNotHeardOfItsElection(t *testing.T) {
	const unaware = 20 * time.Second
	for of, keys := range map[string][]kmsg.Key{
		"group": {
			kmsg.JoinGroup, kmsg.SyncGroup, kmsg.Heartbeat, kmsg.OffsetFetch, kmsg.OffsetCommit, kmsg.TxnOffsetCommit, kmsg.LeaveGroup,
		},
		"transactions": {kmsg.InitProducerID, kmsg.AddPartitionsToTxn, kmsg.AddOffsetsToTxn, kmsg.EndTxn},
	} {
		for _, started := range []bool{false, true} {
			name := of + " before the start"
			if started {
				name = of + " at work"
			}
			bubble(t, name, func(t *testing.T) {
				b := newBroker(t, 2, "in", "out")
				refuses := func() *kfake.FaultHandle {
					return b.kafka.Fault(
						kfake.Fault{Keys: keys, TopLevel: true, Err: kerr.NotCoordinator, Count: -1},
						kfake.Fault{Keys: keys, Err: kerr.NotCoordinator, Count: -1},
					)
				}
				begin := func() *txn.App {
					app, _ := start(t, countTopology(t), b.config(txn.Config{StateDir: t.TempDir(), Workers: 1}))
					return app
				}
				fed := 200
				feed(t, b, fed)
				var election *kfake.FaultHandle
				if started {
					begin()
					b.read(t, "out", fed)
					election = refuses()
					feed(t, b, 200)
					fed += 200
				} else {
					election = refuses()
					begin()
				}
				time.Sleep(unaware)
				if election.Hits() == 0 {
					t.Fatal("nothing is refused: the test tests nothing")
				}
				election.Remove()
				check(t, b.read(t, "out", fed), int64(fed/20))
				feed(t, b, 200)
				fed += 200
				check(t, b.read(t, "out", fed), int64(fed/20))
			})
		}
	}
}
