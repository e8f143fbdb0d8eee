package session

import (
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/pebblestore"
	"github.com/onceward/onceward/txn/internal/health"
	"github.com/onceward/onceward/txn/internal/metrics"
	"github.com/onceward/onceward/txn/internal/worker"
)

// Tasks returns what the tasks of the session are doing, in their order.
func (s *Session) Tasks() []TaskStatus { return s.tasks.status(s.workers) }

// Joined reports whether the process is a member of the group and has an assignment.
func (s *Session) Joined() bool {
	member, generation := s.member()
	g := s.client()
	return g != nil && g.HasAssignment() && member != "" && generation >= 0
}

// Loops are those whose progress tells whether the session is alive.
func (s *Session) Loops() []*health.Loop {
	loops := []*health.Loop{&s.dispatcher}
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
	ends := s.ends.read(snap.Now, endsEvery*endsKept)
	databases := map[int]state.Database{}
	s.tasks.RLock()
	running := s.tasks.running(s.workers)
	used, most := s.restorer.Memory()
	snap.Restoring = &metrics.RestoreMemory{Bytes: used, BytesMax: most}
	for id, e := range s.tasks.entries {
		t := metrics.Task{ID: id, State: metrics.TaskRestoring, StreamTime: state.NoTime}
		known, adopted := running[id]
		switch {
		case e.stopped != nil:
			t.State = metrics.TaskStopped
		case adopted:
			t.State = metrics.TaskRunning
		default:
			p := e.progress.Read(snap.Now)
			t.Restore = &metrics.Restoring{Remaining: p.Remaining, Rate: p.Rate}
		}
		t.Parked = known.Parked
		for i, in := range known.Inputs {
			t.Inputs = append(t.Inputs, s.input(in, i, known, ends))
			t.StreamTime = max(t.StreamTime, in.StreamTime)
		}
		if e.task != nil {
			t.Gauges = e.task.Spec.Graph.Gauges()
		}
		if e.database != nil {
			databases[len(snap.Tasks)] = e.database
		}
		snap.Tasks = append(snap.Tasks, t)
	}
	s.tasks.RUnlock()
	for why, n := range s.pauses.count() {
		snap.Paused[pauseReasons[why]] = n
	}
	for i, db := range databases { // Pebble has locks of its own
		if m, ok := pebblestore.MetricsOf(db); ok {
			snap.Tasks[i].Store = &m
		}
	}
}

// pauseReasons are the reasons as metrics name them.
var pauseReasons = map[pauseReason]string{
	queueFull: metrics.PausedQueueFull, restoring: metrics.PausedRestoring, retrying: metrics.PausedRetrying, taskHalted: metrics.PausedStopped,
}

// input fills in what is known of one input of an open task. The caller holds the task table.
func (s *Session) input(in state.Input, i int, t worker.TaskStatus, ends PartitionEnds) metrics.Input {
	out := metrics.Input{
		Topic: in.Topic, Partition: in.Partition, Committed: in.Offset,
		HighWatermark: metrics.Unknown, LastStable: metrics.Unknown, Oldest: state.NoTime,
	}
	if end, ok := ends[in.Topic][in.Partition]; ok {
		out.HighWatermark, out.LastStable = end.HighWatermark, end.LastStable
	}
	if i < len(t.Oldest) {
		out.Oldest = t.Oldest[i]
	}
	if r := s.tasks.routes[partitionKey{in.Topic, in.Partition}]; r != nil {
		out.QueueBytes = r.task.Waiting(r.input)
	}
	return out
}
