package graph

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
)

// Failure is why a record failed. It is an error whose own text is safe to log: it quotes nothing of the
// record.
type Failure struct {
	// Node is the name of the node that failed; empty if the record did not come to any.
	Node string
	// Class decided what happens.
	Class Class
	// Err is the error that the node returned. Its text may quote the record; the reason that Error shows
	// does not.
	Err error
	// Attempt is how often the record was tried, this time included.
	Attempt int
	// Stack is where the code panicked: functions, files and lines, without arguments. It is empty if it
	// did not panic.
	Stack string
	// Again says that the policy is to try again later (Park or Delay), and that no record is at work that could wait for
	// that. Only what topology.Context.Try returns in a punctuation has it: what was refused is best kept, and tried another time.
	Again bool
	// Punctuation describes the schedule that failed; it is empty if a record failed.
	Punctuation string
	// Note is what a reader needs to know beside the reason. It is mostly empty.
	Note string
}

// Error returns node, class, attempt and reason.
func (f *Failure) Error() string {
	s := f.Class.String() + ": " + f.Reason()
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

// Unwrap returns f.Err.
func (f *Failure) Unwrap() error { return f.Err }

// Reason returns what can be said of f.Err without a risk that it quotes the record: the text of the
// [schemas.Reason] or [schemas.Error] in it, or what an error of a store says of its database. Of any other error it is the Go type.
func (f *Failure) Reason() string {
	if reason, ok := safeText(f.Err); ok {
		return reason
	}
	return "error of type " + typeOf(f.Err)
}

// Type returns the Go type of the error at the bottom of f.Err. It says more than the types that wrap
// that error.
func (f *Failure) Type() string { return typeOf(f.Err) }

// safeText returns the text for err that is known to quote nothing of the record.
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

// storeConditions are the states of a database that a store's error can name, the most specific first.
var storeConditions = []error{state.ErrFull, state.ErrFailed, state.ErrCorrupt, state.ErrClosed}

// typeOf returns the Go type of the error at the bottom of err, which says more than the types that wrap it.
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
	// Part is "key" or "value".
	Part string
	Err  error
}

// Error returns the part and the text of e.Err, which may quote the record.
func (e *PartError) Error() string { return fmt.Sprintf("%s: %v", e.Part, e.Err) }

// Unwrap returns e.Err.
func (e *PartError) Unwrap() error { return e.Err }
