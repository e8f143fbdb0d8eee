package work

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onceward/onceward/processors/postgres"
)

// Begin is the statement that begins a transaction. The server ends the transaction when it is idle
// for so long: that of a process that has frozen in it. 0 is never.
func Begin(isolation pgx.TxIsoLevel, idle time.Duration) string {
	return fmt.Sprintf("begin isolation level %s; set local idle_in_transaction_session_timeout = %d", isolation, min(idle.Milliseconds(), math.MaxInt32))
}

// rollbackMax is how long a rollback waits for a network that does not answer.
const rollbackMax = 5 * time.Second

// Rollback rolls back, also when ctx has ended. Behind a COMMIT, and on a connection that has
// ended, it does nothing. Its own failure ends the connection, and so the transaction.
func Rollback(ctx context.Context, tx pgx.Tx) {
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackMax)
	defer cancel()
	_ = tx.Rollback(patience)
}

// RolledBack says whether an error of a COMMIT is the answer that the transaction is rolled back: a
// deferred constraint, a serialization failure. Behind any other error it may have taken effect.
func RolledBack(err error) bool {
	_, answered := errors.AsType[*pgconn.PgError](err)
	return answered && !postgres.Unavailable(err) || errors.Is(err, pgx.ErrTxCommitRollback)
}
