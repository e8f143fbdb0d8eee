package pgrequests_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/processors/postgres/internal/pgtest"
	"github.com/onceward/onceward/processors/postgres/pgrequests"
)

const ttl, audit = time.Hour, 24 * time.Hour

// clean cleans everything, and compares how many rows were changed.
func clean(t *testing.T, s *pgrequests.Store, want int) {
	t.Helper()
	if n, err := s.Clean(t.Context(), 100); n != want || err != nil {
		t.Errorf("%d rows are changed, %v, want %d", n, err, want)
	}
}

// TestRetention_M2: an answer is replayed during its time to live. Then a copy is refused, with or
// without a clean-up, until the audit retention is over.
func TestRetention_M2(t *testing.T) {
	db := pgtest.New(t)
	s := newStore(t, db.Pool, pgrequests.TimeToLive(ttl), pgrequests.AuditRetention(audit))
	completed, failed, retried := request("completed", "10"), request("failed", "10"), request("retried", "10")
	must(t, complete(t, db.Pool, s, expect(t, db.Pool, s, completed, pgrequests.Started).Claim, receipt))
	must(t, fail(t, db.Pool, s, expect(t, db.Pool, s, failed, pgrequests.Started).Claim, pgrequests.StatusFailedTerminal, receipt))
	must(t, fail(t, db.Pool, s, expect(t, db.Pool, s, retried, pgrequests.Started).Claim, pgrequests.StatusFailedRetryable, receipt))

	passTime(t, db, ttl-time.Minute)
	clean(t, s, 0)
	expect(t, db.Pool, s, completed, pgrequests.Replayed)
	expect(t, db.Pool, s, failed, pgrequests.Replayed)
	passTime(t, db, 2*time.Minute)
	for _, cleaned := range []int{2, 0} {
		expect(t, db.Pool, s, completed, pgrequests.Expired)
		expect(t, db.Pool, s, failed, pgrequests.Expired)
		expect(t, db.Pool, s, request("completed", "11"), pgrequests.Conflict)
		clean(t, s, cleaned)
	}
	if n := db.Int(t, `SELECT count(*) FROM onceward.requests WHERE response_body IS NOT NULL OR response_header_names IS NOT NULL OR
		response_header_values IS NOT NULL`); n != 0 {
		t.Errorf("%d answers are still there", n)
	}
	if e, found, err := s.Find(t.Context(), completed.Scope); !found || err != nil || e.Status != pgrequests.StatusCompleted || e.Response.Status != 201 {
		t.Errorf("%+v, %v, %v", e, found, err)
	}
	passTime(t, db, audit)
	clean(t, s, 3)
	for _, r := range []pgrequests.Request{completed, failed, retried} {
		expect(t, db.Pool, s, r, pgrequests.Started)
	}
}

// TestCleanKeeps_M2: what has no end stays: attempts at work, those that are unknown, and a retry
// of a request that was new long ago.
func TestCleanKeeps_M2(t *testing.T) {
	db := pgtest.New(t)
	s := newStore(t, db.Pool, pgrequests.TimeToLive(ttl), pgrequests.AuditRetention(audit))
	external, abandoned, retried := request("external", "10"), request("abandoned", "10"), request("retried", "10")
	external.External = true
	expect(t, db.Pool, s, external, pgrequests.Started)
	expect(t, db.Pool, s, abandoned, pgrequests.Started)
	must(t, fail(t, db.Pool, s, expect(t, db.Pool, s, retried, pgrequests.Started).Claim, pgrequests.StatusFailedRetryable, receipt))
	passTime(t, db, 2*audit)
	expect(t, db.Pool, s, request("working", "10"), pgrequests.Started)
	must(t, fail(t, db.Pool, s, expect(t, db.Pool, s, retried, pgrequests.Started).Claim, pgrequests.StatusFailedRetryable, receipt))
	clean(t, s, 2) // external is unknown now, and abandoned is gone
	clean(t, s, 0)
	for key, want := range map[string]bool{"external": true, "abandoned": false, "retried": true, "working": true} {
		if _, found, err := s.Find(t.Context(), request(key, "").Scope); found != want || err != nil {
			t.Errorf("%s is there: %v, %v", key, found, err)
		}
	}
	must(t, complete(t, db.Pool, s, pgrequests.Claim{Scope: external.Scope, Attempt: 1}, receipt)) // by an operator
	clean(t, s, 0)
	expect(t, db.Pool, s, external, pgrequests.Replayed)
	passTime(t, db, ttl+time.Minute)
	clean(t, s, 2) // the answer, and then the row
}

// TestCleanIsBounded_M2: Clean stops at its limit, skips rows that others are changing, and leaves
// other services alone.
func TestCleanIsBounded_M2(t *testing.T) {
	db := pgtest.New(t)
	s := newStore(t, impatient(t, db), pgrequests.TimeToLive(ttl), pgrequests.AuditRetention(audit))
	other, err := pgrequests.New(db.Pool, "refunds")
	must(t, err)
	expect(t, db.Pool, other, request("k1", "10"), pgrequests.Started)
	for i := range 5 {
		r := request(fmt.Sprint("k", i), "10")
		must(t, fail(t, db.Pool, s, expect(t, db.Pool, s, r, pgrequests.Started).Claim, pgrequests.StatusFailedRetryable, receipt))
	}
	passTime(t, db, 2*audit)
	if n, err := s.Clean(t.Context(), 2); n != 2 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	must(t, pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), "SELECT FROM onceward.requests WHERE service = 'payments' LIMIT 1 FOR UPDATE"); err != nil {
			return err
		}
		clean(t, s, 2)
		return nil
	}))
	clean(t, s, 1)
	if n := db.Int(t, "SELECT count(*) FROM onceward.requests"); n != 1 {
		t.Errorf("%d rows are left", n)
	}
	if _, err := s.Clean(t.Context(), 0); err == nil {
		t.Error("a limit of 0 is accepted")
	}
}

// TestCleanInSteps: a limit above the size of a transaction is kept too.
func TestCleanInSteps(t *testing.T) {
	db := pgtest.New(t)
	s := newStore(t, db.Pool)
	db.Exec(t, `INSERT INTO onceward.requests (service, tenant, client, operation, resource, key, request_hash, status, attempt, external, holder, started_at)
		SELECT 'payments', '', '', 'pay', '', n::text, '', 'FAILED_RETRYABLE', 1, false, '', now() - interval '1 year' FROM generate_series(1, 2500) n`)
	for _, want := range []int{1500, 1000, 0} {
		if n, err := s.Clean(t.Context(), 1500); n != want || err != nil {
			t.Errorf("%d, %v, want %d", n, err, want)
		}
	}
}
