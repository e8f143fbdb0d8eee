package pgsink

import "context"

// The points that a test can stop at: before a batch, in its transaction, after Apply, after the
// offset has moved, after the COMMIT.
var points = []string{"received", "begun", "applied", "moved", "committed"}

// at has f called at each point of each attempt. Its error is one of the attempt.
func (s *Sink) setAt(f func(ctx context.Context, point string, partition int32) error) {
	s.at = func(ctx context.Context, point string, w *worker) error { return f(ctx, point, w.n) }
}

// breakFence has the sink move offsets whoever owns them.
func (s *Sink) breakFence() {
	s.moveSQL = `UPDATE onceward.sink_offsets SET next_offset = $6::bigint, leader_epoch = $7::int, moved_at = now()
		WHERE sink = $1 AND topic = $2 AND partition = $3 AND ($4::bigint, $5::bigint) IS NOT NULL`
}

// breakResolve has the sink take every commit without an answer for one that has failed.
func (s *Sink) breakResolve() {
	s.resolve = func(_ *worker, _ context.Context, _ int64, commitErr error) error {
		return commitErr
	}
}
