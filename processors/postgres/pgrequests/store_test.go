package pgrequests_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/onceward/onceward/processors/postgres"
	"github.com/onceward/onceward/processors/postgres/internal/pgtest"
	"github.com/onceward/onceward/processors/postgres/pgrequests"
	"github.com/onceward/onceward/topology"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// newStore returns the store of a service called payments.
func newStore(t testing.TB, pool *pgxpool.Pool, opts ...pgrequests.Option) *pgrequests.Store {
	t.Helper()
	s, err := pgrequests.New(pool, "payments", opts...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// impatient returns a pool whose statements do not wait for locks forever, so that a test of what
// does not wait can fail.
func impatient(t testing.TB, db *pgtest.Database) *pgxpool.Pool {
	t.Helper()
	return db.NewPool(t, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["lock_timeout"] = "60s" })
}

// request returns a request with a key that asks for something.
func request(key, what string) pgrequests.Request {
	return pgrequests.Request{
		Scope: pgrequests.Scope{Tenant: "t", Client: "c", Operation: "pay", Resource: "account 1", Key: key},
		Hash:  sha256.Sum256([]byte(what)),
	}
}

// begin starts a request in a transaction of its own, which commits.
func begin(t testing.TB, pool *pgxpool.Pool, s *pgrequests.Store, r pgrequests.Request) (start pgrequests.Start) {
	t.Helper()
	must(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) (err error) {
		start, err = s.StartOrReplay(t.Context(), tx, r)
		return err
	}))
	return start
}

// expect starts a request and compares the outcome.
func expect(t testing.TB, pool *pgxpool.Pool, s *pgrequests.Store, r pgrequests.Request, want pgrequests.Outcome) pgrequests.Start {
	t.Helper()
	start := begin(t, pool, s, r)
	if start.Outcome != want {
		t.Errorf("key %q is %s, want %s", r.Scope.Key, start.Outcome, want)
	}
	return start
}

// complete ends a request in a transaction of its own.
func complete(t testing.TB, pool *pgxpool.Pool, s *pgrequests.Store, c pgrequests.Claim, r pgrequests.Response) error {
	return pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { return s.Complete(t.Context(), tx, c, r) })
}

func fail(t testing.TB, pool *pgxpool.Pool, s *pgrequests.Store, c pgrequests.Claim, status pgrequests.Status, r pgrequests.Response) error {
	return pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { return s.Fail(t.Context(), tx, c, status, r) })
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// passTime makes the rows older.
func passTime(t testing.TB, db *pgtest.Database, d time.Duration) {
	t.Helper()
	db.Exec(t, `UPDATE onceward.requests SET created_at = created_at - $1::interval, started_at = started_at - $1::interval,
		locked_until = locked_until - $1::interval, ended_at = ended_at - $1::interval, expires_at = expires_at - $1::interval`, d)
}

var receipt = pgrequests.Response{
	Status: 201,
	Header: map[string][]string{"Location": {"/payments/1"}, "Vary": {"a", "b"}, "X-Odd": {"\xff\x00 "}},
	Body:   []byte("receipt \x00\xff"),
}

// TestOutcomes_M2: a request is started once, its copies are in progress and then replayed, and
// another request under its key is a conflict.
func TestOutcomes_M2(t *testing.T) {
	db := pgtest.New(t)
	registry := prometheus.NewRegistry()
	s := newStore(t, db.Pool, pgrequests.Metrics(registry))
	newStore(t, db.Pool, pgrequests.Metrics(registry)) // shares them

	paid := expect(t, db.Pool, s, request("a", "10"), pgrequests.Started)
	expect(t, db.Pool, s, request("a", "10"), pgrequests.InProgress)
	expect(t, db.Pool, s, request("a", "11"), pgrequests.Conflict)
	must(t, complete(t, db.Pool, s, paid.Claim, receipt))
	expect(t, db.Pool, s, request("a", "11"), pgrequests.Conflict)
	for range 2 {
		again := expect(t, db.Pool, s, request("a", "10"), pgrequests.Replayed)
		if again.Status != pgrequests.StatusCompleted || !reflect.DeepEqual(again.Response, receipt) {
			t.Errorf("a copy gets %s, %+v", again.Status, again.Response)
		}
	}

	retried := expect(t, db.Pool, s, request("b", "10"), pgrequests.Started)
	must(t, fail(t, db.Pool, s, retried.Claim, pgrequests.StatusFailedRetryable, pgrequests.Response{Status: 503, Body: []byte("x")}))
	expect(t, db.Pool, s, request("b", "11"), pgrequests.Conflict)
	retried = expect(t, db.Pool, s, request("b", "10"), pgrequests.Started)
	if retried.Claim.Attempt != 2 {
		t.Errorf("the retry is attempt %d", retried.Claim.Attempt)
	}
	must(t, fail(t, db.Pool, s, retried.Claim, pgrequests.StatusFailedTerminal, pgrequests.Response{Status: 422}))
	if again := expect(t, db.Pool, s, request("b", "10"), pgrequests.Replayed); again.Status != pgrequests.StatusFailedTerminal || again.Response.Status != 422 {
		t.Errorf("a copy of a failed request gets %+v", again)
	}

	for _, err := range []error{
		complete(t, db.Pool, s, paid.Claim, receipt),
		complete(t, db.Pool, s, retried.Claim, receipt),
		fail(t, db.Pool, s, paid.Claim, pgrequests.StatusUnknown, pgrequests.Response{}),
		complete(t, db.Pool, s, pgrequests.Claim{Scope: request("never", "").Scope, Attempt: 1}, receipt),
	} {
		if !errors.Is(err, pgrequests.ErrFenced) || postgres.ClassOf(err) != topology.Transient {
			t.Errorf("a request is ended twice: %v", err)
		}
	}
	const want = `
		# HELP onceward_postgres_requests_total Requests, by what the store said.
		# TYPE onceward_postgres_requests_total counter
		onceward_postgres_requests_total{outcome="conflict",service="payments"} 3
		onceward_postgres_requests_total{outcome="expired",service="payments"} 0
		onceward_postgres_requests_total{outcome="in-progress",service="payments"} 1
		onceward_postgres_requests_total{outcome="replayed",service="payments"} 3
		onceward_postgres_requests_total{outcome="started",service="payments"} 3
		onceward_postgres_requests_total{outcome="unknown",service="payments"} 0
		# HELP onceward_postgres_requests_ended_total Attempts that have ended, by the status of the request.
		# TYPE onceward_postgres_requests_ended_total counter
		onceward_postgres_requests_ended_total{service="payments",status="COMPLETED"} 1
		onceward_postgres_requests_ended_total{service="payments",status="FAILED_RETRYABLE"} 1
		onceward_postgres_requests_ended_total{service="payments",status="FAILED_TERMINAL"} 1
		onceward_postgres_requests_ended_total{service="payments",status="UNKNOWN"} 0
		# HELP onceward_postgres_requests_fenced_total Attempts that could not end their request, because it had a later attempt or an end.
		# TYPE onceward_postgres_requests_fenced_total counter
		onceward_postgres_requests_fenced_total{service="payments"} 4
	`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "onceward_postgres_requests_total", "onceward_postgres_requests_ended_total",
		"onceward_postgres_requests_fenced_total"); err != nil {
		t.Error(err)
	}
}

// TestMetricsAreDocumented: the package documentation has every metric of a store.
func TestMetricsAreDocumented(t *testing.T) {
	db := pgtest.New(t)
	registry := prometheus.NewRegistry()
	newStore(t, db.Pool, pgrequests.Metrics(registry))
	doc, err := os.ReadFile("doc.go")
	must(t, err)
	families, err := registry.Gather()
	must(t, err)
	for _, f := range families {
		if !strings.Contains(string(doc), "//\t"+f.GetName()+"{service") {
			t.Errorf("doc.go does not have %s", f.GetName())
		}
	}
	if n := strings.Count(string(doc), "//\tonceward_postgres_requests_"); n != len(families) {
		t.Errorf("doc.go has %d metrics, and a store %d", n, len(families))
	}
}

// TestScope_M2: each part of a scope, and the service, tells requests apart.
func TestScope_M2(t *testing.T) {
	db := pgtest.New(t)
	s := newStore(t, db.Pool)
	other, err := pgrequests.New(db.Pool, "refunds")
	must(t, err)
	r := request("a", "10")
	expect(t, db.Pool, s, r, pgrequests.Started)
	expect(t, db.Pool, other, r, pgrequests.Started)
	for _, change := range []func(c *pgrequests.Scope){
		func(c *pgrequests.Scope) { c.Tenant = "t2" },
		func(c *pgrequests.Scope) { c.Client = "c2" },
		func(c *pgrequests.Scope) { c.Operation = "refund" },
		func(c *pgrequests.Scope) { c.Resource = "account 2" },
		func(c *pgrequests.Scope) { c.Key = "A" },
		func(c *pgrequests.Scope) { c.Tenant, c.Client = "tc", "" }, // the parts do not run into each other
	} {
		changed := r
		change(&changed.Scope)
		expect(t, db.Pool, s, changed, pgrequests.Started)
		expect(t, db.Pool, s, changed, pgrequests.InProgress)
	}
}

// TestRollbackTakesTheStart_M2: a transaction that does not commit has started nothing, and ended
// nothing.
func TestRollbackTakesTheStart_M2(t *testing.T) {
	db := pgtest.New(t)
	s := newStore(t, db.Pool)
	failed := errors.New("the effect failed")
	for range 2 {
		err := pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
			start, err := s.StartOrReplay(t.Context(), tx, request("a", "10"))
			if err != nil || start.Outcome != pgrequests.Started || start.Claim.Attempt != 1 {
				t.Errorf("%+v, %v", start, err)
			}
			return errors.Join(s.Complete(t.Context(), tx, start.Claim, receipt), failed)
		})
		if !errors.Is(err, failed) {
			t.Fatal(err)
		}
	}
	if _, found, err := s.Find(t.Context(), request("a", "10").Scope); found || err != nil {
		t.Errorf("the request is there: %v, %v", found, err)
	}
}

// TestCopiesDoNotWait: while a transaction that has started a request is open, its copies are in
// progress at once. So transactions with several requests in different orders do not deadlock.
func TestCopiesDoNotWait(t *testing.T) {
	db := pgtest.New(t)
	pool := impatient(t, db)
	s := newStore(t, pool)
	must(t, fail(t, pool, s, expect(t, pool, s, request("c", "10"), pgrequests.Started).Claim, pgrequests.StatusFailedRetryable, receipt))
	one, err := pool.Begin(t.Context())
	must(t, err)
	defer func() { _ = one.Rollback(context.WithoutCancel(t.Context())) }()
	two, err := pool.Begin(t.Context())
	must(t, err)
	defer func() { _ = two.Rollback(context.WithoutCancel(t.Context())) }()
	for _, step := range []struct {
		tx   pgx.Tx
		key  string
		want pgrequests.Outcome
	}{
		{one, "a", pgrequests.Started}, {two, "b", pgrequests.Started}, {one, "b", pgrequests.InProgress}, {two, "a", pgrequests.InProgress},
		{one, "a", pgrequests.InProgress}, {one, "c", pgrequests.Started}, {two, "c", pgrequests.InProgress},
	} {
		start, err := s.StartOrReplay(t.Context(), step.tx, request(step.key, "10"))
		if err != nil || start.Outcome != step.want {
			t.Errorf("%s: %s, %v, want %s", step.key, start.Outcome, err, step.want)
		}
	}
	other, err := pgrequests.New(pool, "refunds")
	must(t, err)
	if start, err := other.StartOrReplay(t.Context(), two, request("a", "10")); err != nil || start.Outcome != pgrequests.Started {
		t.Errorf("another service: %s, %v", start.Outcome, err)
	}
}

// TestPlainInsertWaits is the negative control of TestCopiesDoNotWait: the constraint alone makes a
// copy wait for the transaction.
func TestPlainInsertWaits(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE seen (id text PRIMARY KEY)")
	const insert = "INSERT INTO seen VALUES ('a') ON CONFLICT DO NOTHING"
	one, err := db.Pool.Begin(t.Context())
	must(t, err)
	_, err = one.Exec(t.Context(), insert)
	must(t, err)
	copied := make(chan error, 1)
	go func() {
		_, err := db.Pool.Exec(t.Context(), insert)
		copied <- err
	}()
	pgtest.Await(t, "the copy waits", func() bool { return db.Waiting(t) == 1 })
	must(t, one.Commit(t.Context()))
	must(t, <-copied)
}

// TestConcurrentCopies_M2: 20 transactions with one request, again and again until each has an
// answer, have one effect and one answer. Rows of the failure matrix: concurrent duplicate on two
// instances.
func TestConcurrentCopies_M2(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE effects (id text)")
	stores := []*pgrequests.Store{newStore(t, db.Pool), newStore(t, db.NewPool(t, nil))}
	const rounds, copies = 20, 20
	for round := range rounds {
		var wg sync.WaitGroup
		answers := make(chan string, copies)
		for i := range copies {
			wg.Go(func() {
				s, r := stores[i%2], request(fmt.Sprint("k", round), "10")
				for answered := false; !answered && !t.Failed(); {
					err := pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
						start, err := s.StartOrReplay(t.Context(), tx, r)
						switch {
						case err != nil:
							return err
						case start.Outcome == pgrequests.Replayed:
							answers <- string(start.Response.Body)
							answered = true
							return nil
						case start.Outcome == pgrequests.InProgress:
							return nil
						}
						if _, err := tx.Exec(t.Context(), "INSERT INTO effects VALUES ($1)", r.Scope.Key); err != nil {
							return err
						}
						return s.Complete(t.Context(), tx, start.Claim, pgrequests.Response{Status: 201, Body: fmt.Append(nil, "by ", i)})
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		close(answers)
		first := <-answers
		for a := range answers {
			if a != first {
				t.Errorf("answers are %q and %q", first, a)
			}
		}
	}
	if n := db.Int(t, "SELECT count(*) FROM effects"); n != rounds {
		t.Errorf("%d requests have %d effects", rounds, n)
	}
}

// TestRepeatableRead: with a snapshot from before the first copy has committed, a copy gets a
// serialization failure, and no second start.
func TestRepeatableRead(t *testing.T) {
	db := pgtest.New(t)
	s := newStore(t, db.Pool)
	tx, err := db.Pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	must(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = tx.Exec(t.Context(), "SELECT 1")
	must(t, err)
	start := expect(t, db.Pool, s, request("a", "10"), pgrequests.Started)
	must(t, complete(t, db.Pool, s, start.Claim, receipt))
	if start, err := s.StartOrReplay(t.Context(), tx, request("a", "10")); err == nil || postgres.ClassOf(err) != topology.Transient {
		t.Errorf("%s, %v", start.Outcome, err)
	}
}

// TestFind: what is stored of a request can be read.
func TestFind(t *testing.T) {
	db := pgtest.New(t)
	s := newStore(t, db.Pool)
	start := expect(t, db.Pool, s, request("a", "10"), pgrequests.Started)
	e, found, err := s.Find(t.Context(), start.Claim.Scope)
	if err != nil || !found || e.Status != pgrequests.StatusStarted || e.Claim != start.Claim || e.Holder == "" || e.CreatedAt.IsZero() ||
		!e.LockedUntil.After(e.StartedAt) || !e.EndedAt.IsZero() || e.Response.Status != 0 {
		t.Errorf("%+v, %v, %v", e, found, err)
	}
	must(t, complete(t, db.Pool, s, start.Claim, receipt))
	e, _, err = s.Find(t.Context(), start.Claim.Scope)
	if err != nil || e.Status != pgrequests.StatusCompleted || !e.LockedUntil.IsZero() || e.EndedAt.IsZero() || !reflect.DeepEqual(e.Response, receipt) {
		t.Errorf("%+v, %v", e, err)
	}
	if _, found, err := s.Find(t.Context(), request("b", "").Scope); found || err != nil {
		t.Errorf("%v, %v", found, err)
	}
	if _, _, err := s.Find(t.Context(), pgrequests.Scope{}); postgres.ClassOf(err) != topology.Validation {
		t.Error(err)
	}
}

// TestRefused: texts that cannot be stored leave the transaction as it was, and quote nothing.
func TestRefused(t *testing.T) {
	db := pgtest.New(t)
	s := newStore(t, db.Pool)
	for want, change := range map[string]func(r *pgrequests.Request){
		"has no key":           func(r *pgrequests.Request) { r.Scope.Key = "" },
		"key of the scope":     func(r *pgrequests.Request) { r.Scope.Key = strings.Repeat("secret", 50) },
		"has no operation":     func(r *pgrequests.Request) { r.Scope.Operation = "" },
		"tenant of the scope":  func(r *pgrequests.Request) { r.Scope.Tenant = "secret\xff" },
		"client of the scope":  func(r *pgrequests.Request) { r.Scope.Client = "secret\x00" },
		"resource of the":      func(r *pgrequests.Request) { r.Scope.Resource = strings.Repeat("secret", 200) },
		"request has no hash":  func(r *pgrequests.Request) { r.Hash = [32]byte{} },
		"operation of the sco": func(r *pgrequests.Request) { r.Scope.Operation = strings.Repeat("secret", 40) },
	} {
		must(t, pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
			r := request("secret", "10")
			change(&r)
			_, err := s.StartOrReplay(t.Context(), tx, r)
			if postgres.ClassOf(err) != topology.Validation || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%q: %v", want, err)
			}
			_, err = tx.Exec(t.Context(), "SELECT 1")
			return err
		}))
	}
	start := expect(t, db.Pool, s, request("a", "10"), pgrequests.Started)
	long := pgrequests.Response{Status: 200, Body: make([]byte, pgrequests.ResponseBytesMax+1)}
	if err := complete(t, db.Pool, s, start.Claim, long); postgres.ClassOf(err) != topology.Validation {
		t.Error(err)
	}
	if err := fail(t, db.Pool, s, start.Claim, pgrequests.StatusCompleted, receipt); postgres.ClassOf(err) != topology.Config {
		t.Error(err)
	}
}

// TestLongestScope: the longest scope fits into the index, with bytes that do not compress.
func TestLongestScope(t *testing.T) {
	db := pgtest.New(t)
	noise := func(n int) string {
		var b strings.Builder
		for i := 0; b.Len() < n; i++ {
			fmt.Fprintf(&b, "%x", sha256.Sum256(fmt.Append(nil, n, i)))
		}
		return b.String()[:n]
	}
	s, err := pgrequests.New(db.Pool, noise(200))
	must(t, err)
	r := request(noise(255), "10")
	r.Scope = pgrequests.Scope{Tenant: noise(200), Client: noise(199) + "c", Operation: noise(198) + "op", Resource: noise(1024), Key: r.Scope.Key}
	expect(t, db.Pool, s, r, pgrequests.Started)
	expect(t, db.Pool, s, r, pgrequests.InProgress)
}

// TestNewNamesAllMistakes: one error has everything that is wrong.
func TestNewNamesAllMistakes(t *testing.T) {
	_, err := pgrequests.New(nil, "", pgrequests.TimeToLive(time.Hour), pgrequests.AuditRetention(time.Minute), pgrequests.Lock(0), pgrequests.Metrics(nil))
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"the pool is nil", "the service is", "audit retention of 1m0s is shorter than the time to live of 1h0m0s", "Lock(0s)", "Metrics"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v\ndoes not say %q", err, want)
		}
	}
}

// TestMissingTables: the error says what creates them.
func TestMissingTables(t *testing.T) {
	db := pgtest.Empty(t)
	s := newStore(t, db.Pool)
	if _, _, err := s.Find(t.Context(), request("a", "").Scope); err == nil || !strings.Contains(err.Error(), "postgres.Migrate") {
		t.Error(err)
	}
}
