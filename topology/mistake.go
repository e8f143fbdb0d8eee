package topology

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"
)

// A Mistake is one thing that is wrong with a topology.
type Mistake struct {
	// Node is the name of the node, store or topic that it is about; empty if it is about the whole
	// topology.
	Node string
	// File and Line are the caller's: the line that declared what is wrong.
	File string
	Line int
	// Err says what is wrong and what to do.
	Err error
}

// Error returns the place, the node and what is wrong in one line.
func (m *Mistake) Error() string {
	if m.Node == "" {
		return fmt.Sprintf("%s:%d: %v", m.File, m.Line, m.Err)
	}
	return fmt.Sprintf("%s:%d: %s: %v", m.File, m.Line, m.Node, m.Err)
}

// Unwrap returns m.Err.
func (m *Mistake) Unwrap() error { return m.Err }

// BuildError is all that is wrong with a topology, in the order in which it was found.
type BuildError struct {
	// Topology is the name given to NewBuilder.
	Topology string
	Mistakes []*Mistake
}

// Error lists the mistakes, one a line.
func (e *BuildError) Error() string {
	var s strings.Builder
	noun := "mistakes"
	if len(e.Mistakes) == 1 {
		noun = "mistake"
	}
	fmt.Fprintf(&s, "topology %s: %d %s", e.Topology, len(e.Mistakes), noun)
	for _, m := range e.Mistakes {
		s.WriteString("\n\t")
		s.WriteString(m.Error())
	}
	return s.String()
}

// Unwrap returns the mistakes.
func (e *BuildError) Unwrap() []error {
	errs := make([]error, len(e.Mistakes))
	for i, m := range e.Mistakes {
		errs[i] = m
	}
	return errs
}

// position is a place in the user's program.
type position struct {
	file string
	line int
}

// callerPrefixes are the functions that stand between the user and a declaration: those of this
// package and of the ready-made processors, which declare nodes on the user's behalf.
var callerPrefixes = func() []string {
	pkg := reflect.TypeFor[Builder]().PkgPath()
	return []string{pkg + ".", strings.TrimSuffix(pkg, "topology") + "processors/"}
}()

// caller returns the innermost place outside of this module's topology and processors. Their tests
// count as outside.
func caller() position {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		frame, more := frames.Next()
		if frame.Function != "" && !declaresForOthers(frame) {
			return position{file: frame.File, line: frame.Line}
		}
		if !more {
			return position{file: "unknown"}
		}
	}
}

func declaresForOthers(frame runtime.Frame) bool {
	if strings.HasSuffix(frame.File, "_test.go") {
		return false
	}
	for _, prefix := range callerPrefixes {
		if strings.HasPrefix(frame.Function, prefix) {
			return true
		}
	}
	return false
}
