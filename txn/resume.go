package txn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/control"
)

// ErrNotStopped says that a task cannot be resumed because it is not stopped in this process.
var ErrNotStopped = errors.New("is not stopped here")

// Resume opens a stopped task again, after the operator has removed the reason of its stop. It
// fails with ErrNotStopped for any other task. It changes nothing if a topic is not as it has to
// be, because the next membership could not begin.
//
// A new membership begins, with the same identity: records that were fetched and not processed
// would be missing otherwise. No task moves to another instance, and the other tasks pause for a
// moment. If the instance has more than its share once the task works again, tasks move half a
// minute later. Resume does not wait for the task; see [App.Status].
func (a *App) Resume(id graph.TaskID) error {
	s, in := a.membership()
	if s == nil || !s.Stopped(id) {
		return fmt.Errorf("task %s %w", id, ErrNotStopped)
	}
	if err := in.checkTopics(s.Context()); err != nil {
		return fmt.Errorf("task %s is not resumed, and the others go on: %w", id, err)
	}
	a.log.Info("task resumed", "task", id.String())
	s.Resume(id)
	return nil
}

// checkTopicsMax is how long the look at the topics may take before a task is resumed.
const checkTopicsMax = 10 * time.Second

// checkTopics returns why no further membership could begin.
func (in *instance) checkTopics(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkTopicsMax)
	defer cancel()
	_, err := in.look(ctx, false)
	return err
}

// resume is Resume for a task as operators name it.
func (a *App) resume(task string) error {
	var here []string
	for _, t := range a.Status().Tasks {
		if t.ID.String() == task {
			return a.Resume(t.ID)
		}
		here = append(here, t.ID.String())
	}
	return fmt.Errorf("task %q is not one of this instance, which has %s", task, cmp.Or(strings.Join(here, ", "), "none"))
}

// ResumeTask asks the instance that runs on a state directory of this machine to open a stopped
// task again, as [App.Resume] does. The task is named as in [graph.TaskID.String].
func ResumeTask(ctx context.Context, stateDir, task string) error {
	return control.Resume(ctx, stateDir, task)
}
