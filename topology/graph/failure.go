package graph

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
)

// Failure is why a record failed. It is an error. Its own text is safe to log, because it quotes
// nothing of the record.
type Failure struct {
	// Node is the name of the node that failed. It is empty if the record came to no node.
	Node string
	// Class decided what happens.
	Class Class
	// Err is the error that the node returned. Its text may quote the record.
	Err error
	// Attempt is how often the record was tried, this time included.
	Attempt int
	// Stack is where the code panicked: functions, files and lines, without arguments. It is empty
	// if the code did not panic.
	Stack string
	// Again says that the policy is Park or Delay, and that there is no record that could be parked
	// or delayed. Only topology.Context.Try in a punctuation returns such a failure: the caller had
	// better keep what was refused, and try it another time.
	Again bool
	// Punctuation describes the schedule that failed; it is empty if a record failed.
	Punctuation string
	// Waited names the record that failed if it is not the one at work, but one that has waited in
	// a join and is passed on in its turn. It is empty otherwise.
	Waited string
	// Note is what a reader needs to know beside the reason. It is mostly empty.
	Note string
}

// Error returns node, class, attempt and reason.
func (f *Failure) Error() string {
	s := f.Class.String() + ": " + f.Message()
	if f.Node != "" {
		s = "node " + f.Node + ": " + s
	}
	if f.Attempt > 1 {
		s += " (attempt " + strconv.Itoa(f.Attempt) + ")"
	}
	if f.Punctuation != "" {
		s += ", in a " + f.Punctuation
	}
	if f.Note != "" {
		s += "; " + f.Note
	}
	return s
}

// Message is Reason with the record that failed, if that is not the one at work.
func (f *Failure) Message() string {
	if f.Waited == "" {
		return f.Reason()
	}
	return f.Reason() + ", for " + f.Waited
}

// Unwrap returns f.Err.
func (f *Failure) Unwrap() error { return f.Err }

// Reason describes f.Err without quoting the record. It is the text of the [schemas.Reason] or
// [schemas.Error] in f.Err, or the condition of the database that an error of a store names. For
// another error it is the Go type.
func (f *Failure) Reason() string {
	if reason, ok := safeText(f.Err); ok {
		return reason
	}
	return "error of type " + typeOf(f.Err)
}

// Type returns the Go type of the error at the bottom of f.Err. It says more than the types that
// wrap that error.
func (f *Failure) Type() string { return typeOf(f.Err) }

// safeText returns a text for err that quotes nothing of the record, if there is one.
func safeText(err error) (string, bool) {
	if p, ok := errors.AsType[*PartError](err); ok {
		if reason, ok := safeText(p.Err); ok {
			return p.Part + ": " + reason, true
		}
		return p.Part + ": error of type " + typeOf(p.Err), true
	}
	if reason, ok := errors.AsType[schemas.Reason](err); ok {
		return string(reason), true
	}
	if e, ok := errors.AsType[*schemas.Error](err); ok {
		return e.Error(), true
	}
	for _, condition := range storeConditions {
		if errors.Is(err, condition) {
			return condition.Error(), true
		}
	}
	return "", false
}

// storeConditions are the states of a database that a store's error can name, the most specific
// first.
var storeConditions = []error{state.ErrFull, state.ErrFailed, state.ErrCorrupt, state.ErrClosed}

// typeOf returns the Go type of the error at the bottom of err.
func typeOf(err error) string {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return fmt.Sprintf("%T", err)
		}
		err = inner
	}
}

// PartError says which part of a record a codec could not handle.
type PartError struct {
	// Part is "key", "value" or "foreign key".
	Part string
	Err  error
}

// Error returns the part and the text of e.Err, which may quote the record.
func (e *PartError) Error() string { return fmt.Sprintf("%s: %v", e.Part, e.Err) }

// Unwrap returns e.Err.
func (e *PartError) Unwrap() error { return e.Err }
