package pgqueue

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/processors/postgres/internal/work"
)

// readEnd returns the state of an entry, who has taken the latest decision on it, and the latest
// decision that this process has taken under the claim $2.
const readEnd = `
SELECT status, claims, coalesce(claimed_by, ''),
	coalesce((SELECT decided_by FROM onceward.queue_decisions d WHERE d.entry = q.entry ORDER BY decided_at DESC LIMIT 1), ''),
	coalesce((SELECT d.status FROM onceward.queue_decisions d WHERE d.entry = q.entry AND d.claim = $2 AND d.decided_by = $3 ORDER BY decided_at DESC LIMIT 1), '')
FROM onceward.queue q WHERE entry = $1`

// end says why a claim is over. A worker asks when the end of its claim has found no row, and its
// own transaction has ended: so what it reads is what has happened.
type end struct {
	claim  int // the one that is over
	gone   bool
	status Status
	claims int
	by     string // who has the latest claim
	judge  string // who has taken the latest decision
	own    Status // the decision that was taken under the claim, if any
}

// endOf reads why the claim of an entry is over.
func (q *Queue) endOf(ctx context.Context, e *Entry) (end, error) {
	over := end{claim: e.Claims}
	err := persist(ctx, func() error {
		return work.Failed("read the end of a claim", q.config.Pool.QueryRow(ctx, readEnd, e.Number, e.Claims, q.owner).
			Scan(&over.status, &over.claims, &over.by, &over.judge, &over.own))
	})
	if errors.Is(err, pgx.ErrNoRows) {
		over.gone, err = true, nil
	}
	return over, err
}

// String says it for people.
func (e end) String() string {
	switch {
	case e.gone:
		return "the entry was settled by others and removed"
	case e.status == Claimed && e.claims == e.claim:
		return fmt.Sprintf("claim %d has expired", e.claim)
	case e.status == Claimed:
		return fmt.Sprintf("claim %d of %s has followed", e.claims, e.by)
	case e.judge == "":
		return fmt.Sprintf("the entry is %s", e.status)
	}
	return fmt.Sprintf("the entry is %s, as decided by %s", e.status, e.judge)
}

// reasonOf returns why the claim of an entry is over, for a log.
func (r *run) reasonOf(ctx context.Context, e *Entry) string {
	over, err := r.endOf(ctx, e)
	if err != nil {
		return work.Reason(err)
	}
	return over.String()
}
