package pgrequests

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/processors/postgres"
	"github.com/onceward/onceward/processors/postgres/internal/work"
	"github.com/onceward/onceward/topology"
)

// Func answers a request. Its writes in the transaction are committed with its answer, or rolled
// back: see the package documentation. It may be called several times for one request, and cannot
// commit or roll back. The transaction may be idle for [Lock] between two statements. The handler
// answers in place of a Func that returns an error, and never sends the error.
type Func func(w http.ResponseWriter, r *http.Request, tx pgx.Tx) error

// HTTP says how a handler treats requests. Scope is required.
type HTTP struct {
	// Scope returns the scope of a request without its key. Tenant and Client are what the service
	// has verified. An empty Operation is replaced by the pattern of the request, or its method.
	Scope func(r *http.Request) Scope
	// Unquoted accepts keys without quotation marks too.
	Unquoted bool
	// BodyBytes is how long a body may be, 1 MiB by default. It is kept in memory while the request
	// is at work.
	BodyBytes int64
	// Retryable says of an answer of 400 or above whether it is left to a retry. By default it is
	// that of 408, 425, 429 and 5xx.
	Retryable func(status int) bool
	// Location returns where a client can ask what became of a request that is in progress. With it
	// the answer is 202 and not 409.
	Location func(r *http.Request, s Scope) string
	// RetryAfter is after how long a client is told to come back, a second by default.
	RetryAfter time.Duration
	// Isolation is that of the transactions, READ COMMITTED by default.
	Isolation pgx.TxIsoLevel
	// Logger says what failed, without a byte of a request or an answer. None by default.
	Logger *slog.Logger
}

// The limits of a request.
const (
	bodyBytesDefault = 1 << 20
	attemptsMax      = 5
	pauseMin         = 10 * time.Millisecond
	pauseMax         = 200 * time.Millisecond
)

// Handler returns a handler that calls f once for each request, as seen from outside. It does not
// look at the method: register it where an operation needs a key, such as "POST /payments".
func (s *Store) Handler(c HTTP, f Func) (http.Handler, error) {
	var errs []error
	if c.Scope == nil {
		errs = append(errs, errors.New("HTTP.Scope is nil"))
	}
	if f == nil {
		errs = append(errs, errors.New("the Func is nil"))
	}
	if c.BodyBytes < 0 {
		errs = append(errs, fmt.Errorf("HTTP.BodyBytes is 1 or more, not %d", c.BodyBytes))
	}
	if c.RetryAfter < 0 {
		errs = append(errs, fmt.Errorf("HTTP.RetryAfter is above zero, not %s", c.RetryAfter))
	}
	switch c.Isolation {
	case "":
		c.Isolation = pgx.ReadCommitted
	case pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable:
	default:
		errs = append(errs, fmt.Errorf("HTTP.Isolation is read committed, repeatable read or serializable, not %q", c.Isolation))
	}
	if len(errs) > 0 {
		return nil, s.failed("handler", errors.Join(errs...))
	}
	if c.BodyBytes == 0 {
		c.BodyBytes = bodyBytesDefault
	}
	if c.RetryAfter == 0 {
		c.RetryAfter = time.Second
	}
	if c.Retryable == nil {
		c.Retryable = retryable
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Logger = c.Logger.With("service", s.service)
	return &handler{
		store: s, config: c, f: f, retryAfter: strconv.FormatInt(int64((c.RetryAfter+time.Second-1)/time.Second), 10),
		beginSQL: work.Begin(c.Isolation, s.lock),
	}, nil
}

func retryable(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return status >= http.StatusInternalServerError
}

type handler struct {
	store      *Store
	config     HTTP
	f          Func
	beginSQL   string
	retryAfter string // seconds
}

// call is one request and what it takes to answer it.
type call struct {
	http *http.Request
	body []byte
	Request
}

// request returns the request as a Func may have it: one that shares nothing that can be used up.
func (c *call) request() *http.Request {
	r := c.http.Clone(c.http.Context())
	r.Body = io.NopCloser(bytes.NewReader(c.body))
	return r
}

// ServeHTTP answers a request.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c, refusal := h.accept(w, r)
	if c == nil {
		refusal.send(w)
		return
	}
	a := h.answer(c)
	a.send(w)
}

// accept reads a request, or returns nil and the answer of one that is refused.
func (h *handler) accept(w http.ResponseWriter, r *http.Request) (*call, Response) {
	refuse := func(status int, kind string, err error) (*call, Response) {
		return nil, problem(status, kind, err.Error())
	}
	key, err := keyOf(r.Header.Values(KeyHeader), h.config.Unquoted)
	if errors.Is(err, errKeyMissing) {
		return refuse(http.StatusBadRequest, KeyMissing, err)
	} else if err != nil {
		return refuse(http.StatusBadRequest, KeyMalformed, err)
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.config.BodyBytes))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return refuse(http.StatusRequestEntityTooLarge, BodyTooLarge, fmt.Errorf("the body has more than %d bytes", h.config.BodyBytes))
	} else if err != nil {
		return refuse(http.StatusBadRequest, BodyUnreadable, errors.New("the body did not arrive as a whole"))
	}
	c := &call{http: r, body: body, Request: Request{Hash: hashHTTP(r, body)}}
	c.Scope = h.config.Scope(c.request())
	c.Scope.Key = key
	for _, name := range []string{r.Pattern, r.Method} {
		if c.Scope.Operation == "" {
			c.Scope.Operation = name
		}
	}
	if err := c.Scope.check(); err != nil {
		h.config.Logger.Warn("the scope of a request cannot be stored", "operation", r.Pattern, "reason", work.Reason(err))
		return refuse(http.StatusBadRequest, ScopeUnusable, errors.New(work.Reason(err)))
	}
	return c, Response{}
}

// answer has the effect of a request unless a copy has had it, and returns the answer.
func (h *handler) answer(c *call) Response {
	ctx := c.http.Context()
	doubt := false
	for attempt := 1; ; attempt++ {
		a, err := h.transact(ctx, c)
		if err == nil {
			return a
		}
		o, again := errors.AsType[*outage](err)
		switch {
		case errors.Is(err, errInProgress) && doubt && attempt < attemptsMax: // the server may not have ended the transaction in doubt
		case errors.Is(err, errInProgress):
			return h.comeBack(c, RequestInProgress, "a copy of the request is at work; send the request again later")
		case !again || attempt == attemptsMax:
			return h.giveUp(ctx, c, err)
		default:
			o.counter.Inc()
			doubt = doubt || o.counter == h.store.retryCommit
			h.config.Logger.Warn("a request is tried again", "operation", c.Scope.Operation, "attempt", attempt, "reason", work.Reason(err))
		}
		if !work.Wait(ctx, nil, work.Pause(attempt, pauseMin, pauseMax)) {
			return h.giveUp(ctx, c, ctx.Err())
		}
	}
}

// transact has the effect of a request in one transaction, or returns the answer that it has. An
// error is an *outage if it is worth another attempt.
func (h *handler) transact(ctx context.Context, c *call) (a Response, err error) {
	tx, claim, a, err := h.begin(ctx, c)
	if tx == nil {
		return a, err
	}
	defer work.Rollback(ctx, tx)
	rec := &recorder{header: http.Header{}}
	if err := h.f(rec, c.request(), work.Lend(tx)); err != nil {
		return Response{}, h.outageOf(tx, err)
	}
	if a, err = rec.response(); err != nil {
		return Response{}, err
	}
	if a.Status >= http.StatusBadRequest {
		work.Rollback(ctx, tx)
		status := StatusFailedTerminal
		if h.config.Retryable(a.Status) {
			status = StatusFailedRetryable
		}
		return h.fail(ctx, c, status, a)
	}
	if err := work.LeftBy(tx.Conn()); err != nil {
		return Response{}, err
	}
	return a, h.finish(ctx, tx, func(ctx context.Context) error { return h.store.Complete(ctx, tx, claim, a) })
}

// fail stores that a request has failed, and returns the answer. A copy that has started since the
// effect was rolled back has the say.
func (h *handler) fail(ctx context.Context, c *call, status Status, a Response) (Response, error) {
	tx, claim, stored, err := h.begin(ctx, c)
	if tx != nil {
		defer work.Rollback(ctx, tx)
		stored, err = a, h.finish(ctx, tx, func(ctx context.Context) error { return h.store.Fail(ctx, tx, claim, status, a) })
	}
	if err != nil && status == StatusFailedRetryable { // to the client it says the same
		h.config.Logger.Warn("a failure could not be stored", "operation", c.Scope.Operation, "reason", work.Reason(err))
		return a, nil
	}
	return stored, err
}

// begin starts a request in a transaction of its own. Without a transaction it returns what the
// request is answered instead.
func (h *handler) begin(ctx context.Context, c *call) (tx pgx.Tx, claim Claim, a Response, err error) {
	tx, err = h.store.pool.BeginTx(ctx, pgx.TxOptions{BeginQuery: h.beginSQL})
	if err != nil {
		if err = h.store.failed("start", work.Failed("begin", err)); postgres.Unavailable(err) {
			err = &outage{err, h.store.retryLost}
		}
		return nil, Claim{}, Response{}, err
	}
	start, err := h.store.StartOrReplay(ctx, tx, c.Request)
	if err == nil && start.Outcome == Started {
		return tx, start.Claim, Response{}, nil
	}
	if err != nil {
		err = h.outageOf(tx, err)
	} else {
		a, err = h.refuse(c, start)
	}
	work.Rollback(ctx, tx)
	return nil, Claim{}, a, err
}

// finish ends a request and commits, whether or not the client is there.
func (h *handler) finish(ctx context.Context, tx pgx.Tx, end func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.store.lock)
	defer cancel()
	if err := end(ctx); err != nil {
		return h.outageOf(tx, err)
	}
	err := tx.Commit(ctx)
	if err == nil {
		return nil
	}
	rolledBack := work.RolledBack(err)
	err = h.store.failed("commit", work.Failed("commit", err))
	switch {
	case work.Contended(err):
		return &outage{err, h.store.retryContention}
	case rolledBack:
		return err
	}
	return &outage{err, h.store.retryCommit}
}

// refuse returns the answer to a request that was not started.
func (h *handler) refuse(c *call, start Start) (Response, error) {
	switch start.Outcome {
	case Replayed:
		a := start.Response
		if a.Status < http.StatusOK || a.Status > 999 { // it was ended without an answer of HTTP
			return problem(http.StatusConflict, KeyExpired, "the request was handled, and no answer is stored; use a new key for a new request"), nil
		}
		if a.Header == nil {
			a.Header = http.Header{}
		}
		a.Header[ReplayedHeader] = []string{"true"}
		return a, nil
	case Conflict:
		h.config.Logger.Warn("a key was used for another request", "operation", c.Scope.Operation)
		return problem(http.StatusConflict, KeyReused, "the key was used for another request; use a new key for a new request"), nil
	case Expired:
		return problem(http.StatusConflict, KeyExpired, "the request was answered, and the answer is not stored any more; use a new key for a new request"), nil
	case Unknown:
		return h.comeBack(c, OutcomeUnknown, "it is not known yet whether the request has had its effect; send it again later"), nil
	default: // InProgress
		return Response{}, errInProgress
	}
}

// comeBack is the answer to a request that has no answer yet.
func (h *handler) comeBack(c *call, kind, detail string) Response {
	a := problem(http.StatusConflict, kind, detail)
	if h.config.Location != nil {
		a = Response{Status: http.StatusAccepted, Header: http.Header{"Location": {h.config.Location(c.request(), c.Scope)}, "Cache-Control": {"no-store"}}}
	}
	a.Header["Retry-After"] = []string{h.retryAfter}
	return a
}

// giveUp is the answer to a request that could not be handled.
func (h *handler) giveUp(ctx context.Context, c *call, err error) Response {
	class := postgres.ClassOf(err)
	a := problem(http.StatusInternalServerError, Failed, "the request could not be handled, and has had no effect")
	if class == topology.Transient || class == topology.Overload {
		a = problem(http.StatusServiceUnavailable, Failed, "the request cannot be handled at the moment; send it again later")
		a.Header["Retry-After"] = []string{h.retryAfter}
	}
	if errors.Is(ctx.Err(), context.Canceled) { // the client is gone
		return a
	}
	h.config.Logger.Error("a request could not be handled", "operation", c.Scope.Operation, "class", class, "reason", work.Reason(err))
	stored, err := h.fail(ctx, c, StatusFailedRetryable, a)
	if err != nil {
		return a
	}
	return stored
}
