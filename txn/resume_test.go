package txn_test

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// TestResume: a task that stopped because its topic took nothing goes on where it stopped, over the control socket, which is a real one, and
// nothing that was fetched meanwhile is missing.
func TestResume(t *testing.T) {
	b := newRealBroker(t, 2, "in", "out")
	var closed bool // the control function runs on the broker's goroutine only
	open := make(chan struct{})
	refused := b.refuseProduce(t, "out", kerr.TopicAuthorizationFailed, func(records []byte, _ int) bool {
		select {
		case <-open:
			return false
		default:
			closed = true
			return true
		}
	})
	dir := t.TempDir()
	app, _ := start(t, copyTopology(t, "out"), b.config(txn.Config{StateDir: dir, Workers: 1}))
	task := topology.TaskID{Subtopology: "in", Partition: 0}
	stoppedTask := func(id topology.TaskID) bool {
		for _, s := range app.Status().Tasks {
			if s.ID == id {
				return s.State == txn.TaskStopped
			}
		}
		return false
	}
	b.produce(t, &kgo.Record{Topic: "in", Key: []byte("k"), Value: []byte("0")})
	waitFor(t, "the task to stop", func() bool { return stoppedTask(task) })
	for i := range 50 {
		b.produce(t, &kgo.Record{Topic: "in", Key: []byte("k"), Value: []byte{byte(i + 1)}})
	}
	if err := txn.ResumeTask(t.Context(), dir, "in_1"); err == nil {
		t.Error("a task that runs is resumed")
	}
	if err := txn.ResumeTask(t.Context(), dir, "other_0"); err == nil {
		t.Error("a task that does not exist is resumed")
	}
	if err := app.Resume(topology.TaskID{Subtopology: "in", Partition: 1}); !errors.Is(err, txn.ErrNotStopped) {
		t.Errorf("Resume of a task that runs returned %v", err)
	}
	close(open)
	if err := txn.ResumeTask(t.Context(), dir, "in_0"); err != nil {
		t.Fatal(err)
	}
	for i, r := range b.read(t, "out", 51) {
		if i > 0 && r.Value[0] != byte(i) {
			t.Fatalf("record %d has the value %d", i, r.Value[0])
		}
	}
	if refused.Load() == 0 || !closed {
		t.Error("nothing was refused: the test tested nothing")
	}
}
