package txn

import (
	"time"

	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/ends"
	"github.com/onceward/onceward/txn/internal/standby"
)

// StandbyState is what the copy of a task is doing.
type StandbyState string

// The states of a copy.
const (
	// StandbyRestoring: it is brought to a commit of the task's owner, and was never at one or is
	// far behind.
	StandbyRestoring StandbyState = "restoring"
	// StandbyWarm: it follows the commits of the owner, so that the task can move here.
	StandbyWarm StandbyState = "warm"
	// StandbyFailing: it does not follow, and is tried again. Reason says why.
	StandbyFailing StandbyState = "failing"
)

// StandbyStatus is the copy of the state of a task that another instance owns.
type StandbyStatus struct {
	ID    graph.TaskID `json:"id"`
	State StandbyState `json:"state"`
	// Reason is set for a copy that does not follow, and Since is when that began.
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	// Inputs are the committed positions of the task that the copy is at.
	Inputs []InputStatus `json:"inputs,omitempty"`
	// Restored and RestoredBytes are changelog records that the copy has read, and the bytes of
	// their keys and values. Remaining is how many offsets are left to the commit that it is
	// brought to.
	Restored      int64 `json:"restored"`
	RestoredBytes int64 `json:"restored_bytes"`
	Remaining     int64 `json:"remaining,omitempty"`
}

// standbyStatuses tells what the copies of a session are doing.
func standbyStatuses(copies []standby.Status, listed ends.PartitionEnds) (out []StandbyStatus) {
	for _, c := range copies {
		s := StandbyStatus{ID: c.Task, State: StandbyState(c.State()), Restored: c.Restore.Records, RestoredBytes: c.Restore.Bytes,
			Remaining: max(c.Restore.Remaining, 0)}
		switch s.State {
		case StandbyWarm:
			s.Remaining = 0
		case StandbyFailing:
			s.Reason, s.Since = c.Failed.Error(), c.Since
		case StandbyRestoring:
		}
		for _, in := range c.At.Inputs {
			s.Inputs = append(s.Inputs, inputStatus(in, listed))
		}
		out = append(out, s)
	}
	return out
}
