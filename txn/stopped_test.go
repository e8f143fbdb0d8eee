package txn

import (
	"context"
	"errors"
	"testing"

	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/internal/task"
)

// A task that was revoked a moment ago and reaches a poison record before its worker sees the release must not end the process.
func TestStoppedWhileRevoked(t *testing.T) {
	s := &session{tasks: newTaskTable()}
	s.poll, s.endPoll = context.WithCancelCause(t.Context())
	s.stoppedByWorker(&task.Task{Spec: task.Spec{ID: topology.TaskID{Subtopology: "in"}}}, errors.New("poison"))
	if err := context.Cause(s.poll); err != nil {
		t.Errorf("the session ends with %v", err)
	}
}
