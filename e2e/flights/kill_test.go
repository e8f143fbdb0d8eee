//go:build unix

package flights

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/onceward/onceward/e2e/instance"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/txn"
)

const (
	// lastKill is the share of the input after which no kill counts.
	lastKill = 0.90
	// triesMax is how often one kill is tried again because no transaction was open.
	triesMax = 25
)

func (s *scenario) openTransactions(ctx context.Context) ([]string, error) {
	return s.cluster.OpenTransactions(ctx, s.application+"~")
}

// catch freezes the process while it has an open transaction, and leaves it frozen if there is one.
// Transactions last for milliseconds: one that is seen while the process goes on is over before a
// signal is there.
func (s *scenario) catch(ctx context.Context) (caught bool, err error) {
	s.process.Tell(syscall.SIGSTOP)
	open, err := s.openTransactions(ctx)
	if err == nil && len(open) > 0 {
		open, err = s.openTransactions(ctx) // again: what ends it may have been on its way
	}
	if err != nil || len(open) == 0 {
		s.process.Tell(syscall.SIGCONT)
		return false, err
	}
	return true, nil
}

// strike kills the process and reports whether that counts: whether the broker lists an open
// transaction of the application when the process is gone.
func (s *scenario) strike(ctx context.Context) (counts bool, err error) {
	s.kills.tried++
	s.process.Tell(syscall.SIGKILL)
	s.process.Killed()
	open, err := s.openTransactions(ctx)
	if err != nil || len(open) == 0 {
		return false, err
	}
	s.kills.counted++
	s.kills.open += len(open)
	s.t.Logf("%5.1f s: killed at %4.1f %% with %d open transactions",
		time.Since(s.started).Seconds(), 100*s.progress(), len(open))
	return true, nil
}

// killAt kills the running pipeline once the share of the input is committed and a transaction is
// open, and leaves it down. A kill that came too late for the transaction is tried again.
func (s *scenario) killAt(ctx context.Context, share float64) error {
	for range triesMax {
		err := s.watch(ctx, "an open transaction", func(txn.Status) (bool, error) {
			switch at := s.progress(); {
			case at > lastKill:
				return false, fmt.Errorf("the pipeline is at %.1f %% before it could be killed", 100*at)
			case at < share:
				return false, nil
			}
			return s.catch(ctx)
		})
		if err != nil {
			return err
		}
		if counts, err := s.strike(ctx); counts || err != nil {
			return err
		}
		s.start()
	}
	return fmt.Errorf("none of %d kills met an open transaction", triesMax)
}

// killRestore starts the pipeline, which is down, with the state of one task gone, as after a lost
// disk, and kills it while that task is being restored and a transaction of the others is open. It
// leaves it down.
func (s *scenario) killRestore(ctx context.Context, task state.TaskDirectory) error {
	for range triesMax {
		if err := s.loseTask(task); err != nil {
			return err
		}
		s.start()
		restoring, err := s.meetRestore(ctx, task)
		if err != nil {
			return err
		}
		counts, err := s.strike(ctx)
		if err != nil {
			return err
		}
		if counts && restoring {
			s.kills.restoring++
			return nil
		}
	}
	return fmt.Errorf("none of %d kills met both a restore and an open transaction", triesMax)
}

// meetRestore returns when the task is being restored and a transaction is open, or with false when
// the restore is over.
func (s *scenario) meetRestore(ctx context.Context, task state.TaskDirectory) (restoring bool, err error) {
	err = s.watch(ctx, "the restore", func(status txn.Status) (bool, error) {
		if at := s.progress(); at > lastKill {
			return false, fmt.Errorf("the pipeline is at %.1f %% before it could be killed", 100*at)
		}
		remaining, known := remainingOf(status, task)
		if !known || remaining == 0 {
			return known, nil
		}
		open, err := s.openTransactions(ctx)
		if err != nil || len(open) == 0 {
			return false, err
		}
		// Once more, since the question for transactions took its time, and before it is frozen,
		// when it does not answer.
		ask, cancel := context.WithTimeout(ctx, instance.Patience)
		defer cancel()
		status, unanswered := txn.InstanceStatus(ask, s.settings.StateDir)
		if unanswered != nil {
			return false, nil // watch looks again, and at whether the process has ended
		}
		remaining, _ = remainingOf(status, task)
		restoring = remaining > 0
		if !restoring {
			return true, nil
		}
		return s.catch(ctx)
	})
	return restoring, err
}

// remainingOf returns what a restore of the task has left; known is false until the task's restore
// has begun.
func remainingOf(status txn.Status, task state.TaskDirectory) (remaining int64, known bool) {
	for _, ts := range status.Tasks {
		if ts.ID.Subtopology == task.Subtopology && ts.ID.Partition == task.Partition {
			return ts.Remaining, ts.State != txn.TaskRestoring || ts.Remaining > 0 || ts.Restored > 0
		}
	}
	return 0, false
}

// loseTask removes the state of a task.
func (s *scenario) loseTask(task state.TaskDirectory) error {
	dir, err := s.stateDirectory()
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.RemoveTask(task.Subtopology, task.Partition)
}
