package txn

import (
	"context"
	"slices"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/txn/internal/control"
	"github.com/onceward/onceward/txn/internal/dispatch"
	"github.com/onceward/onceward/txn/internal/ends"
	"github.com/onceward/onceward/txn/internal/hanging"
	"github.com/onceward/onceward/txn/internal/restore"
	"github.com/onceward/onceward/txn/internal/waits"
	"github.com/onceward/onceward/txn/internal/worker"
)

// Status returns a picture of the process.
func (a *App) Status() Status {
	a.mu.Lock()
	s := Status{
		Application: a.topology.Application(), Instance: a.mu.instance, State: a.mu.state, Reason: a.mu.reason, HTTP: a.mu.http,
		Totals: a.mu.totals, PeersAddress: a.mu.peersAddress,
	}
	current, in := a.mu.session, a.mu.in
	a.mu.Unlock()
	if current != nil {
		if s.State == Running && !current.Joined() { // asked before the tasks, so that an assignment is seen
			s.State, s.Reason = Joining, "the process is not a member of the group yet; the group waits for its other members, for one that died until its session timeout"
		}
		s.Tasks = taskStatuses(current.Tasks(), current.Ends())
		s.Standbys = standbyStatuses(current.Copies(), current.Ends())
		for _, f := range in.hangwatch.Found() {
			s.Hanging = append(s.Hanging, hangingStatus(f))
		}
		s.NotLookedAt = in.hangwatch.NotLookedAt()
		addWaits(s.Tasks, in.waits.All())
		s.Totals.add(Totals(current.Totals()))
		s.Peers = in.watch.status()
	}
	s.GlobalTables = a.globalStatus()
	s.Alerts = a.allAlerts()
	return s
}

// taskStatuses tells what the tasks of a session are doing, with the lag of their inputs as far as
// the ends of those are known.
func taskStatuses(tasks []dispatch.Status, listed ends.PartitionEnds) []TaskStatus {
	out := make([]TaskStatus, len(tasks))
	for i, t := range tasks {
		s := &out[i]
		s.ID, s.State = t.ID, TaskRestoring
		s.restore(t.Restore)
		if t.Worker != nil {
			s.fill(*t.Worker, listed)
		}
		if t.Stopped != nil {
			s.State, s.Reason = TaskStopped, t.Stopped.Error()
		}
	}
	return out
}

// restore takes what a restore has done and has to do. Of one that is over only what it has done is
// of interest.
func (s *TaskStatus) restore(p restore.Snapshot) {
	s.Restored, s.RestoredBytes, s.Remaining = p.Records, p.Bytes, p.Remaining
	s.RestoreRate, s.RestoreLeft = p.Rate, p.Left
}

// inputStatus tells a committed position, with its lag as far as the end of the input is known.
func inputStatus(in state.Input, listed ends.PartitionEnds) InputStatus {
	s := InputStatus{Topic: in.Topic, Partition: in.Partition, Offset: in.Offset}
	if in.StreamTime != state.NoTime {
		s.StreamTime = time.UnixMilli(in.StreamTime).UTC()
	}
	if end, ok := listed[in.Topic][in.Partition]; ok {
		lag := max(end.HighWatermark-in.Offset, 0)
		s.Lag = &lag
	}
	return s
}

func (s *TaskStatus) fill(r worker.TaskStatus, listed ends.PartitionEnds) {
	s.State, s.Remaining, s.RestoreRate, s.RestoreLeft = TaskRunning, 0, 0, 0
	s.Records, s.DeadLetters = r.Records, r.DeadLetters
	for _, in := range r.Inputs {
		s.Inputs = append(s.Inputs, inputStatus(in, listed))
	}
	if r.Retry != nil {
		s.Retry = &RetryStatus{
			Record: r.Retry.Entry, Attempts: r.Retry.Attempts, Since: r.Retry.Since, Next: r.Retry.Next, Failure: r.Retry.Failure.Error(),
		}
	}
	for _, p := range r.Parked {
		if p.Records > 0 {
			s.Parked = append(s.Parked, ParkedStatus{Topic: p.Topic, Keys: p.Keys, Records: p.Records})
		}
	}
	for c, n := range r.Outcomes {
		if s.Outcomes == nil {
			s.Outcomes = map[string]int64{}
		}
		s.Outcomes[c.Node+"/"+c.Outcome] = n
	}
}

func hangingStatus(f hanging.Finding) HangingStatus {
	h := HangingStatus{ProducerID: f.ProducerID, Epoch: f.Epoch, Partitions: f.Partitions()}
	if f.Named != nil {
		h.TransactionalID = f.Named.TransactionalID
	}
	if len(f.Decision.Reasons) > 0 {
		h.Verdict, h.Reasons = f.Decision.Verdict.String(), f.Decision.Reasons
	}
	return h
}

func addWaits(tasks []TaskStatus, held []waits.Held) {
	for i := range tasks {
		for _, h := range held {
			if slices.Contains(h.Tasks, tasks[i].ID.String()) {
				tasks[i].Waits = append(tasks[i].Waits, WaitStatus{string(h.Kind), h.Topic, h.Partition, h.Since, h.HeldBy(), h.Hanging()})
			}
		}
	}
}

// InstanceStatus asks the instance that runs on a state directory of this machine, through its
// control socket.
func InstanceStatus(ctx context.Context, stateDir string) (Status, error) {
	var s Status
	err := control.Status(ctx, stateDir, &s)
	return s, err
}
