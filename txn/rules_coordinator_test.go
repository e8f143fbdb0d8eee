package txn_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

const keyFindCoordinator = 10

// TestCoordinatorForgottenByAnotherWorker: rule 2.3. While one worker has a transaction open,
// another one is told that the group's coordinator has moved, and both share what is known of it.
// The first one neither sends its offsets nor looks the coordinator up inside its transaction: the
// round is aborted, and runs again once the coordinator is known.
func TestCoordinatorForgottenByAnotherWorker(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const ahead = 4
		b := newBroker(t, 2, "in", "out")
		inside, gate, find := make(chan struct{}), make(chan struct{}), make(chan struct{})
		open, found := sync.OnceFunc(func() { close(gate) }), sync.OnceFunc(func() { close(find) })
		t.Cleanup(open)
		t.Cleanup(found)
		var armed atomic.Bool
		var offsets, aborts, lookups atomic.Int64 // since armed
		b.ControlKey(keyTxnOffsetCommit, func(req kmsg.Request) (kmsg.Response, error, bool) {
			b.KeepControl()
			if !armed.Load() || offsets.Add(1) > 1 {
				return nil, nil, false
			}
			return refuse(req, kerr.NotCoordinator.Code), nil, true
		})
		b.ControlKey(keyEndTxn, func(req kmsg.Request) (kmsg.Response, error, bool) {
			b.KeepControl()
			if armed.Load() && !req.(*kmsg.EndTxnRequest).Commit {
				aborts.Add(1)
			}
			return nil, nil, false
		})
		b.ControlKey(keyFindCoordinator, func(req kmsg.Request) (kmsg.Response, error, bool) {
			b.KeepControl()
			if armed.Load() && req.(*kmsg.FindCoordinatorRequest).CoordinatorType == 0 { // of a group
				lookups.Add(1)
				b.SleepControl(func() { <-find })
			}
			return nil, nil, false
		})
		var entered atomic.Bool
		build := topology.NewBuilder("counting")
		topology.From(build, topology.Topic("in", schemas.String(), schemas.Bytes())).
			Peek("gate", func(r topology.Record[string, []byte]) error {
				if r.Key == "gate" && entered.CompareAndSwap(false, true) {
					close(inside)
					<-gate
				}
				return nil
			}).Into(topology.Topic("out", schemas.String(), schemas.Bytes()))
		top, err := build.Build()
		if err != nil {
			t.Fatal(err)
		}
		var random noise
		for range ahead {
			b.produce(t, &kgo.Record{Topic: "in", Partition: 1, Key: []byte("k"), Value: random.bytes(large)})
		}
		b.produce(t, &kgo.Record{Topic: "in", Partition: 1, Key: []byte("gate")})
		app, _ := start(t, top, b.config(txn.Config{
			StateDir: t.TempDir(), Workers: 2, TransactionTimeout: 2 * slowCadence, CommitIntervalMax: slowCadence,
		}))
		waitFor(t, "both tasks", running(app, 2))
		<-inside
		waitFor(t, "the transaction to be open: the test needs that", func() bool { return len(b.ongoing(t)) == 1 })
		armed.Store(true)
		b.produce(t, &kgo.Record{Topic: "in", Key: []byte("other")})
		waitFor(t, "the other worker to look the coordinator up", func() bool { return aborts.Load() == 1 && lookups.Load() > 0 })
		open()
		waitFor(t, "the open transaction to be aborted", func() bool { return aborts.Load() == 2 })
		if n := offsets.Load(); n != 1 {
			t.Errorf("offsets were sent %d times, want only those that were refused", n)
		}
		found()
		waitFor(t, "all records", func() bool { return app.Status().Totals.Records == ahead+2 })
		b.read(t, "out", ahead+2)
		if n := app.Status().Totals.Aborts; n != 2 {
			t.Errorf("%d rounds were aborted, want one of each worker", n)
		}
	})
}
