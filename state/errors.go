package state

import (
	"errors"
	"fmt"
)

// Errors that callers decide on with errors.Is.
var (
	// ErrBase: a batch was refused because the database is not at the base that it was made for.
	// Nothing changed. The error is a *BaseError.
	ErrBase = errors.New("the database is not at the base of the batch")
	// ErrCorrupt: stored bytes are damaged. What depends on them is never served; the database or
	// directory has to be restored.
	ErrCorrupt = errors.New("stored state is corrupt")
	// ErrFailed: an earlier I/O error stopped the database. It refuses all further work, because
	// what reached the disk is unknown to the running process; once closed and opened again it is
	// at a valid prefix.
	ErrFailed = errors.New("the database stopped after an I/O error")
	// ErrFull: the disk is full, or the quota on it is used up. It is an ErrFailed with a remedy of
	// its own: the database stops as for every other I/O error and loses nothing, and goes on once
	// it is closed and opened again with more space. Open reports it too, and Checkpoint, which
	// stops nothing.
	ErrFull error = fullError{}
	// ErrClosed: the database, task or directory was closed.
	ErrClosed = errors.New("closed")
	// ErrUnknownStore: a store was used that the task did not declare.
	ErrUnknownStore = errors.New("unknown store")
	// ErrStoreID: two store names share one StoreID, or one name was declared twice.
	ErrStoreID = errors.New("store names collide")
	// ErrLayer: the layer given to Task.Apply is not the oldest one that was not applied yet.
	ErrLayer = errors.New("not the oldest frozen layer")
	// ErrFormat: the bytes were written in a format that this build does not read, as a rule by a
	// newer one. Nothing was changed.
	ErrFormat = errors.New("unknown format")
	// ErrForeign: the directory belongs to something else.
	ErrForeign = errors.New("not this application's state directory")
	// ErrLayout: a store is declared with another layout than its rows have. Nothing was changed;
	// the store has to be emptied, declared again and restored in full from its changelog.
	ErrLayout = errors.New("the store has rows of another layout")
	// ErrTime: a store was given a time that it cannot keep: one before 1970 or after the year
	// 2262, a session that ends before it starts, or the value of a window that is older than it.
	// Nothing was written.
	ErrTime = errors.New("not a time that a store can keep")
	// ErrLocked: another process holds the state directory.
	ErrLocked = errors.New("the state directory is in use")
)

// BaseError is the ErrBase of one refused batch.
type BaseError struct {
	// Base is what the batch was made for.
	Base Positions
	// Actual is where the database is.
	Actual Positions
}

// Error names both positions.
func (e *BaseError) Error() string {
	return fmt.Sprintf("state: apply: %v: base is {%v}, the database is at {%v}", ErrBase, e.Base, e.Actual)
}

// Unwrap returns ErrBase.
func (e *BaseError) Unwrap() error { return ErrBase }
