package pgrequests_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/onceward/onceward/processors/postgres/internal/pgtest"
	"github.com/onceward/onceward/processors/postgres/pgrequests"
)

// service is an HTTP service whose operation writes one effect.
type service struct {
	t     *testing.T
	db    *pgtest.Database
	pool  *pgxpool.Pool
	store *pgrequests.Store
	mux   http.Handler

	mu    sync.Mutex
	calls int
	// do comes after the effect. It may answer, fail or panic; by default it answers with 201 and
	// the number of the call.
	do func(w http.ResponseWriter, r *http.Request, tx pgx.Tx) error
}

// newService returns a service on a pool of its own, or on the given one.
func newService(t *testing.T, db *pgtest.Database, pool *pgxpool.Pool, c pgrequests.HTTP, opts ...pgrequests.Option) *service {
	t.Helper()
	if pool == nil {
		pool = db.NewPool(t, named)
	}
	db.Exec(t, "CREATE TABLE IF NOT EXISTS effects (key text, body text)")
	s := &service{t: t, db: db, pool: pool, store: newStore(t, pool, opts...)}
	if c.Scope == nil {
		c.Scope = func(r *http.Request) pgrequests.Scope { return pgrequests.Scope{Client: r.Header.Get("Client")} }
	}
	h, err := s.store.Handler(c, s.pay)
	must(t, err)
	mux := http.NewServeMux()
	mux.Handle("POST /payments", h)
	mux.Handle("POST /accounts/{account}/payments", h)
	s.mux = mux
	return s
}

const application = "service"

var named = pgtest.Named(application)

// pay has the effect.
func (s *service) pay(w http.ResponseWriter, r *http.Request, tx pgx.Tx) error {
	s.mu.Lock()
	s.calls++
	n, do := s.calls, s.do
	s.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(r.Context(), "INSERT INTO effects VALUES ($1, $2)", r.Header.Get(pgrequests.KeyHeader), string(body)); err != nil {
		return err
	}
	if do != nil {
		return do(w, r, tx)
	}
	return created(w, n)
}

func created(w http.ResponseWriter, n int) error {
	w.Header().Set("Location", fmt.Sprint("/payments/", n))
	w.WriteHeader(http.StatusCreated)
	_, err := fmt.Fprint(w, "payment ", n)
	return err
}

// post sends a request with a key.
func (s *service) post(key, body string, change ...func(r *http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(context.WithoutCancel(s.t.Context()), http.MethodPost, "/payments", strings.NewReader(body))
	r.Header.Set(pgrequests.KeyHeader, `"`+key+`"`)
	for _, c := range change {
		c(r)
	}
	w := httptest.NewRecorder()
	s.mux.ServeHTTP(w, r)
	return w
}

// effects compares the number of effects.
func (s *service) effects(want int64) {
	s.t.Helper()
	if n := s.db.Int(s.t, "SELECT count(*) FROM effects"); n != want {
		s.t.Errorf("%d effects, want %d", n, want)
	}
}

// is compares an answer, whose body begins with text.
func is(t testing.TB, what string, w *httptest.ResponseRecorder, status int, text string) {
	t.Helper()
	if w.Code != status || !strings.HasPrefix(w.Body.String(), text) {
		t.Errorf("%s: the answer is %d, %q, want %d, %q", what, w.Code, w.Body, status, text)
	}
}

// isProblem compares an answer that has a problem.
func isProblem(t testing.TB, what string, w *httptest.ResponseRecorder, status int, kind string) {
	t.Helper()
	var p struct {
		Type, Title, Detail string
		Status              int
	}
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != status || p.Status != status || p.Type != kind || p.Title == "" || p.Detail == "" ||
		w.Header().Get("Content-Type") != "application/problem+json" {
		t.Errorf("%s: the answer is %d, %s, want %d and a problem of type %s", what, w.Code, w.Body, status, kind)
	}
}

// TestReplayed: a retry has the first answer, with its headers, and no second effect. Row of the
// failure matrix: replay from earliest. Requirement M2.
func TestReplayed(t *testing.T) {
	s := newService(t, pgtest.New(t), nil, pgrequests.HTTP{})
	first := s.post("a", "10")
	is(t, "the first", first, 201, "payment 1")
	if first.Header().Get(pgrequests.ReplayedHeader) != "" {
		t.Error("the first answer is said to be replayed")
	}
	for range 2 {
		again := s.post("a", "10")
		is(t, "the retry", again, 201, "payment 1")
		if again.Header().Get(pgrequests.ReplayedHeader) != "true" || again.Header().Get("Location") != "/payments/1" {
			t.Errorf("the headers of the retry are %v", again.Header())
		}
	}
	is(t, "another key", s.post("b", "10"), 201, "payment 2")
	is(t, "another client", s.post("a", "10", func(r *http.Request) { r.Header.Set("Client", "c") }), 201, "payment 3")
	isProblem(t, "another body", s.post("a", "11"), 409, pgrequests.KeyReused)
	s.effects(3)
	if e, found, err := s.store.Find(t.Context(), pgrequests.Scope{Operation: "POST /payments", Key: "a"}); !found || err != nil || e.Response.Status != 201 {
		t.Errorf("the operation is not the pattern: %+v, %v", e, err)
	}
}

// TestKeys: the key is a string of a structured field. Requirement M2.
func TestKeys(t *testing.T) {
	db := pgtest.New(t)
	strict := newService(t, db, nil, pgrequests.HTTP{})
	lax := newService(t, db, nil, pgrequests.HTTP{Unquoted: true})
	lines := func(lines ...string) func(r *http.Request) {
		return func(r *http.Request) {
			r.Header.Del(pgrequests.KeyHeader)
			for _, l := range lines {
				r.Header.Add(pgrequests.KeyHeader, l)
			}
		}
	}
	for _, s := range []*service{strict, lax} {
		isProblem(t, "no key", s.post("", "", lines()), 400, pgrequests.KeyMissing)
		for _, malformed := range [][]string{
			{""}, {`""`}, {`"`}, {`"a`}, {`a"`}, {`"a"b"`}, {`"a";p=1`}, {`"a", "b"`}, {`"a"`, `"a"`}, {`"a\b"`}, {`"a\"`}, {"\"\u00e4\""}, {"\"a\tb\""},
			{`"` + strings.Repeat("k", 256) + `"`}, {"a b"}, {`a\b`}, {"a;b"}, {"a,b"}, {strings.Repeat("k", 256)},
		} {
			isProblem(t, fmt.Sprint(malformed), s.post("", "", lines(malformed...)), 400, pgrequests.KeyMalformed)
		}
	}
	strict.effects(0)
	isProblem(t, "unquoted", strict.post("", "", lines("abc")), 400, pgrequests.KeyMalformed)
	is(t, "unquoted", lax.post("", "", lines("abc")), 201, "payment 1")
	is(t, "quoted", lax.post("", "", lines(` "abc" `)), 201, "payment 1")
	is(t, "the longest", strict.post(strings.Repeat("k", 255), ""), 201, "")
	is(t, "escapes", strict.post("", "", lines(`"a \"b\" \\c~"`)), 201, "")
	if _, found, err := strict.store.Find(t.Context(), pgrequests.Scope{Operation: "POST /payments", Key: `a "b" \c~`}); !found || err != nil {
		t.Errorf("the key with escapes is not there: %v", err)
	}
}

// TestSameRequest: what does not change the meaning of a request does not make it another one, and
// everything else does. Requirement M2.
func TestSameRequest(t *testing.T) {
	s := newService(t, pgtest.New(t), nil, pgrequests.HTTP{})
	at := func(target, media string) func(r *http.Request) {
		return func(r *http.Request) {
			other := httptest.NewRequest(http.MethodPost, target, nil)
			r.URL = other.URL
			r.Header.Set("Content-Type", media)
		}
	}
	const body = `{"to": "alice", "cents": 1250}`
	is(t, "the first", s.post("a", body, at("/payments?a=1&b=2", "application/json")), 201, "payment 1")
	for _, same := range []struct{ target, media, body string }{
		{"/payments?a=1&b=2", "application/json", body},
		{"/payments?b=2&a=1", "application/json; charset=utf-8", `{"cents":1250.0,"to":"\u0061lice"}`},
		{"/payments?%61=1&b=2", "Application/JSON", body},
	} {
		is(t, fmt.Sprint(same), s.post("a", same.body, at(same.target, same.media)), 201, "payment 1")
	}
	for _, other := range []struct{ target, media, body string }{
		{"/payments?a=1&b=2", "application/json", `{"to": "alice", "cents": 1251}`},
		{"/payments?a=1&b=3", "application/json", body},
		{"/payments", "application/json", body},
		{"/payments?a=1&b=2", "text/plain", body},
		{"/payments?a=1&b=2", "", body},
		{"/payments?a=1&b=2", "application/json", ""},
		{"/payments?a=1&b=2&%", "application/json", body},
	} {
		isProblem(t, fmt.Sprint(other), s.post("a", other.body, at(other.target, other.media)), 409, pgrequests.KeyReused)
	}
	// Two accounts have one pattern and so one operation.
	is(t, "an account", s.post("b", body, at("/accounts/1/payments", "application/json")), 201, "")
	isProblem(t, "another account", s.post("b", body, at("/accounts/2/payments", "application/json")), 409, pgrequests.KeyReused)
	// Without a canonical form, bytes are compared.
	is(t, "no JSON", s.post("c", `{"a":1,"a":2}`, at("/payments", "application/json")), 201, "")
	is(t, "no JSON, the same", s.post("c", `{"a":1,"a":2}`, at("/payments", "application/json")), 201, "")
	isProblem(t, "no JSON, other white space", s.post("c", `{"a":1, "a":2}`, at("/payments", "application/json")), 409, pgrequests.KeyReused)
}

// TestErrors: which answers are stored and replayed, and that those of 400 and above, errors and
// panics have no effect. Requirement M2.
func TestErrors(t *testing.T) {
	s := newService(t, pgtest.New(t), nil, pgrequests.HTTP{Retryable: nil})
	var effects int64
	for status, replayed := range map[int]bool{
		200: true, 202: true, 204: true, 303: true, 400: true, 401: true, 403: true, 404: true, 409: true, 422: true, 451: true,
		408: false, 425: false, 429: false, 500: false, 502: false, 503: false, 504: false,
	} {
		key := fmt.Sprint(status)
		s.do = func(w http.ResponseWriter, _ *http.Request, _ pgx.Tx) error {
			w.Header().Set("Attempt", "1")
			w.WriteHeader(status)
			return nil
		}
		is(t, key, s.post(key, ""), status, "")
		s.do = nil
		again := s.post(key, "")
		if replayed && (again.Code != status || again.Header().Get("Attempt") != "1" || again.Header().Get(pgrequests.ReplayedHeader) != "true") {
			t.Errorf("the retry after %d has %d, %v", status, again.Code, again.Header())
		}
		if !replayed {
			is(t, key, again, 201, "payment")
		}
		isProblem(t, key, s.post(key, "another"), 409, pgrequests.KeyReused)
		if !replayed || status < 400 {
			effects++
		}
		s.effects(effects)
		want, attempts := pgrequests.StatusCompleted, int64(1)
		if replayed && status >= 400 {
			want = pgrequests.StatusFailedTerminal
		}
		if !replayed {
			attempts = 2
		}
		if e, _, err := s.store.Find(t.Context(), pgrequests.Scope{Operation: "POST /payments", Key: key}); e.Status != want || e.Claim.Attempt != attempts || err != nil {
			t.Errorf("%d leaves %s, attempt %d, %v", status, e.Status, e.Claim.Attempt, err)
		}
	}
}

// TestRetryableIsChosen: a service can say which answers are left to a retry.
func TestRetryableIsChosen(t *testing.T) {
	s := newService(t, pgtest.New(t), nil, pgrequests.HTTP{Retryable: func(status int) bool { return status == 422 }})
	for status, want := range map[int]int{422: 201, 500: 500} {
		s.do = func(w http.ResponseWriter, _ *http.Request, _ pgx.Tx) error { w.WriteHeader(status); return nil }
		is(t, "first", s.post(fmt.Sprint(status), ""), status, "")
		s.do = nil
		is(t, "retry", s.post(fmt.Sprint(status), ""), want, "")
	}
}

// logged collects log lines.
type logged struct {
	mu sync.Mutex
	bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(b)
}

// TestUnhandled: what a Func cannot handle is answered with a problem, is left to a retry, and is
// logged without a byte of the request. Rows of the failure matrix: poison payload; failing
// dependency. Requirement M2.
func TestUnhandled(t *testing.T) {
	var log logged
	s := newService(t, pgtest.New(t), nil, pgrequests.HTTP{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	s.db.Exec(t, "CREATE TABLE refused (word text CHECK (word <> 'secret'), once text UNIQUE DEFERRABLE INITIALLY DEFERRED); INSERT INTO refused VALUES ('', 'x')")
	for name, c := range map[string]struct {
		status int
		kind   string
		log    string
		do     func(w http.ResponseWriter, r *http.Request, tx pgx.Tx) error
	}{
		"error": {500, pgrequests.Failed, "error of type", func(http.ResponseWriter, *http.Request, pgx.Tx) error { return errors.New("secret") }},
		"constraint": {500, pgrequests.Failed, "SQLSTATE 23514", func(_ http.ResponseWriter, r *http.Request, tx pgx.Tx) error {
			_, err := tx.Exec(r.Context(), "INSERT INTO refused VALUES ('secret')")
			return err
		}},
		"constraint of the commit": {500, pgrequests.Failed, "SQLSTATE 23505", func(_ http.ResponseWriter, r *http.Request, tx pgx.Tx) error {
			_, err := tx.Exec(r.Context(), "INSERT INTO refused VALUES ('', 'x')")
			return err
		}},
		"swallowed error": {500, pgrequests.Failed, "has returned no error", func(w http.ResponseWriter, r *http.Request, tx pgx.Tx) error {
			_, _ = tx.Exec(r.Context(), "SELECT 1/0")
			w.WriteHeader(http.StatusCreated)
			return nil
		}},
		"statement ROLLBACK": {500, pgrequests.Failed, "has ended the transaction", func(_ http.ResponseWriter, r *http.Request, tx pgx.Tx) error {
			_, err := tx.Exec(r.Context(), "ROLLBACK")
			return err
		}},
		"commit": {500, pgrequests.Failed, "must not commit", func(_ http.ResponseWriter, r *http.Request, tx pgx.Tx) error { return tx.Commit(r.Context()) }},
		"rollback": {500, pgrequests.Failed, "must not commit", func(_ http.ResponseWriter, r *http.Request, tx pgx.Tx) error {
			return tx.Rollback(r.Context())
		}},
		"too long": {500, pgrequests.Failed, "too long to be stored", func(w http.ResponseWriter, _ *http.Request, _ pgx.Tx) error {
			_, _ = w.Write(make([]byte, pgrequests.ResponseBytesMax))
			_, _ = w.Write([]byte("x"))
			return nil
		}},
		"too long headers": {500, pgrequests.Failed, "too long to be stored", func(w http.ResponseWriter, _ *http.Request, _ pgx.Tx) error {
			w.Header().Set("X", "y")
			_, _ = w.Write(make([]byte, pgrequests.ResponseBytesMax))
			return nil
		}},
		"timeout": {503, pgrequests.Failed, "deadline exceeded", func(http.ResponseWriter, *http.Request, pgx.Tx) error { return context.DeadlineExceeded }},
	} {
		log.Reset()
		s.do = c.do
		w := s.post(name, "secret")
		isProblem(t, name, w, c.status, c.kind)
		if after := w.Header().Get("Retry-After"); (after != "") != (c.status == 503) {
			t.Errorf("%s: Retry-After is %q", name, after)
		}
		if text := log.String(); !strings.Contains(text, c.log) || strings.Contains(text, "secret") {
			t.Errorf("%s: the log is %q, want %q", name, text, c.log)
		}
		s.effects(0)
		if e, _, err := s.store.Find(t.Context(), pgrequests.Scope{Operation: "POST /payments", Key: name}); e.Status != pgrequests.StatusFailedRetryable || err != nil {
			t.Errorf("%s leaves %q, %v", name, e.Status, err)
		}
		s.do = nil
		is(t, name, s.post(name, "secret"), 201, "payment")
		s.effects(1)
		s.db.Exec(t, "TRUNCATE effects")
	}
}

// TestOpenRows: a Func that leaves the rows of a query open has no effect, and the next copy starts
// when the server has ended its transaction.
func TestOpenRows(t *testing.T) {
	var log logged
	s := newService(t, pgtest.New(t), nil, pgrequests.HTTP{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	s.do = func(w http.ResponseWriter, r *http.Request, tx pgx.Tx) error {
		w.WriteHeader(http.StatusCreated)
		_, err := tx.Query(r.Context(), "SELECT 1") //nolint:rowserrcheck,sqlclosecheck // the mistake of this test
		return err
	}
	isProblem(t, "open rows", s.post("a", ""), 500, pgrequests.Failed)
	if !strings.Contains(log.String(), "left the rows of a query open") {
		t.Errorf("the log is %s", log.String())
	}
	s.do = nil
	pgtest.Await(t, "a copy starts", func() bool { return s.post("a", "").Code == http.StatusCreated })
	s.effects(1)
}

// TestPanic: a panic goes on to the server, and leaves nothing.
func TestPanic(t *testing.T) {
	s := newService(t, pgtest.New(t), nil, pgrequests.HTTP{})
	s.do = func(http.ResponseWriter, *http.Request, pgx.Tx) error { panic(http.ErrAbortHandler) }
	func() {
		defer func() {
			if err, _ := recover().(error); !errors.Is(err, http.ErrAbortHandler) {
				t.Errorf("the panic is %v", err)
			}
		}()
		s.post("a", "")
	}()
	s.do = nil
	is(t, "the retry", s.post("a", ""), 201, "payment 2")
	s.effects(1)

	// A status that cannot be sent panics in the Func, and not in each replay.
	s.do = func(w http.ResponseWriter, _ *http.Request, _ pgx.Tx) error { w.WriteHeader(0); return nil }
	func() {
		defer func() { _ = recover() }()
		s.post("b", "")
		t.Error("a status of 0 is accepted")
	}()
	s.effects(1)
}

// TestEndedWithoutAnswer: a request that an operator has ended without an answer of HTTP is
// refused, and its copies do not panic.
func TestEndedWithoutAnswer(t *testing.T) {
	s := newService(t, pgtest.New(t), nil, pgrequests.HTTP{})
	for key, status := range map[string]int{"none": 0, "informational": 103, "too large": 1000} {
		s.do = func(http.ResponseWriter, *http.Request, pgx.Tx) error { return errors.New("failed") }
		s.post(key, "")
		s.do = nil
		s.db.Exec(t, "UPDATE onceward.requests SET status = 'COMPLETED', expires_at = now() + interval '1 hour', response_status = nullif($1, 0) WHERE key = $2",
			status, key)
		isProblem(t, key, s.post(key, ""), 409, pgrequests.KeyExpired)
	}
	s.effects(0)
}

// TestHeadersAreThoseOfTheStatus: as with net/http, headers that are set behind the status are not
// sent.
func TestHeadersAreThoseOfTheStatus(t *testing.T) {
	s := newService(t, pgtest.New(t), nil, pgrequests.HTTP{})
	s.do = func(w http.ResponseWriter, _ *http.Request, _ pgx.Tx) error {
		w.Header().Set("Before", "1")
		w.WriteHeader(http.StatusEarlyHints) // is not sent
		w.Header().Set("Between", "1")
		w.WriteHeader(http.StatusCreated)
		w.Header().Set("Behind", "1")
		return nil
	}
	for _, what := range []string{"the first", "its copy"} {
		h := s.post("a", "").Header()
		if h.Get("Before") == "" || h.Get("Between") == "" || h.Get("Behind") != "" {
			t.Errorf("%s: the headers are %v", what, h)
		}
	}
	s.effects(1)
}

// TestBodyIsBounded: a body above the limit is refused before anything else happens.
func TestBodyIsBounded(t *testing.T) {
	s := newService(t, pgtest.New(t), nil, pgrequests.HTTP{BodyBytes: 10})
	is(t, "at the limit", s.post("a", "0123456789"), 201, "payment 1")
	isProblem(t, "above it", s.post("b", "0123456789x"), 413, pgrequests.BodyTooLarge)
	broken := func(r *http.Request) { r.Body = io.NopCloser(io.MultiReader(strings.NewReader("0"), brokenReader{})) }
	isProblem(t, "broken off", s.post("c", "", broken), 400, pgrequests.BodyUnreadable)
	s.effects(1)
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// TestInProgress: while a request is at work, its copies are told so, as the service chooses.
// Requirement M2.
func TestInProgress(t *testing.T) {
	db := pgtest.New(t)
	at, goOn := make(chan struct{}), make(chan struct{})
	s := newService(t, db, nil, pgrequests.HTTP{RetryAfter: 1500 * time.Millisecond})
	located := newService(t, db, nil, pgrequests.HTTP{Location: func(_ *http.Request, c pgrequests.Scope) string { return "/requests/" + c.Key }})
	s.do = func(w http.ResponseWriter, _ *http.Request, _ pgx.Tx) error {
		at <- struct{}{}
		<-goOn
		return created(w, 1)
	}
	first := make(chan *httptest.ResponseRecorder, 1)
	go func() { first <- s.post("a", "10") }()
	<-at
	conflict := s.post("a", "10")
	isProblem(t, "a copy", conflict, 409, pgrequests.RequestInProgress)
	if after := conflict.Header().Get("Retry-After"); after != "2" {
		t.Errorf("Retry-After is %q", after)
	}
	accepted := located.post("a", "10")
	is(t, "a copy", accepted, 202, "")
	if h := accepted.Header(); h.Get("Location") != "/requests/a" || h.Get("Retry-After") != "1" {
		t.Errorf("the headers are %v", h)
	}
	goOn <- struct{}{}
	is(t, "the first", <-first, 201, "payment 1")
	is(t, "a copy", located.post("a", "10"), 201, "payment 1")
	s.effects(1)
}

// TestExpiredAndUnknown: an answer that is not stored any more, and an outcome that is not known,
// are problems. Requirement M2.
func TestExpiredAndUnknown(t *testing.T) {
	s := newService(t, pgtest.New(t), nil, pgrequests.HTTP{})
	is(t, "the first", s.post("a", "10"), 201, "payment 1")
	s.db.Exec(t, "UPDATE onceward.requests SET expires_at = now() - interval '1 second'")
	isProblem(t, "expired", s.post("a", "10"), 409, pgrequests.KeyExpired)
	is(t, "another", s.post("b", "10"), 201, "payment 2")
	s.db.Exec(t, "UPDATE onceward.requests SET status = 'UNKNOWN', expires_at = NULL WHERE key = 'b'")
	unknown := s.post("b", "10")
	isProblem(t, "unknown", unknown, 409, pgrequests.OutcomeUnknown)
	if unknown.Header().Get("Retry-After") != "1" {
		t.Errorf("the headers are %v", unknown.Header())
	}
	s.effects(2)
}

// TestScopeThatCannotBeStored: a request whose scope is too long, or is no text, is refused with
// what is wrong with it, and has no effect.
func TestScopeThatCannotBeStored(t *testing.T) {
	db := pgtest.New(t)
	for name, c := range map[string]struct {
		scope  pgrequests.Scope
		detail string
	}{
		"tenant":     {pgrequests.Scope{Tenant: strings.Repeat("a", 201)}, "the tenant of the scope has 201 bytes, and may have 200"},
		"client":     {pgrequests.Scope{Client: strings.Repeat("a", 250)}, "the client of the scope has 250 bytes, and may have 200"},
		"operation":  {pgrequests.Scope{Operation: strings.Repeat("a", 201)}, "the operation of the scope has 201 bytes, and may have 200"},
		"resource":   {pgrequests.Scope{Resource: strings.Repeat("a", 1025)}, "the resource of the scope has 1025 bytes, and may have 1024"},
		"not UTF-8":  {pgrequests.Scope{Resource: "\xff"}, "the resource of the scope is not valid UTF-8 without zero bytes"},
		"zero bytes": {pgrequests.Scope{Tenant: "a\x00"}, "the tenant of the scope is not valid UTF-8 without zero bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(t, db, nil, pgrequests.HTTP{Scope: func(*http.Request) pgrequests.Scope { return c.scope }})
			w := s.post("a", "")
			isProblem(t, name, w, 400, pgrequests.ScopeUnusable)
			if !strings.Contains(w.Body.String(), c.detail) {
				t.Errorf("the answer is %s, and does not say %q", w.Body, c.detail)
			}
			s.effects(0)
		})
	}
	long := newService(t, db, nil, pgrequests.HTTP{}).post(strings.Repeat("k", 256), "")
	isProblem(t, "key", long, 400, pgrequests.KeyMalformed)
	if !strings.Contains(long.Body.String(), "the key has 256 characters, and may have 255") {
		t.Errorf("the answer is %s", long.Body)
	}
}

// TestHandlerNamesAllMistakes: one error has everything that is wrong.
func TestHandlerNamesAllMistakes(t *testing.T) {
	db := pgtest.New(t)
	_, err := newStore(t, db.Pool).Handler(pgrequests.HTTP{BodyBytes: -1, RetryAfter: -1, Isolation: "chaos"}, nil)
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"Scope is nil", "the Func is nil", "BodyBytes", "RetryAfter", `"chaos"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v\ndoes not say %q", err, want)
		}
	}
}

// TestConcurrentRequests: 20 copies of a request on two instances have one effect, and every answer
// that is not in progress is the same. Rows of the failure matrix: concurrent duplicate on two
// instances. Requirement M2.
func TestConcurrentRequests(t *testing.T) {
	db := pgtest.New(t)
	instances := []*service{newService(t, db, nil, pgrequests.HTTP{}), newService(t, db, nil, pgrequests.HTTP{})}
	const rounds, copies = 10, 20
	for round := range rounds {
		var wg sync.WaitGroup
		answers := make(chan *httptest.ResponseRecorder, copies)
		for i := range copies {
			wg.Go(func() {
				for {
					if w := instances[i%2].post(fmt.Sprint("k", round), "10"); w.Code != http.StatusConflict {
						answers <- w
						return
					}
				}
			})
		}
		wg.Wait()
		close(answers)
		first, fresh := <-answers, 0
		if first.Header().Get(pgrequests.ReplayedHeader) == "" {
			fresh++
		}
		for w := range answers {
			is(t, "a copy", w, 201, first.Body.String())
			if w.Header().Get(pgrequests.ReplayedHeader) == "" {
				fresh++
			}
		}
		if fresh != 1 {
			t.Errorf("%d answers are not replayed", fresh)
		}
	}
	instances[0].effects(rounds)
	if n := instances[0].calls + instances[1].calls; n != rounds {
		t.Errorf("%d calls for %d requests", n, rounds)
	}
}

// TestContention: serialization failures and deadlocks are tried again, in new transactions,
// without the client noticing. One that does not end is left to a retry. Requirement M2.
func TestContention(t *testing.T) {
	registry := prometheus.NewRegistry()
	s := newService(t, pgtest.New(t), nil, pgrequests.HTTP{Isolation: pgx.Serializable}, pgrequests.Metrics(registry))
	s.db.Exec(t, "CREATE TABLE account (id int, balance int); INSERT INTO account VALUES (1, 0), (2, 0)")
	update := func(tx pgx.Tx, id int) error {
		_, err := tx.Exec(s.t.Context(), "UPDATE account SET balance = balance + 1 WHERE id = $1", id)
		return err
	}
	fails := 1
	s.do = func(w http.ResponseWriter, r *http.Request, tx pgx.Tx) error {
		if fails > 0 { // another transaction changes the row after the snapshot of this one
			fails--
			s.db.Exec(s.t, "UPDATE account SET balance = balance + 1 WHERE id = 1")
		}
		if err := update(tx, 1); err != nil {
			return err
		}
		return created(w, 7)
	}
	is(t, "a serialization failure", s.post("a", ""), 201, "payment 7")
	s.effects(1)
	if s.calls != 2 {
		t.Errorf("%d calls", s.calls)
	}

	fails = 1000
	isProblem(t, "one that does not end", s.post("b", ""), 503, pgrequests.Failed)
	fails = 0
	is(t, "the retry", s.post("b", ""), 201, "payment 7")
	s.effects(2)

	// Two requests change the same rows in different orders.
	deadlocked := newService(t, s.db, nil, pgrequests.HTTP{}, pgrequests.Metrics(registry))
	var wg, both sync.WaitGroup
	both.Add(2)
	first := map[string]bool{"c": true, "d": true}
	var mu sync.Mutex
	deadlocked.do = func(w http.ResponseWriter, r *http.Request, tx pgx.Tx) error {
		key := strings.Trim(r.Header.Get(pgrequests.KeyHeader), `"`)
		order := map[string][]int{"c": {1, 2}, "d": {2, 1}}[key]
		if err := update(tx, order[0]); err != nil {
			return err
		}
		mu.Lock()
		meet := first[key]
		first[key] = false
		mu.Unlock()
		if meet {
			both.Done()
			both.Wait()
		}
		if err := update(tx, order[1]); err != nil {
			return err
		}
		return created(w, 8)
	}
	for _, key := range []string{"c", "d"} {
		wg.Go(func() { is(t, "a deadlock", deadlocked.post(key, ""), 201, "payment 8") })
	}
	wg.Wait()
	s.effects(4)
	if deadlocked.calls < 3 {
		t.Errorf("%d calls: there was no deadlock", deadlocked.calls)
	}
	if n := testutil.ToFloat64(retries(t, registry, "contention")); n < 3 {
		t.Errorf("%v retries because of contention", n)
	}
}

// retries returns the counter of retries for a reason.
func retries(t testing.TB, registry *prometheus.Registry, reason string) prometheus.Collector {
	t.Helper()
	families, err := registry.Gather()
	must(t, err)
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "n"})
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "onceward_postgres_requests_retries_total" && m.GetLabel()[0].GetValue() == reason {
				counter.Add(m.GetCounter().GetValue())
			}
		}
	}
	return counter
}

// TestClientIsGone: what a Func has finished is committed although the client has left, and what it
// has not is rolled back.
func TestClientIsGone(t *testing.T) {
	s := newService(t, pgtest.New(t), nil, pgrequests.HTTP{})
	ctx, leave := context.WithCancel(t.Context())
	s.do = func(w http.ResponseWriter, _ *http.Request, _ pgx.Tx) error {
		leave()
		return created(w, 1)
	}
	gone := func(r *http.Request) { *r = *r.WithContext(ctx) }
	s.post("a", "", gone)
	s.effects(1)
	is(t, "the retry", s.post("a", ""), 201, "payment 1")
	s.post("b", "", gone)
	s.effects(1)
	s.do = nil
	is(t, "the retry", s.post("b", ""), 201, "payment")
	s.effects(2)
}
