package pgrequests

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/processors/postgres/internal/work"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// ErrFenced is the error of an attempt that cannot end its request: a later attempt has started, or
// the request was ended. The caller rolls its transaction back. The class of the error is
// transient: a copy of the request gets the answer, or starts.
var ErrFenced error = schemas.Reason("the request has a later attempt, or was ended: roll back")

// endRequest waits for a transaction that is starting the request once more.
const endRequest = `
WITH alone AS MATERIALIZED (SELECT pg_advisory_xact_lock($14))
UPDATE onceward.requests SET status = $8, ended_at = now(), locked_until = NULL, expires_at = clock_timestamp() + $9::interval,
	response_status = $10, response_header_names = $11, response_header_values = $12, response_body = $13
FROM alone WHERE ` + ofScope + ` AND attempt = $7 AND status IN ('STARTED', 'UNKNOWN')`

// Complete ends a request whose effect has happened, in the transaction of the effect. Copies get
// the response. The error is [ErrFenced] if the attempt is not the latest or the request has an
// end, whether or not the lock has expired. Complete waits for a transaction that is starting the
// request once more.
func (s *Store) Complete(ctx context.Context, tx pgx.Tx, c Claim, r Response) error {
	return s.failed("complete", s.end(ctx, tx, c, StatusCompleted, r))
}

// Fail ends a request without an effect in the caller's transaction, which must have none of the
// effect either:
//
//   - with [StatusFailedTerminal], copies get the response;
//   - with [StatusFailedRetryable], the next copy starts, and of the response only the status is
//     stored, for people;
//   - with [StatusUnknown], copies are told so until Complete or Fail ends the request, and the
//     status is stored in the same way.
//
// The error is [ErrFenced] as that of [Store.Complete].
func (s *Store) Fail(ctx context.Context, tx pgx.Tx, c Claim, status Status, r Response) error {
	var err error
	switch status {
	case StatusFailedTerminal:
		err = s.end(ctx, tx, c, status, r)
	case StatusFailedRetryable, StatusUnknown:
		err = s.end(ctx, tx, c, status, Response{Status: r.Status})
	default:
		err = topology.Fail(topology.Config, errors.New("a request does not fail with status "+string(status)))
	}
	return s.failed("fail", err)
}

func (s *Store) end(ctx context.Context, tx pgx.Tx, c Claim, status Status, r Response) error {
	if err := r.check(); err != nil {
		return err
	}
	var ttl any = s.ttl
	var names, values [][]byte
	if status == StatusFailedRetryable || status == StatusUnknown {
		ttl = nil // there is no answer that could expire
	} else {
		names, values = r.columns()
	}
	var code *int
	if r.Status != 0 {
		code = &r.Status
	}
	tag, err := tx.Exec(ctx, endRequest, s.args(c.Scope, c.Attempt, status, ttl, code, names, values, r.Body, s.lockOf(c.Scope))...)
	switch {
	case err != nil:
		return work.Failed("write the end of a request", err)
	case tag.RowsAffected() == 0:
		s.fenced.Inc()
		return topology.Fail(topology.Transient, ErrFenced)
	}
	s.ended[status].Inc()
	return nil
}
