//go:build onceward_failpoints

package txn_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn"
)

// TestStopBetweenMemberships: a stop that meets the beginning of a further membership, before it
// has joined, takes the member of the one before out of the group. Otherwise the others would wait
// for the session timeout.
func TestStopBetweenMemberships(t *testing.T) {
	for _, point := range []string{"init-before", "join-before"} {
		bubble(t, point, func(t *testing.T) {
			b := newBroker(t, 2, "in", "out", "dead")
			var refuse, again, met atomic.Bool
			refuse.Store(true)
			b.refuseProduce(t, "out", kerr.TopicAuthorizationFailed, func([]byte, int) bool { return refuse.Load() })
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			cfg := b.config(txn.Config{StateDir: t.TempDir(), Workers: 1}).WithFailpoints(func(_ context.Context, at string) error {
				if at == point && again.Load() {
					met.Store(true)
					cancel()
					return context.Canceled
				}
				return nil
			})
			cfg.Logger = testLogger(t)
			app, err := txn.New(copyTopology(t, "out"), cfg)
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() { done <- app.Run(ctx) }()
			b.produce(t, &kgo.Record{Topic: "in", Key: []byte("k"), Value: []byte("0")})
			waitFor(t, "a task to stop, and the other one to run", func() bool {
				tasks := app.Status().Tasks
				return len(tasks) == 2 && tasks[0].State == txn.TaskStopped && tasks[1].State == txn.TaskRunning
			})
			refuse.Store(false)
			again.Store(true)
			if err := app.Resume(graph.TaskID{Subtopology: "in", Partition: 0}); err != nil {
				t.Fatal(err)
			}
			if err := <-done; err != nil || !met.Load() {
				t.Errorf("Run returned %v, met %t", err, met.Load())
			}
			groups, err := b.adm.DescribeGroups(t.Context(), app.Status().Application)
			if err != nil {
				t.Fatal(err)
			}
			if members := groups[app.Status().Application].Members; len(members) > 0 {
				t.Errorf("%d members are left in the group", len(members))
			}
		})
	}
}
