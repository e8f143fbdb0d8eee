package session

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/internal/restore"
	"github.com/onceward/onceward/txn/internal/task"
	"github.com/onceward/onceward/txn/internal/worker"
)

func (s *Session) isStopped(e *taskEntry) bool {
	s.tasks.RLock()
	defer s.tasks.RUnlock()
	return e.stopped != nil
}

// taskStopped notes why a task does not work any more. It ends the session when no other is left that could, or when the application is to
// end with the first.
func (s *Session) taskStopped(id topology.TaskID, e *taskEntry, err error) {
	full := errors.Is(err, state.ErrFull)
	if full {
		err = s.fullDisk(err)
		defer s.spaceWanted()
	}
	s.tasks.Lock()
	defer s.tasks.Unlock()
	if s.tasks.entries[id] != e {
		return // revoked meanwhile: the next owner tries, who may be this process again
	}
	e.stopped, e.resumes = err, full
	for _, src := range s.subs[id.Subtopology].Sources {
		s.pauses.set(src.Topic, id.Partition, taskHalted)
	}
	if s.cfg.FailFast || errors.Is(err, restore.ErrMode) { // the tasks are to go back to where they came from
		s.endPoll(fmt.Errorf("%w: task %s: %w", ErrStopped, id, err))
		return
	}
	s.endIfAllStopped()
}

// Settled is part of broker.Assignment. Tasks may have moved away: what was asked for them is over, and what is left may all be stopped.
func (c *callbacks) Settled() {
	s := (*Session)(c)
	s.settle()
	s.tellRunning()
}

func (s *Session) settle() {
	s.tasks.Lock()
	defer s.tasks.Unlock()
	s.forgetRebuilds()
	s.endIfAllStopped()
}

// tellRunning logs which tasks run, once none is being opened any more and if they are others than before.
func (s *Session) tellRunning() {
	if s.cfg.Logger == nil { // a session without one, in tests
		return
	}
	var running, stopped []string
	s.tasks.RLock()
	for id, e := range s.tasks.entries {
		switch {
		case e.stopped != nil:
			stopped = append(stopped, id.String())
		case e.task != nil:
			running = append(running, id.String())
		default:
			s.tasks.RUnlock()
			return // the last one that is opened tells
		}
	}
	s.tasks.RUnlock()
	slices.Sort(running)
	slices.Sort(stopped)
	tasks := strings.Join(running, " ")
	s.told.Lock()
	defer s.told.Unlock()
	if now := "tasks " + tasks; s.told.tasks != now && s.ctx.Err() == nil {
		s.told.tasks = now
		s.cfg.Logger.Info("running", "tasks", tasks, "stopped", strings.Join(stopped, " "))
	}
}

// endIfAllStopped ends the session when it has tasks, none of them works and none is promised. A process without any task stays: it is there
// for the tasks of others. The caller holds the lock of the task table.
func (s *Session) endIfAllStopped() {
	if len(s.tasks.entries) == 0 || s.promised.Load() {
		return // what is promised comes with another assignment, or goes to somebody else with one
	}
	for _, e := range s.tasks.entries {
		if e.stopped == nil || e.resumes {
			return // it works, or is on its way, or waits for nothing but space
		}
	}
	_, why := s.tasks.whyStopped()
	s.endPoll(fmt.Errorf("%w: %w", ErrAllStopped, why))
}

// whyStopped returns how many tasks do not work any more, and the reason that stands for all of them: the same one at every look, and one that
// says that stored data contradict each other before any other, because such a process is not to be started again as it is. The caller holds
// the lock.
func (t *taskTable) whyStopped() (stopped int, why error) {
	var first topology.TaskID
	for id, e := range t.entries {
		if e.stopped == nil {
			continue
		}
		stopped++
		grave, graver := contradicts(why), contradicts(e.stopped)
		if why == nil || graver && !grave || graver == grave && compareTasks(id, first) < 0 {
			first, why = id, e.stopped
		}
	}
	return stopped, why
}

// contradicts reports whether an error says that what is stored is damaged, or contradicts itself.
func contradicts(err error) bool {
	failure, isRecord := errors.AsType[*topology.Failure](err)
	return errors.Is(err, ErrIntegrity) || errors.Is(err, state.ErrCorrupt) || isRecord && failure.Class == topology.Corruption
}

// stoppedByWorker is taskStopped for a task that stopped by itself.
func (s *Session) stoppedByWorker(t *task.Task, err error) {
	s.tasks.RLock()
	e := s.tasks.entries[t.ID]
	ours := e != nil && e.task == t
	s.tasks.RUnlock()
	if ours {
		s.taskStopped(t.ID, e, err)
	}
}

// haltTask stops a task for a reason that is not its record.
func (s *Session) haltTask(id topology.TaskID, why error) {
	s.tasks.RLock()
	e := s.tasks.entries[id]
	stopped := e == nil || e.stopped != nil
	var r *route
	if !stopped {
		r = s.tasks.routes[partitionKey{s.subs[id.Subtopology].Sources[0].Topic, id.Partition}]
	}
	s.tasks.RUnlock()
	if stopped {
		return // told before, or given up
	}
	s.cfg.Logger.Error("task stopped", "task", id.String(), "error", why)
	s.taskStopped(id, e, why)
	if r != nil {
		r.worker.Halt(r.task, why)
	}
}

// readers returns the tasks of this process that read a partition, or with a negative partition those that read the topic.
func (s *Session) readers(topic string, partition int32) (out []topology.TaskID) {
	s.tasks.RLock()
	defer s.tasks.RUnlock()
	for id := range s.tasks.entries {
		if partition >= 0 && id.Partition != partition {
			continue
		}
		if slices.ContainsFunc(s.subs[id.Subtopology].Sources, func(src topology.Source) bool { return src.Topic == topic }) {
			out = append(out, id)
		}
	}
	return out
}

// ErrIntegrity says that state, offsets and log contradict each other, or that records were deleted before they were processed. Nothing was
// applied that contradicts the log.
var ErrIntegrity = worker.ErrIntegrity

// stopped returns why tasks of the session do not work any more, nil when all of them do.
func (s *Session) stopped() error {
	s.tasks.RLock()
	defer s.tasks.RUnlock()
	n, why := s.tasks.whyStopped()
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%w: %d of %d, one of them because of: %w", ErrStopped, n, len(s.tasks.entries), why)
}

// ErrStopped says that some tasks of the instance had stopped before its end. The reason of one is wrapped with it.
var ErrStopped = errors.New("tasks are stopped")

// ErrAllStopped says that the instance has tasks and none of them can work any more, be it that the last one stopped or that the last one
// that worked has moved to another instance. The reason of one is wrapped with it.
var ErrAllStopped = errors.New("all tasks are stopped")
