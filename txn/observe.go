package txn

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/pebblestore"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/control"
	"github.com/onceward/onceward/txn/internal/endpoint"
	"github.com/onceward/onceward/txn/internal/health"
	"github.com/onceward/onceward/txn/internal/metrics"
	"github.com/onceward/onceward/txn/internal/worker"
)

const (
	// loopBound is how long a loop may take to come round before the process counts as stuck. One record of a slow handler is part of
	// a turn, so it is far above what a handler should take.
	loopBound = time.Minute
	// endsEvery is how often the ends of the inputs are listed, for the lag.
	endsEvery = 5 * time.Second
	// endsKept is for how many of these periods an answer is shown when no newer one comes.
	endsKept = 6
)

// Handler serves what the process tells of itself: GET /metrics for Prometheus, GET /healthz (503 if a loop is stuck) and GET /readyz (503 with
// the reasons if the process does not do its share). It is for a server of the program's own, which decides who may ask; [Config].HTTP needs
// none. It can be used before, during and after Run.
func (a *App) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", a.metrics.Handler())
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		stuck := health.Check(a.loops(), time.Now(), loopBound)
		answer(w, len(stuck) == 0, struct {
			Status string         `json:"status"`
			Stuck  []health.Stuck `json:"stuck,omitempty"`
		}{word(len(stuck) == 0, "ok", "stuck"), stuck})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		reasons := a.notReady()
		answer(w, len(reasons) == 0, struct {
			Status  string   `json:"status"`
			Reasons []string `json:"reasons,omitempty"`
			// Waits are no reason: what holds an input up is not of this process.
			Waits []string `json:"waits,omitempty"`
		}{word(len(reasons) == 0, "ready", "not ready"), reasons, a.waiting()})
	})
	return mux
}

func word(ok bool, yes, no string) string {
	if ok {
		return yes
	}
	return no
}

// answer writes JSON, with 503 if not all is well.
func answer(w http.ResponseWriter, ok bool, body any) {
	w.Header().Set("Content-Type", "application/json")
	if !ok {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(body) // the only way to fail is a client that has gone away
}

// serveHTTP listens if the configuration says so. close may be called in any case.
func (a *App) serveHTTP() (closeServer func() error, err error) {
	nothing := func() error { return nil }
	if a.cfg.HTTP == "" {
		return nothing, nil
	}
	address, err := endpoint.Parse(a.cfg.HTTP, a.cfg.HTTPExposed)
	if err != nil {
		return nothing, &ConfigError{"HTTP", err.Error()}
	}
	server, err := endpoint.Serve(address, a.Handler(), a.log)
	if err != nil {
		return nothing, err
	}
	a.log.Info("serving /metrics, /healthz and /readyz", "http", server.Addr(), "exposed", address.Exposed)
	a.mu.Lock()
	a.mu.http = server.Addr()
	a.mu.Unlock()
	return server.Close, nil
}

// serveControl listens in the state directory unless the configuration says otherwise. An instance works without the socket, so a failure
// is only logged. close may be called in any case.
func (a *App) serveControl(dir string) (closeServer func() error) {
	nothing := func() error { return nil }
	if a.cfg.NoControl {
		return nothing
	}
	server, err := control.Serve(dir, control.Instance{
		Status: func() any { return a.Status() }, Resume: a.resume, Rebuild: a.rebuildNamed, State: (*states)(a), Rest: a.Handler(),
	})
	if err != nil {
		a.log.Warn("this instance has no control socket", "error", err)
		return nothing
	}
	return server.Close
}

// current returns the session, nil while there is none.
func (a *App) current() *session {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.mu.session
}

// loops are those whose progress tells whether the process is alive.
func (a *App) loops() []*health.Loop {
	s := a.current()
	if s == nil {
		return nil
	}
	loops := []*health.Loop{&s.dispatcher}
	for _, w := range s.workers {
		loops = append(loops, w.Loops()...)
	}
	return loops
}

// notReady says why the process is not doing its share, nothing if it is: a member of the group with all its tasks open, and nothing wrong with
// a topic.
func (a *App) notReady() []string {
	reasons := a.notAtWork()
	for _, alert := range a.alerts.list() {
		reasons = append(reasons, alert.Text)
	}
	return reasons
}

// notAtWork says why not all tasks of the process are open.
func (a *App) notAtWork() []string {
	s := a.current()
	if s != nil {
		member, generation := s.member()
		if g := s.client(); g == nil || !g.HasAssignment() || member == "" || generation < 0 {
			return []string{"the process is not a member of the group yet"}
		}
	}
	status := a.Status() // after the assignment, so that its tasks are seen
	if s == nil || status.State != Running {
		reason := "the application is " + string(status.State)
		if status.Reason != "" {
			reason += ": " + status.Reason
		}
		return []string{reason}
	}
	var reasons []string
	for _, t := range status.Tasks {
		switch t.State {
		case TaskRunning:
		case TaskRestoring:
			reason := fmt.Sprintf("task %s is restoring: %d records read, %d offsets left", t.ID, t.Restored, t.Remaining)
			for _, w := range t.Waits {
				reason += "; " + w.String()
			}
			reasons = append(reasons, reason)
		default:
			reasons = append(reasons, fmt.Sprintf("task %s is %s: %s", t.ID, t.State, t.Reason))
		}
	}
	return reasons
}

// waiting says for which open transactions tasks that work have waited for long.
func (a *App) waiting() []string {
	var out []string
	for _, t := range a.Status().Tasks {
		for _, w := range t.Waits {
			if t.State == TaskRunning && w.HeldBy != "" {
				out = append(out, fmt.Sprintf("task %s: %s", t.ID, w))
			}
		}
	}
	return out
}

// snapshot is what the gauges show.
func (a *App) snapshot() metrics.Snapshot {
	snap := metrics.Snapshot{
		Now: time.Now(), Application: a.topology.Application(), Mode: a.cfg.Mode.String(), Paused: map[string]int{},
		Problems: a.topicProblems(),
	}
	a.mu.Lock()
	snap.Instance = a.mu.instance
	current := a.mu.session
	shared := a.mu.shared
	if shared != nil { // under the lock: it is closed after it was taken from here
		cache := shared.Metrics()
		snap.Cache = &cache
	}
	a.mu.Unlock()
	if shared != nil { // not under the lock: it waits for a database that is being closed
		spent := shared.Spent()
		snap.Memory = &spent
	}
	if current != nil {
		current.snapshot(&snap)
	}
	return snap
}

func (a *App) setShared(shared *pebblestore.Shared) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.shared = shared
}

func (s *session) snapshot(snap *metrics.Snapshot) {
	snap.Hanging = len(s.in.lookout.Found())
	for _, h := range s.in.waits.All() {
		w := metrics.Wait{Kind: string(h.Kind), Holder: metrics.HeldByUnknown, Since: h.Since}
		switch {
		case h.Hanging():
			w.Holder = metrics.HeldByHanging
		case h.Ongoing():
			w.Holder = metrics.HeldByOngoing
		}
		snap.Waits = append(snap.Waits, w)
	}
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
		t := metrics.Task{ID: id, State: string(TaskRestoring), StreamTime: state.NoTime}
		known, adopted := running[id]
		switch {
		case e.stopped != nil:
			t.State = string(TaskStopped)
		case adopted:
			t.State = string(TaskRunning)
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
func (s *session) input(in state.Input, i int, t worker.TaskStatus, ends partitionEnds) metrics.Input {
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

// addLag fills in the lag of the inputs, as far as their ends are known.
func (s *session) addLag(tasks []TaskStatus) {
	ends := s.ends.read(time.Now(), endsEvery*endsKept)
	for _, t := range tasks {
		for i, in := range t.Inputs {
			if end, ok := ends[in.Topic][in.Partition]; ok {
				lag := max(end.HighWatermark-in.Offset, 0)
				t.Inputs[i].Lag = &lag
			}
		}
	}
}

// running collects what the workers know of their tasks.
func (t *taskTable) running(workers []*worker.Worker) map[topology.TaskID]worker.TaskStatus {
	running := map[topology.TaskID]worker.TaskStatus{}
	for _, w := range workers {
		for id, s := range w.Tasks() {
			running[id] = s
		}
	}
	return running
}

// partitionEnds are the ends of input partitions.
type partitionEnds map[string]map[int32]broker.End

// inputEnds are the last ends that were listed.
type inputEnds struct {
	last atomic.Pointer[listedEnds]
}

type listedEnds struct {
	at   time.Time
	ends partitionEnds
}

// read returns the ends unless they are older than kept: no lag is better than a wrong one.
func (e *inputEnds) read(now time.Time, kept time.Duration) partitionEnds {
	last := e.last.Load()
	if last == nil || now.Sub(last.at) > kept {
		return nil
	}
	return last.ends
}

// watchInputs follows for which transactions inputs wait, by each listing that it gets, until the session ends.
func (s *session) watchInputs(listed <-chan map[string]map[int32]broker.End) {
	waiting := inputWaits{}
	defer waiting.over(nil)
	for {
		select {
		case <-s.ctx.Done():
			return
		case ends := <-listed:
			waiting.look(s, ends)
		}
	}
}

// watchEnds lists the ends of all inputs again and again, until the session ends. Fetches would tell them too, but not of partitions
// that are paused, restored or stopped, nor while an open transaction keeps a fetch from returning: exactly when lag is looked at.
func (s *session) watchEnds() {
	var topics []string
	for _, sub := range s.subs {
		for _, src := range sub.Sources {
			topics = append(topics, src.Topic)
		}
	}
	slices.Sort(topics)
	topics = slices.Compact(topics)
	tick := time.NewTicker(endsEvery)
	defer tick.Stop()
	// A look at what holds an input can take long, and each held partition needs one. The listing does not wait for them.
	listed := make(chan map[string]map[int32]broker.End, 1)
	var looking sync.WaitGroup
	looking.Go(func() { s.watchInputs(listed) })
	defer looking.Wait()
	for {
		ctx, cancel := context.WithTimeout(s.ctx, endsEvery)
		ends, err := s.in.cluster.Ends(ctx, topics...)
		cancel()
		if err == nil {
			s.ends.last.Store(&listedEnds{time.Now(), ends})
			select {
			case listed <- ends:
			default: // still at the one before
			}
		} else if s.ctx.Err() == nil {
			s.in.app.log.Debug("the lag is not known", "error", err)
		}
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
	}
}
