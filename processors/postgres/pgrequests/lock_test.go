package pgrequests_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/onceward/onceward/processors/postgres/internal/pgtest"
	"github.com/onceward/onceward/processors/postgres/pgrequests"
)

// frozen is a request whose holder has started it and freezes, until the lock has expired.
type frozen struct {
	t       *testing.T
	db      *pgtest.Database
	store   *pgrequests.Store
	request pgrequests.Request
	claim   pgrequests.Claim
}

func freeze(t *testing.T, external bool, opts ...pgrequests.Option) *frozen {
	db := pgtest.New(t)
	db.Exec(t, "CREATE TABLE effects (who text)")
	db.Pool = impatient(t, db)
	f := &frozen{t: t, db: db, store: newStore(t, db.Pool, opts...), request: request("a", "10")}
	f.request.External = external
	f.claim = expect(t, db.Pool, f.store, f.request, pgrequests.Started).Claim
	passTime(t, db, pgrequests.DefaultLock+time.Second)
	return f
}

// work has the effect and ends the request, in one transaction.
func (f *frozen) work(who string, c pgrequests.Claim, end func(ctx context.Context, tx pgx.Tx, c pgrequests.Claim, r pgrequests.Response) error) error {
	return pgx.BeginFunc(f.t.Context(), f.db.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(f.t.Context(), "INSERT INTO effects VALUES ($1)", who); err != nil {
			return err
		}
		return end(f.t.Context(), tx, c, pgrequests.Response{Status: 201, Body: []byte(who)})
	})
}

func (f *frozen) effects() int64 { return f.db.Int(f.t, "SELECT count(*) FROM effects") }

// TestFrozenHolder: a holder comes back after its lock has expired and another attempt has started.
// It is fenced, and its effect is rolled back, whether the other attempt is at work or has ended.
// Row of the failure matrix: worker frozen past its session and back.
func TestFrozenHolder(t *testing.T) {
	registry := prometheus.NewRegistry()
	f := freeze(t, false, pgrequests.Metrics(registry))
	second := expect(t, f.db.Pool, f.store, f.request, pgrequests.Started)
	if second.Claim.Attempt != 2 {
		t.Errorf("attempt %d", second.Claim.Attempt)
	}
	if n, err := testutil.GatherAndCount(registry, "onceward_postgres_requests_expired_locks_total"); n != 1 || err != nil {
		t.Errorf("%d counters of expired locks, %v", n, err)
	}
	if err := f.work("first", f.claim, f.store.Complete); !errors.Is(err, pgrequests.ErrFenced) {
		t.Errorf("the frozen holder ends the request: %v", err)
	}
	must(t, f.work("second", second.Claim, f.store.Complete))
	if err := f.work("first", f.claim, f.store.Complete); !errors.Is(err, pgrequests.ErrFenced) {
		t.Errorf("the frozen holder ends the request again: %v", err)
	}
	if err := fail(t, f.db.Pool, f.store, f.claim, pgrequests.StatusFailedTerminal, pgrequests.Response{Status: 422}); !errors.Is(err, pgrequests.ErrFenced) {
		t.Errorf("the frozen holder fails the request: %v", err)
	}
	if a := expect(t, f.db.Pool, f.store, f.request, pgrequests.Replayed); string(a.Response.Body) != "second" {
		t.Errorf("the answer is that of the %s", a.Response.Body)
	}
	if n := f.effects(); n != 1 {
		t.Errorf("%d effects", n)
	}
}

// TestFrozenHolderWithoutFence is the negative control: where the attempt is not compared, both
// have the effect.
func TestFrozenHolderWithoutFence(t *testing.T) {
	f := freeze(t, false)
	second := expect(t, f.db.Pool, f.store, f.request, pgrequests.Started)
	unfenced := func(ctx context.Context, tx pgx.Tx, c pgrequests.Claim, r pgrequests.Response) error {
		_, err := tx.Exec(ctx, "UPDATE onceward.requests SET status = 'COMPLETED', response_status = $2, response_body = $3 WHERE key = $1", c.Scope.Key, r.Status, r.Body)
		return err
	}
	must(t, f.work("second", second.Claim, unfenced))
	must(t, f.work("first", f.claim, unfenced))
	if n := f.effects(); n != 2 {
		t.Errorf("%d effects, want 2", n)
	}
}

// TestHolderIsInTime: a holder whose lock has expired, and whom no other has followed, ends the
// request.
func TestHolderIsInTime(t *testing.T) {
	f := freeze(t, false)
	must(t, f.work("first", f.claim, f.store.Complete))
	expect(t, f.db.Pool, f.store, f.request, pgrequests.Replayed)
}

// TestHolderBeforeItsCommit: while a holder whose lock has expired has ended the request and not
// yet committed, a copy is in progress, and does not wait. The end of the holder's transaction
// decides.
func TestHolderBeforeItsCommit(t *testing.T) {
	for name, commit := range map[string]bool{"commit": true, "rollback": false} {
		t.Run(name, func(t *testing.T) {
			f := freeze(t, false)
			tx, err := f.db.Pool.Begin(t.Context())
			must(t, err)
			defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
			must(t, f.store.Complete(t.Context(), tx, f.claim, receipt))
			expect(t, f.db.Pool, f.store, f.request, pgrequests.InProgress)
			if commit {
				must(t, tx.Commit(t.Context()))
				expect(t, f.db.Pool, f.store, f.request, pgrequests.Replayed)
				return
			}
			must(t, tx.Rollback(t.Context()))
			expect(t, f.db.Pool, f.store, f.request, pgrequests.Started)
		})
	}
}

// TestExternalIsUnknown: an attempt with external effects whose lock has expired is unknown, and
// nothing starts over. Its holder or an operator ends it, and the second of them is fenced.
func TestExternalIsUnknown(t *testing.T) {
	for name, byOperator := range map[string]bool{"operator": true, "holder": false} {
		for _, cleaned := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				f := freeze(t, true)
				if cleaned {
					if n, err := f.store.Clean(t.Context(), 10); n != 1 || err != nil {
						t.Errorf("%d rows are cleaned, %v", n, err)
					}
				}
				for range 2 {
					expect(t, f.db.Pool, f.store, f.request, pgrequests.Unknown)
				}
				e, _, err := f.store.Find(t.Context(), f.request.Scope)
				if err != nil || e.Status != pgrequests.StatusUnknown || !e.External || e.Claim != f.claim {
					t.Errorf("%+v, %v", e, err)
				}
				if all, err := f.store.Unknown(t.Context(), 10); err != nil || !reflect.DeepEqual(all, []pgrequests.Entry{e}) {
					t.Errorf("the list has %+v, %v, want %+v", all, err, e)
				}
				who := []string{"holder", "operator"}
				if byOperator {
					who = []string{"operator", "holder"}
				}
				must(t, f.work(who[0], e.Claim, f.store.Complete))
				if err := f.work(who[1], e.Claim, f.store.Complete); !errors.Is(err, pgrequests.ErrFenced) {
					t.Errorf("the %s ends it too: %v", who[1], err)
				}
				if a := expect(t, f.db.Pool, f.store, f.request, pgrequests.Replayed); string(a.Response.Body) != name {
					t.Errorf("the answer is that of the %s", a.Response.Body)
				}
				if all, err := f.store.Unknown(t.Context(), 10); err != nil || len(all) != 0 {
					t.Errorf("when it is ended, the list has %+v, %v", all, err)
				}
			})
		}
	}
}

// TestSaidToBeUnknown: a holder can say that the outcome of its effect is unknown. An operator who
// finds that there was none lets the request start again.
func TestSaidToBeUnknown(t *testing.T) {
	db := pgtest.New(t)
	s, r := newStore(t, db.Pool), request("a", "10")
	start := expect(t, db.Pool, s, r, pgrequests.Started)
	must(t, fail(t, db.Pool, s, start.Claim, pgrequests.StatusUnknown, pgrequests.Response{Status: 504}))
	expect(t, db.Pool, s, r, pgrequests.Unknown)
	if all, err := s.Unknown(t.Context(), 1); err != nil || len(all) != 1 || all[0].Response.Status != 504 || all[0].EndedAt.IsZero() {
		t.Errorf("the list has %+v, %v", all, err)
	}
	must(t, fail(t, db.Pool, s, start.Claim, pgrequests.StatusFailedRetryable, pgrequests.Response{}))
	if again := expect(t, db.Pool, s, r, pgrequests.Started); again.Claim.Attempt != 2 {
		t.Errorf("attempt %d", again.Claim.Attempt)
	}
}
