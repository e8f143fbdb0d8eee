package txn

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/onceward/onceward/state/pebblestore"
	"github.com/onceward/onceward/txn/internal/console"
	"github.com/onceward/onceward/txn/internal/control"
	"github.com/onceward/onceward/txn/internal/endpoint"
	"github.com/onceward/onceward/txn/internal/globaltable"
	"github.com/onceward/onceward/txn/internal/health"
	"github.com/onceward/onceward/txn/internal/metrics"
	"github.com/onceward/onceward/txn/internal/session"
)

// loopBound is how long a loop may take to come round before the process counts as stuck. One
// record of a slow handler is part of a turn, so it is far above what a handler should take.
const loopBound = time.Minute

// Handler serves what the process tells of itself:
//
//   - GET /metrics: metrics for Prometheus.
//   - GET /healthz: 503 if a loop is stuck.
//   - GET /readyz: 503 with the reasons if the process does not do its share.
//   - GET /console/: a page for people, of all instances of the application. The others are asked
//     over the connections of peers. [Config].Console says what it shows and does beside that.
//
// It is for a server of the program's own, which controls the access; [Config].HTTP needs none. A
// server that has it below another path strips that path. It can be used before, during and after
// Run.
//
// The server has to check who asks, or at least the Host header. Otherwise any web site reaches it
// through a browser, by a name that resolves to the address of the server (DNS rebinding).
func (a *App) Handler() http.Handler { return a.handler(a.consoleSource()) }

// handler is Handler with a source of the console.
func (a *App) handler(src console.Source) http.Handler {
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
	mux.Handle("/console/", http.StripPrefix("/console", console.Handler(src)))
	return mux
}

// consoleSource is where the console gets what it shows.
func (a *App) consoleSource() console.Source {
	src := console.Source{
		Topology: a.topology.Description(), Group: a.group, Settings: a.cfg.settings(), DeadLetterTopic: a.topology.DeadLetterTopic(),
		Letters: a.cfg.Console.DeadLetters, Actions: a.cfg.Console.Actions, Logger: a.log,
		Work: a.consoleWork,
	}
	if a.cfg.Console.Contents {
		src.Content = a.content
		src.Stores, src.Rows = a.consoleRows(src.Topology)
	}
	return src
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
	address.Actions = a.cfg.Console.Actions
	server, err := endpoint.Serve(address, a.Handler(), a.log)
	if err != nil {
		return nothing, err
	}
	a.log.Info("serving /metrics, /healthz, /readyz and /console/", "http", server.Addr(), "exposed", address.Exposed)
	a.mu.Lock()
	a.mu.http = server.Addr()
	a.mu.Unlock()
	return func() error {
		a.consoleWork.Wait(redriveWait) // it would end with its connection
		return server.Close()
	}, nil
}

// redriveWait is how long the end of Run waits for a redrive of the console.
const redriveWait = 10 * time.Second

// serveControl listens in the state directory unless the configuration says otherwise. An instance
// works without the socket, so a failure is only logged. close may be called in any case.
func (a *App) serveControl(dir string) (closeServer func() error) {
	nothing := func() error { return nil }
	if a.cfg.NoControl {
		return nothing
	}
	page := a.consoleSource()
	page.Actions = false // the socket serves GET requests only
	server, err := control.Serve(dir, control.Instance{
		Status: func() any { return a.Status() }, Resume: a.resume, Rebuild: a.rebuildNamed, State: a.reader(), Rest: a.handler(page),
	})
	if err != nil {
		a.log.Warn("this instance has no control socket", "error", err)
		return nothing
	}
	return server.Close
}

// current returns the session, nil while there is none.
func (a *App) current() *session.Session {
	s, _ := a.membership()
	return s
}

// membership returns the session and the instance that it belongs to, nil while there is none.
func (a *App) membership() (*session.Session, *instance) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.mu.session, a.mu.in
}

// loops are those whose progress tells whether the process is alive.
func (a *App) loops() []*health.Loop {
	s := a.current()
	if s == nil {
		return nil
	}
	return s.Loops()
}

// notReady says why the process is not doing its share. It returns nothing if the process is a
// member of the group with all its tasks open, and no topic has a problem.
func (a *App) notReady() []string {
	reasons := a.notAtWork()
	for _, alert := range a.allAlerts() {
		reasons = append(reasons, alert.Text)
	}
	return reasons
}

// notAtWork says why not all tasks of the process are open.
func (a *App) notAtWork() []string {
	s := a.current()
	status := a.Status()
	if s == nil || status.State != Running {
		reason := "the application is " + string(status.State)
		if status.Reason != "" {
			reason += ": " + status.Reason
		}
		for _, g := range status.GlobalTables {
			if g.State == string(globaltable.Restoring) {
				reason += fmt.Sprintf("; global table %s is restoring: %d records read, %d offsets left", g.Store, g.Records, g.Remaining)
			}
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
		Problems: a.topicProblems(), GlobalTables: a.globalGauges(),
	}
	a.mu.Lock()
	snap.Instance = a.mu.instance
	current, in := a.mu.session, a.mu.in
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
		in.snapshot(&snap)
		current.Gauges(&snap)
	}
	return snap
}

func (a *App) setShared(shared *pebblestore.Shared) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.shared = shared
}

// snapshot fills in what the gauges show of transactions that hang or are waited for.
func (in *instance) snapshot(snap *metrics.Snapshot) {
	snap.Hanging = len(in.hangwatch.Found())
	for _, h := range in.waits.All() {
		w := metrics.Wait{Kind: string(h.Kind), Holder: metrics.HeldByUnknown, Since: h.Since}
		switch {
		case h.Hanging():
			w.Holder = metrics.HeldByHanging
		case h.Ongoing():
			w.Holder = metrics.HeldByOngoing
		}
		snap.Waits = append(snap.Waits, w)
	}
}
