package pgrequests

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/onceward/onceward/processors/postgres/internal/work"
	"github.com/onceward/onceward/topology"
)

// errInProgress: a copy of the request is at work.
var errInProgress = errors.New("a copy of the request is at work")

// outage is an error of a transaction that is worth another attempt. The counter says why.
type outage struct {
	err     error
	counter prometheus.Counter
}

// Error is that of the error in it.
func (o *outage) Error() string { return o.err.Error() }

// Unwrap returns the error in it.
func (o *outage) Unwrap() error { return o.err }

// outageOf returns an error of a transaction that has not committed: an *outage if other transactions or the connection are to blame.
func (h *handler) outageOf(tx pgx.Tx, err error) error {
	if work.Contended(err) {
		return &outage{err, h.store.retryContention}
	}
	if tx.Conn().IsClosed() {
		return &outage{err, h.store.retryLost}
	}
	return err
}

// funcTx is a transaction as a Func has it: the handler ends it.
type funcTx struct{ pgx.Tx }

var (
	errNotYours  = topology.Fail(topology.Config, errors.New("a Func must not commit or roll back: the handler does, with the answer"))
	errSwallowed = errors.New("the Func has returned no error, and a statement in its transaction has failed")
)

// Commit fails.
func (funcTx) Commit(context.Context) error { return errNotYours }

// Rollback fails.
func (funcTx) Rollback(context.Context) error { return errNotYours }

// reasonOf returns what can be said of an error without a risk that it quotes a request.
func reasonOf(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		reason := "SQLSTATE " + e.Code
		if e.ConstraintName != "" {
			reason += ", constraint " + e.ConstraintName + " of table " + e.TableName
		}
		return reason
	}
	for _, known := range []error{errInProgress, errSwallowed, errNotYours, errResponseTooLong, ErrFenced, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	if _, ok := errors.AsType[*outage](err); ok {
		return "the connection to the database was lost"
	}
	return (&topology.Failure{Err: err}).Reason()
}
