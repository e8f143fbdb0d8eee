package worker

import (
	"errors"
	"testing"
	"time"

	"github.com/onceward/onceward/txn/internal/assign"
	"github.com/onceward/onceward/txn/internal/protocol"
	"github.com/onceward/onceward/txn/internal/task"
)

// TestGivenUpAndAssignedBack: a task that was given up and assigned back to the same member has
// another epoch. A round that holds it as it was can only abort, although member, task and
// partition are the same and the membership is whole (rule 6.1). Nothing is sent: the committer
// here has no producer that could.
func TestGivenUpAndAssignedBack(t *testing.T) {
	partitions := map[string][]int32{"in": {0}}
	ownership := assign.New([]assign.Subtopology{{Name: "in", Sources: []string{"in"}}})
	generation := int32(7)
	w := &Worker{cfg: Config{
		Ownership: ownership, Member: func() (string, int32) { return "member", generation }, Deadlines: DeadlinesFor(time.Minute),
	}}
	open := func() *task.Task {
		tk := quietTask(t, func() {})
		epoch, owned := ownership.Epoch(tk.ID)
		if !owned {
			t.Fatalf("task %s is not owned", tk.ID)
		}
		tk.Epoch, tk.Member = epoch, "member"
		return tk
	}
	send := func(tk *task.Task) error {
		r := newRound(0, outputs{})
		r.contribution(tk).Seal(time.Now())
		r.sealed = time.Now()
		kind, err := (&committer{w: w}).sendOffsets(t.Context(), r)
		if kind != protocol.OffsetsRefused || r.committerState.offsetsSent {
			t.Fatalf("the round was answered %v (offsets sent: %t), want that it is refused and nothing sent", kind, r.committerState.offsetsSent)
		}
		return err
	}
	ownership.Add(partitions)
	before := open()
	ownership.Remove(partitions)
	if err := send(before); !errors.Is(err, assign.ErrGivenUp) {
		t.Errorf("a task that is not owned: %v, want %v", err, assign.ErrGivenUp)
	}
	ownership.Add(partitions)
	if err := send(before); !errors.Is(err, assign.ErrGivenUp) {
		t.Errorf("a task that came back, as it was before: %v, want %v", err, assign.ErrGivenUp)
	}
	// The task as it is now passes, and what stops it is only that there is no membership to commit
	// under.
	generation = -1
	if err := send(open()); err == nil || errors.Is(err, assign.ErrGivenUp) {
		t.Errorf("the task as it is now, without a generation: %v", err)
	}
}
