package work

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// Lend returns a transaction as a caller's function has it: it cannot end it.
func Lend(tx pgx.Tx) pgx.Tx { return lent{tx} }

type lent struct{ pgx.Tx }

func (lent) Commit(context.Context) error   { return ErrNotYours }
func (lent) Rollback(context.Context) error { return ErrNotYours }

// The ways in which a function can misuse its transaction.
var (
	// ErrNotYours is what Commit and Rollback of a lent transaction return.
	ErrNotYours = topology.Fail(topology.Config, schemas.Reason("the function must not commit or roll back the transaction that it is given"))
	// ErrSwallowed says that a function has returned no error although its transaction has been
	// aborted.
	ErrSwallowed = topology.Fail(topology.Poison, schemas.Reason("the function has returned no error, and a statement in its transaction has failed"))
	// ErrEnded says that a function has ended its transaction by a statement.
	ErrEnded = topology.Fail(topology.Config, schemas.Reason("the function has ended the transaction that it is given"))
	// ErrRowsOpen says that the connection of a transaction cannot be used yet.
	ErrRowsOpen = topology.Fail(topology.Config, schemas.Reason("the function has left the rows of a query open: close them, or read them to their end"))
)

// LeftBy says whether a function that has returned no error has left its transaction fit to go on.
func LeftBy(conn *pgx.Conn) error {
	switch c := conn.PgConn(); {
	case c.IsClosed(): // the next statement says so
		return nil
	case c.IsBusy():
		return ErrRowsOpen
	case c.TxStatus() == 'E':
		return ErrSwallowed
	case c.TxStatus() == 'I':
		return ErrEnded
	}
	return nil
}

// CallError is an error that a caller's function has returned. Its text is that of the error.
type CallError struct{ Err error }

// Error returns the text of e.Err.
func (e *CallError) Error() string { return e.Err.Error() }

// Unwrap returns e.Err.
func (e *CallError) Unwrap() error { return e.Err }

// Call calls a caller's function. Its error is a [CallError], and a panic is one of class Poison.
func Call(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = topology.Fail(topology.Poison, &topology.PanicError{Type: fmt.Sprintf("%T", v)})
		}
	}()
	if err := f(); err != nil {
		return &CallError{err}
	}
	return nil
}
