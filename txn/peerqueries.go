package txn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/control"
	"github.com/onceward/onceward/txn/internal/peers"
	"github.com/onceward/onceward/txn/internal/queries"
	"github.com/onceward/onceward/txn/internal/report"
	"github.com/onceward/onceward/txn/internal/session"
)

// peerQueries asks other instances for views and for what they do, and answers them.
type peerQueries struct {
	client *http.Client
	views  *queries.Server
	server *http.Server
	ended  chan struct{}
}

const (
	// headerTime bounds the reading of a request's head.
	headerTime = 5 * time.Second
	// idleTime is how long a connection is kept for the next view.
	idleTime = time.Minute
	// idleStreams is how many connections are kept to each instance.
	idleStreams = 16
)

// reportPath is where an instance says what it does. Every other path is a request for a view. An
// older build takes this one for such a request too, and refuses it.
const reportPath = "/report"

// newPeerQueries begins to answer on the streams of peers.
func newPeerQueries(a *App, p *peers.Peers) *peerQueries {
	q := &peerQueries{views: queries.NewServer(instanceViews{a}), ended: make(chan struct{})}
	q.client = &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			instance, _, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			return p.Open(ctx, instance)
		},
		MaxIdleConnsPerHost: idleStreams, IdleConnTimeout: idleTime / 2, DisableCompression: true,
	}}
	mux := http.NewServeMux()
	mux.Handle("/", q.views)
	mux.Handle("GET "+reportPath, report.Handler(a.report))
	q.server = &http.Server{
		Handler: mux, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime,
		ErrorLog: slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
	}
	go func() {
		defer close(q.ended)
		_ = q.server.Serve(p.Streams()) // always ends with ErrServerClosed
	}()
	return q
}

// close ends the server and all connections. It waits for requests at work: they have views.
func (q *peerQueries) close() {
	_ = q.server.Close() // connections that are gone already
	<-q.ended
	q.views.Close()
	q.client.CloseIdleConnections()
}

// ask asks the instance that has a task, and then those that have a copy if that is allowed. err is
// why this instance does not serve it, which is the answer if the plan says that it should.
func (w *watch) ask(ctx context.Context, id graph.TaskID, r queries.Request, err error) (served, error) {
	plan := w.plan.Load()
	if plan == nil {
		return served{}, err
	}
	own := w.in.dir.Instance()
	owner := plan.Owner(id)
	var instances []string
	switch owner {
	case own:
	case "":
		err = fmt.Errorf("%w: the plan of the group names no instance for task %s", ErrNotServing, id)
	default:
		instances = append(instances, owner)
	}
	for _, c := range plan.Copies {
		if r.Standby > 0 && c.Task == id && c.Member != own && !slices.Contains(instances, c.Member) {
			instances = append(instances, c.Member)
		}
	}
	wait := queries.AnswerMax
	if len(instances) > 1 {
		wait = firstWait // one that is frozen must not keep the others from answering
	}
	for {
		var silent []string
		for _, instance := range instances {
			got, askErr := w.askInstance(ctx, instance, r, wait)
			if askErr == nil {
				return got, nil
			}
			if instance == owner {
				err = askErr
			}
			if !errors.Is(askErr, ErrNotServing) || ctx.Err() != nil {
				return served{}, askErr
			}
			if errors.Is(askErr, queries.ErrNoAnswer) {
				silent = append(silent, instance)
			}
		}
		if wait == queries.AnswerMax || len(silent) == 0 {
			return served{}, err
		}
		instances, wait = silent, queries.AnswerMax
	}
}

// firstWait is how long an instance has to answer before the next one is asked. An answer takes
// some milliseconds under load.
const firstWait = 500 * time.Millisecond

func (w *watch) askInstance(ctx context.Context, instance string, r queries.Request, wait time.Duration) (served, error) {
	client := queries.Client{
		HTTP: w.queries.client, URL: "http://" + instance + "/view", Wait: wait,
		Failed: func(err error) error { return answered(ctx, "instance "+instance, err) },
	}
	return openAt(ctx, client, r, w.in.app.reads(r))
}

// openAt takes a view at another process, which keeps the bounds. reads is that of contains.
func openAt(ctx context.Context, client queries.Client, r queries.Request, reads func(queries.Bound) bool) (served, error) {
	v, err := client.Open(ctx, r)
	if err != nil {
		return served{}, err
	}
	got := served{view: v, at: v.At()}
	if refusal := got.at.Stale; refusal != nil {
		got.stale = session.Named(refusal, refusal.Reason)
	}
	return got.within(r, reads) // another build may not know of a bound
}

// answered gives an error of another process its identity back. An answer that does not come may
// come from another instance later.
func answered(ctx context.Context, from string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", from, ctx.Err())
	}
	if refusal, ok := errors.AsType[*queries.Refusal](err); ok {
		return session.Named(fmt.Errorf("%s: %w", from, refusal), refusal.Reason)
	}
	if !errors.Is(err, queries.ErrNoAnswer) {
		return fmt.Errorf("%s: %w", from, err) // what answers is no handler
	}
	return fmt.Errorf("%w: %s: %w", ErrNotServing, from, err)
}

// instanceViews are the views that this instance gives to others: of tasks that it owns, and of its
// copies. It asks no other instance.
type instanceViews struct{ a *App }

// View is part of queries.Source.
func (v instanceViews) View(ctx context.Context, r queries.Request) (queries.At, state.View, error) {
	if r.RecordKey != nil {
		return queries.At{}, nil, errors.New("an instance is asked for a partition")
	}
	return told(v.a.here(ctx, r))
}

// told is what another process is told of a view.
func told(got served, err error) (queries.At, state.View, error) {
	if err == nil && got.stale != nil {
		got.at.Stale = &queries.Refusal{Reason: session.Reader{}.Reason(got.stale), Text: got.stale.Error()}
	}
	return got.at, got.view, err
}

// Reason is part of queries.Source.
func (instanceViews) Reason(err error) (string, int) { return reasonOf(err) }

// reasonOf names an error for other processes. The status is 503 for what passes.
func reasonOf(err error) (reason string, status int) {
	reason = session.Reader{}.Reason(err)
	switch {
	case errors.Is(err, queries.ErrBusy):
		return control.ReasonNotServing, http.StatusServiceUnavailable
	case errors.Is(err, ErrNotServing), errors.Is(err, state.ErrClosed):
		return reason, http.StatusServiceUnavailable
	case errors.Is(err, state.ErrUnknownStore), errors.Is(err, ErrUnknownPartition):
		return reason, http.StatusNotFound
	case errors.Is(err, session.ErrNotRead):
		return reason, http.StatusBadRequest
	}
	return reason, http.StatusInternalServerError
}
