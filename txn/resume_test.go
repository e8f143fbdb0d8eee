package txn_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn"
)

// TestResume: a task that stopped because its topic took nothing goes on where it stopped, over the
// control socket, which is a real one, and nothing that was fetched meanwhile is missing.
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
	task := graph.TaskID{Subtopology: "in", Partition: 0}
	stoppedTask := func(id graph.TaskID) bool {
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
	if err := app.Resume(graph.TaskID{Subtopology: "in", Partition: 1}); !errors.Is(err, txn.ErrNotStopped) {
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

// TestResumeAfterARecreatedOutput: an output topic is deleted while a task is stopped. Resume says
// why it cannot be, and the other tasks go on; once the topic is there again, another one of that
// name, the task goes on too.
func TestResumeAfterARecreatedOutput(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 2, "in", "out", "dead")
		var refuse atomic.Bool
		refuse.Store(true)
		b.refuseProduce(t, "out", kerr.TopicAuthorizationFailed, func([]byte, int) bool { return refuse.Load() })
		app, stop := start(t, copyTopology(t, "out"), b.config(txn.Config{StateDir: t.TempDir(), Workers: 1}))
		task := graph.TaskID{Subtopology: "in", Partition: 0}
		states := func() (running, stopped int) {
			for _, s := range app.Status().Tasks {
				switch s.State {
				case txn.TaskRunning:
					running++
				case txn.TaskStopped:
					stopped++
				default:
				}
			}
			return running, stopped
		}
		b.produce(t, &kgo.Record{Topic: "in", Key: []byte("k"), Value: []byte("0")})
		waitFor(t, "a task to stop, and the other one to run", func() bool { running, stopped := states(); return running == 1 && stopped == 1 })
		if _, err := b.adm.DeleteTopics(t.Context(), "out"); err != nil {
			t.Fatal(err)
		}
		if err := app.Resume(task); err == nil || !strings.Contains(err.Error(), "the others go on") || !strings.Contains(err.Error(), "out") {
			t.Errorf("without its output, Resume returned %v", err)
		}
		if running, stopped := states(); running != 1 || stopped != 1 {
			t.Errorf("%d tasks run and %d are stopped after a resume that was refused", running, stopped)
		}
		if _, err := b.adm.CreateTopic(t.Context(), 2, 1, nil, "out"); err != nil {
			t.Fatal(err)
		}
		refuse.Store(false)
		if err := app.Resume(task); err != nil {
			t.Fatal(err)
		}
		waitFor(t, "both tasks to run", func() bool { running, stopped := states(); return running == 2 && stopped == 0 })
		b.produce(t, &kgo.Record{Topic: "in", Partition: 1, Key: []byte("other"), Value: []byte("1")})
		waitFor(t, "both records to be processed", func() bool { return app.Status().Totals.Records == 2 })
		b.read(t, "out", 2) // of the new topic, which waits until they are there
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
