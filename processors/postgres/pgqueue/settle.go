package pgqueue

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/processors/postgres/internal/work"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// settleEntry settles an entry under its claim. It finds no row if the claim has expired, or is not
// the latest any more.
const settleEntry = `
WITH settled AS (
	UPDATE onceward.queue SET status = $3, settled_at = clock_timestamp(), due_at = NULL, class = NULL, reason = $5
	WHERE entry = $1 AND claims = $2 AND status = 'CLAIMED' AND due_at > clock_timestamp() RETURNING entry
)
INSERT INTO onceward.queue_decisions (entry, claim, status, decided_by, reason) SELECT entry, $2, $3, $4, $5 FROM settled`

// failEntry ends a claim without an effect. An expired claim that no other has followed is good
// enough for that.
const failEntry = `
WITH failed AS (
	UPDATE onceward.queue SET status = $3, attempts = attempts - $6, class = $7, reason = $5,
		due_at = CASE WHEN $3 = 'QUARANTINED' THEN NULL ELSE clock_timestamp() + $8::interval END
	WHERE entry = $1 AND claims = $2 AND status = 'CLAIMED' RETURNING entry
)
INSERT INTO onceward.queue_decisions (entry, claim, status, decided_by, class, reason) SELECT entry, $2, $3, $4, $7, $5 FROM failed`

// releaseEntry gives a claim back that was not used.
const releaseEntry = `
UPDATE onceward.queue SET status = CASE WHEN attempts > 1 THEN 'RETRYABLE_FAILED' ELSE 'RECEIVED' END, attempts = attempts - 1, due_at = clock_timestamp()
WHERE entry = $1 AND claims = $2 AND status = 'CLAIMED'`

// wakeNext makes the head of an aggregate due if it is parked. It is a statement of its own: it
// sees what was committed while the one before it waited for a claim that parks.
const wakeNext = `
UPDATE onceward.queue SET due_at = clock_timestamp()
WHERE due_at IS NULL AND status IN ('RECEIVED', 'RETRYABLE_FAILED') AND entry = (
	SELECT entry FROM onceward.queue WHERE queue = $1 AND aggregate = $2 AND settled_at IS NULL ORDER BY entry LIMIT 1
)`

// errFenced: the claim is over: endOf says why.
var errFenced = errors.New("the claim is over")

// begin begins a transaction at READ COMMITTED, which wakeNext needs; a handler cannot change that
// after the first query.
func (q *Queue) begin() string {
	return work.Begin(pgx.ReadCommitted, q.config.ClaimFor) + "; select 1"
}

// commitError is an error of a COMMIT without a definite answer: the transaction may have taken
// effect.
type commitError struct{ err error }

func (e *commitError) Error() string { return e.err.Error() }
func (e *commitError) Unwrap() error { return e.err }

// attempt calls the handler and settles the entry, in one transaction. Its decision counts with a
// [commitError] too.
func (q *Queue) attempt(ctx context.Context, e *Entry) (Decision, error) {
	began := time.Now()
	defer func() { q.metrics.handle.Observe(time.Since(began).Seconds()) }()
	t, err := q.config.Pool.BeginTx(ctx, pgx.TxOptions{BeginQuery: q.begin()})
	if err != nil {
		return Decision{}, work.Failed("begin", err)
	}
	defer work.Rollback(ctx, t)
	conn := t.Conn()
	if err := q.at(ctx, "begun", e); err != nil {
		return Decision{}, err
	}
	handed := *e // the handler may change what it is given
	var d Decision
	if err := work.Call(func() (err error) { d, err = q.config.Handle(ctx, work.Lend(t), &handed); return err }); err != nil {
		return Decision{}, work.OfConnection(conn, err)
	}
	if err := work.LeftBy(conn); err != nil {
		return Decision{}, err
	}
	if d.Status == "" {
		d.Status = Processed
	}
	if !d.Status.Final() {
		return Decision{}, topology.Fail(topology.Config, schemas.Reason("the handler has decided "+string(d.Status)+", which is not its decision to take"))
	}
	if err := q.at(ctx, "handled", e); err != nil {
		return Decision{}, err
	}
	settled, err := q.settle(ctx, t, e, d)
	if err != nil {
		return Decision{}, work.OfConnection(conn, work.Failed("settle", err))
	}
	if !settled {
		return Decision{}, errFenced
	}
	if err := q.at(ctx, "settled", e); err != nil {
		return Decision{}, err
	}
	commit := time.Now()
	if err := t.Commit(ctx); err != nil {
		failed := work.Failed("commit", err)
		if work.RolledBack(err) {
			return Decision{}, &work.CallError{Err: failed} // a deferred constraint or trigger: by what the handler has written
		}
		return d, &commitError{failed}
	}
	q.metrics.commit.Observe(time.Since(commit).Seconds())
	return d, q.at(ctx, "committed", e)
}

// settle settles the entry in tx, unless its claim has expired.
func (q *Queue) settle(ctx context.Context, tx pgx.Tx, e *Entry, d Decision) (settled bool, err error) {
	batch := &pgx.Batch{}
	batch.Queue(q.settleSQL, e.Number, e.Claims, d.Status, q.owner, work.Text(d.Reason))
	if e.Aggregate != "" {
		batch.Queue(wakeNext, q.config.Name, e.Aggregate)
	}
	results := tx.SendBatch(ctx, batch)
	tag, err := results.Exec()
	return tag.RowsAffected() == 1, errors.Join(err, results.Close())
}

// failed is what is known of an attempt that has had no effect.
type failed struct {
	class  topology.Class
	reason string
	blame  blame
	fatal  bool // it says nothing about the entry, and others would fail as well
}

// blame says whether a failure counts as an attempt of its entry.
type blame int

const (
	ofEntry blame = iota
	// ofConnection: only if the server takes the end of the claim at the first try.
	ofConnection
	ofOthers
)

// counts says whether the failure counts as an attempt, if the server takes the end of the claim at
// the given try.
func (f failed) counts(try int) bool {
	return !f.fatal && (f.blame == ofEntry || f.blame == ofConnection && try == 1)
}

// status returns the new status of the entry.
func (q *Queue) status(e *Entry, f failed, counts bool) Status {
	lasting := f.class != topology.Transient && f.class != topology.Overload
	if counts && (lasting || e.Attempts >= q.config.Attempts) {
		return Quarantined
	}
	return RetryableFailed
}

// fail ends the claim of an entry that has had no effect. It returns the new status of the entry,
// and whether the claim was still there.
func (q *Queue) fail(ctx context.Context, e *Entry, f failed) (status Status, there bool, err error) {
	pause := work.Pause(max(1, e.Attempts), q.config.RetryMin, q.config.RetryMax)
	try := 0
	err = persist(ctx, func() error {
		try++
		uncounted := 0
		counts := f.counts(try)
		if !counts {
			uncounted = 1
		}
		status = q.status(e, f, counts)
		tag, err := q.config.Pool.Exec(ctx, failEntry, e.Number, e.Claims, status, q.owner, f.reason, uncounted, f.class.String(), pause)
		there = tag.RowsAffected() == 1
		return work.Failed("end a claim", err)
	})
	return status, there, err
}

// release gives the claim of an entry back that nothing has been done with.
func (q *Queue) release(ctx context.Context, e *Entry) error {
	return persist(ctx, func() error {
		_, err := q.config.Pool.Exec(ctx, releaseEntry, e.Number, e.Claims)
		return work.Failed("give a claim back", err)
	})
}

// persist calls f until the database answers. The sessions of a server that was restarted fail one
// after the other.
func persist(ctx context.Context, f func() error) error {
	for attempt := 1; ; attempt++ {
		err := f()
		if err == nil || !work.Unavailable(err) || !work.Wait(ctx, nil, work.Pause(attempt, contentionMin, contentionMax)) {
			return err
		}
	}
}
