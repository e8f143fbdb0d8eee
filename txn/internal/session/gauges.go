package session

import (
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/pebblestore"
	"github.com/onceward/onceward/txn/internal/dispatch"
	"github.com/onceward/onceward/txn/internal/ends"
	"github.com/onceward/onceward/txn/internal/health"
	"github.com/onceward/onceward/txn/internal/metrics"
	"github.com/onceward/onceward/txn/internal/worker"
)

// Tasks returns what the tasks of the session are doing, in their order.
func (s *Session) Tasks() []dispatch.Status { return s.tasks.Status(s.workers) }

// Ends returns the ends of all inputs, as of a few seconds ago; an end that is not known is
// missing.
func (s *Session) Ends() ends.PartitionEnds { return s.ends.Ends() }

// Joined reports whether the process is a member of the group and has an assignment.
func (s *Session) Joined() bool {
	member, generation := s.member()
	g := s.client()
	return g != nil && g.HasAssignment() && member != "" && generation >= 0
}

// Loops are those whose progress tells whether the session is alive.
func (s *Session) Loops() []*health.Loop {
	loops := []*health.Loop{s.tasks.Loop()}
	for _, w := range s.workers {
		loops = append(loops, w.Loops()...)
	}
	return loops
}

// Gauges fills in what the gauges show of the session.
func (s *Session) Gauges(snap *metrics.Snapshot) {
	for i, w := range s.workers {
		g := w.Gauges()
		snap.Workers = append(snap.Workers, metrics.WorkerGauges{
			ID: i, OverlayBytes: g.OverlayBytes, RoundBytes: g.RoundBytes, CommitTime: g.CommitTime, TransactionSince: g.TransactionSince,
		})
	}
	for _, c := range s.copies.Status() {
		snap.Standbys = append(snap.Standbys, string(c.State()))
	}
	listed := s.ends.Ends()
	used, most := s.restorer.Memory()
	snap.Restoring = &metrics.RestoreMemory{Bytes: used, BytesMax: most}
	for _, now := range s.Tasks() {
		t := metrics.Task{ID: now.ID, State: metrics.TaskRestoring, StreamTime: state.NoTime}
		switch {
		case now.Stopped != nil:
			t.State = metrics.TaskStopped
		case now.Worker != nil:
			t.State = metrics.TaskRunning
		default:
			t.Restore = &metrics.Restoring{Remaining: now.Restore.Remaining, Rate: now.Restore.Rate}
		}
		if now.Worker != nil {
			t.Parked = now.Worker.Parked
			for i, in := range now.Worker.Inputs {
				t.Inputs = append(t.Inputs, s.input(in, i, *now.Worker, listed))
				t.StreamTime = max(t.StreamTime, in.StreamTime)
			}
		}
		if now.Task != nil {
			t.Gauges = now.Task.Spec.Graph.Gauges()
		}
		if now.Database != nil {
			if m, ok := pebblestore.MetricsOf(now.Database); ok {
				t.Store = &m
			}
		}
		snap.Tasks = append(snap.Tasks, t)
	}
	for why, n := range s.tasks.Paused() {
		snap.Paused[why] = n
	}
}

// input fills in what is known of one input of an open task.
func (s *Session) input(in state.Input, i int, t worker.TaskStatus, listed ends.PartitionEnds) metrics.Input {
	out := metrics.Input{
		Topic: in.Topic, Partition: in.Partition, Committed: in.Offset,
		HighWatermark: metrics.Unknown, LastStable: metrics.Unknown, Oldest: state.NoTime,
	}
	if end, ok := listed[in.Topic][in.Partition]; ok {
		out.HighWatermark, out.LastStable = end.HighWatermark, end.LastStable
	}
	if i < len(t.Oldest) {
		out.Oldest = t.Oldest[i]
	}
	if reader, input := s.tasks.Route(in.Topic, in.Partition); reader != nil {
		out.QueueBytes = reader.Waiting(input)
	}
	return out
}
