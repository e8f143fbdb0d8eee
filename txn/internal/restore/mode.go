package restore

import (
	"errors"

	"github.com/onceward/onceward/txn/internal/task"
)

// ErrMode is the cause of a task's stop where its last commit was made in a mode that the instance
// does not take over.
var ErrMode = errors.New("the instance would go on in another mode than the application has")

// checkMode stops a task of an application in another mode: its state would be part of the one and
// part of the other.
func (r *Request) checkMode(b *task.CommitMetadata) error {
	if b == nil || r.Modes == nil || b.IsOf(r.Modes) {
		return nil
	}
	return &StopError{Task: r.Task, Cause: ErrMode, Reason: "its last commit was made in mode " + b.Mode.String(),
		Recovery: "Recovery action: run every instance in that mode, or give what runs in another one an application id of its own"}
}
