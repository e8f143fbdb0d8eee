package pgqueue

import "context"

// The points that a test can stop at: with a claim, in the transaction, after the handler, after
// the entry was settled, after the COMMIT.
var points = []string{"claimed", "begun", "handled", "settled", "committed"}

// setAt has f called at each point of each attempt. Its error is one of the attempt.
func (q *Queue) setAt(f func(ctx context.Context, point string, e *Entry) error) { q.at = f }

// breakFence has the queue settle entries without looking at the claim.
func (q *Queue) breakFence() {
	q.settleSQL = `
WITH settled AS (
	UPDATE onceward.queue SET status = $3, settled_at = clock_timestamp(), due_at = NULL, class = NULL, reason = $5
	WHERE entry = $1 AND $2::int IS NOT NULL RETURNING entry
)
INSERT INTO onceward.queue_decisions (entry, claim, status, decided_by, reason) SELECT entry, $2, $3, $4, $5 FROM settled`
}
