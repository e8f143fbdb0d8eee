package topology

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"

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
	// that. Only what [Context.Try] returns in a punctuation has it: what was refused is best kept, and tried another time.
	Again bool

	node *node
	// inherent says that the failure follows from the bytes of the record and the codecs of its source alone.
	inherent bool
	// punctuation is the schedule that failed, nil if it was a record.
	punctuation *schedule
	// note is what a reader needs to know beside the reason; empty mostly.
	note string
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
	if f.punctuation != nil {
		s += ", in a " + f.punctuation.String()
	}
	if f.note != "" {
		s += "; " + f.note
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

// safeText returns the text for err that is known to quote nothing of the record.
func safeText(err error) (string, bool) {
	if p, ok := errors.AsType[*partError](err); ok {
		if reason, ok := safeText(p.err); ok {
			return p.part + ": " + reason, true
		}
		return p.part + ": error of type " + typeOf(p.err), true
	}
	if reason, ok := errors.AsType[schemas.Reason](err); ok {
		return string(reason), true
	}
	if e, ok := errors.AsType[*schemas.Error](err); ok {
		return e.Error(), true
	}
	if p, ok := errors.AsType[*PanicError](err); ok {
		return p.Error(), true
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

// PanicError is a recovered panic of user code. Only the type of the panic's value is kept, because the
// value may be, or quote, a part of the record.
type PanicError struct {
	// Type is the Go type of the value.
	Type string
}

// Error names the type.
func (e *PanicError) Error() string { return "panic with a value of type " + e.Type }

func newPanicError(value any) *PanicError { return &PanicError{Type: fmt.Sprintf("%T", value)} }

// stack returns the stack of the panic that is being recovered, one function a line with its place.
// Arguments are left out, unlike in debug.Stack: a number that comes from a record would be among them.
func stack() string {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	var s strings.Builder
	panicking := false
	for {
		frame, more := frames.Next()
		if panicking {
			fmt.Fprintf(&s, "%s\n\t%s:%d\n", frame.Function, frame.File, frame.Line)
		}
		// Everything before is the recovery itself.
		panicking = panicking || frame.Function == "runtime.gopanic"
		if !more {
			return s.String()
		}
	}
}
