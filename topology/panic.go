package topology

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/onceward/onceward/schemas"
)

// PanicError is a recovered panic of user code. It has only the type of the panic's value, because
// the value can quote the record.
type PanicError struct {
	// Type is the Go type of the value.
	Type string
}

// Error names the type.
func (e *PanicError) Error() string { return "panic with a value of type " + e.Type }

// As makes the error a [schemas.Reason]: its text quotes nothing of the record.
func (e *PanicError) As(target any) bool {
	reason, ok := target.(*schemas.Reason)
	if ok {
		*reason = schemas.Reason(e.Error())
	}
	return ok
}

func newPanicError(value any) *PanicError { return &PanicError{Type: fmt.Sprintf("%T", value)} }

// stack returns the stack of the panic that is being recovered, one function a line with its place.
// Arguments are left out, unlike in debug.Stack: a number that comes from a record would be among
// them.
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
