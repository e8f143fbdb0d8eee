package pgrequests

import (
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/onceward/onceward/processors/postgres/internal/work"
	"github.com/onceward/onceward/schemas"
)

// errInProgress: a copy of the request is at work.
const errInProgress = schemas.Reason("a copy of the request is at work")

// outage is an error of a transaction that is worth another attempt. The counter says why.
type outage struct {
	err     error
	counter prometheus.Counter
}

// Error is that of the error in it.
func (o *outage) Error() string { return o.err.Error() }

// Unwrap returns the error in it.
func (o *outage) Unwrap() error { return o.err }

// outageOf returns an error of a transaction that has not committed: an *outage if other
// transactions or the connection are to blame.
func (h *handler) outageOf(tx pgx.Tx, err error) error {
	if work.Contended(err) {
		return &outage{err, h.store.retryContention}
	}
	if conn := tx.Conn(); conn.IsClosed() {
		return &outage{work.OfConnection(conn, err), h.store.retryLost}
	}
	return err
}
