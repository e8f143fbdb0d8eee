package worker

import (
	"log/slog"
	"testing"
	"time"

	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/protocol"
)

// TestDoubtIsTold: from the moment in which a round's commit is sent until it is answered or
// resolved, readers of its tasks can see that it is in doubt, and since when (rule 8.3). The round
// on top, which holds the same task and is dropped meanwhile, does not hide it.
func TestDoubtIsTold(t *testing.T) {
	for _, tc := range []struct {
		name  string
		steps []protocol.EventKind // of the round; the task is in doubt after each one but the last
	}{
		{"answered", []protocol.EventKind{protocol.OffsetsAccepted, protocol.Committed}},
		{"aborted", []protocol.EventKind{protocol.OffsetsAccepted, protocol.CommitUnknown, protocol.Settled, protocol.FoundPrevious}},
		{"committed", []protocol.EventKind{
			protocol.OffsetsAccepted, protocol.CommitUnknown, protocol.Settled, protocol.FoundOurs, protocol.Applied,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := New(Config{
				Logger: slog.New(slog.DiscardHandler), Budget: NewBudget(0, nil), Resume: func(string, int32) {},
				QueueBytesLow: func() int64 { return 1 << 20 },
			}, [2]*broker.Producer{broker.NewProducer(broker.Config{}, "a", 0), broker.NewProducer(broker.Config{}, "b", 0)})
			tk := quietTask(t, func() {})
			bystander := quietTask(t, func() {})
			bystander.ID.Partition = 1
			began := time.Now()
			w.rounds[0], w.rounds[1] = newRound(0, outputs{}), newRound(1, outputs{})
			w.rounds[0].contribution(tk).Seal(began)
			w.rounds[0].sealed = began
			w.rounds[1].contribution(tk)
			w.rounds[1].contribution(bystander)
			w.open = w.rounds[1]
			for _, kind := range []protocol.EventKind{protocol.Joined, protocol.Due, protocol.Flushed, protocol.Joined} {
				w.state, _ = protocol.Step(w.state, protocol.Event{Kind: kind})
			}
			if _, doubt := tk.InDoubtSince(); doubt || w.state.Front != protocol.Offsets || w.state.Back != protocol.Open {
				t.Fatalf("in doubt %t in state %s: the test tests nothing", doubt, w.state)
			}
			var first time.Time
			for i, kind := range tc.steps {
				w.answered(answer{Event: protocol.Event{Kind: kind}})
				since, doubt := tk.InDoubtSince()
				if want := i < len(tc.steps)-1; doubt != want {
					t.Fatalf("after %s the task is in doubt: %t, want %t", kind, doubt, want)
				}
				if i == 0 {
					first = since
				}
				if doubt && (!since.Equal(first) || since.Before(began)) {
					t.Errorf("after %s the doubt began at %s, the commit was sent at %s", kind, since, first)
				}
				if _, doubt := bystander.InDoubtSince(); doubt {
					t.Errorf("after %s a task without a commit on its way is in doubt", kind)
				}
			}
			if w.failed != nil {
				t.Errorf("the worker failed: %v", w.failed)
			}
		})
	}
}
