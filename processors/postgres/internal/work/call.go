package work

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/topology"
)

// Lend returns a transaction as a caller's function has it: it cannot end it.
func Lend(tx pgx.Tx) pgx.Tx { return lent{tx} }

type lent struct{ pgx.Tx }

// ErrNotYours is what Commit and Rollback of a lent transaction return.
var ErrNotYours = topology.Fail(topology.Config, errors.New("the function must not commit or roll back the transaction that it is given"))

func (lent) Commit(context.Context) error   { return ErrNotYours }
func (lent) Rollback(context.Context) error { return ErrNotYours }

// ErrSwallowed says that a function has returned no error although its transaction has been aborted.
var ErrSwallowed = topology.Fail(topology.Poison, errors.New("the function has returned no error, and a statement in its transaction has failed"))

// Call calls a caller's function. A panic is an error of class Poison.
func Call(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = topology.Fail(topology.Poison, &topology.PanicError{Type: fmt.Sprintf("%T", v)})
		}
	}()
	return f()
}
