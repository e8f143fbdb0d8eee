package txn_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/txn"
)

// TestLastWorkingTaskMovesAway: a process that is left with stopped tasks only, because the one
// that worked has moved to another member, ends as if that one had stopped as well (rule 10.5).
func TestLastWorkingTaskMovesAway(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 2, "in", "out")
		k := newTaker(t, b)
		app, err := txn.New(stopTopology(t), b.config(txn.Config{StateDir: t.TempDir(), Workers: 1, Logger: testLogger(t)}))
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { done <- app.Run(ctx) }()
		waitFor(t, "both tasks", running(app, 2))
		b.produce(t, &kgo.Record{Topic: "in", Partition: 1, Key: []byte("k1"), Value: []byte("stop")})
		waitFor(t, "the second task to stop", func() bool {
			tasks := app.Status().Tasks
			return len(tasks) == 2 && tasks[1].State == txn.TaskStopped
		})
		b.produce(t, &kgo.Record{Topic: "in", Key: []byte("k0"), Value: []byte("v")})
		b.read(t, "out", 1) // the first one goes on
		select {
		case err := <-done:
			t.Fatalf("Run returned %v while a task works", err)
		default:
		}
		k.moveFirst(true)
		select {
		case err := <-done:
			if !errors.Is(err, txn.ErrAllStopped) {
				t.Errorf("Run returned %v, want ErrAllStopped", err)
			}
		case <-time.After(patience):
			cancel()
			<-done
			t.Fatal("Run goes on although nothing is left that works")
		}
	})
}

// TestSpareInstance: a process that has no task at all stays, and takes over when the other one
// goes (rule 10.5).
func TestSpareInstance(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 1, "in", "out")
		config := func() txn.Config {
			return b.config(txn.Config{StateDir: t.TempDir(), Workers: 1})
		}
		first, stop := start(t, countTopology(t), config())
		waitFor(t, "the task", running(first, 1))
		spare, _ := start(t, countTopology(t), config())
		waitFor(t, "the spare one to have its assignment", func() bool { return len(spare.NotReady()) == 0 && len(spare.Status().Tasks) == 0 })
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		b.produce(t, &kgo.Record{Topic: "in", Key: []byte("k0"), Value: []byte("v")})
		check(t, b.read(t, "out", 1), 1)
		if s := spare.Status(); s.State != txn.Running || len(s.Tasks) != 1 {
			t.Errorf("the spare one is %s with %d tasks, want running with 1", s.State, len(s.Tasks))
		}
	})
}
