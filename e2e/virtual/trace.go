package virtual

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// Trace is what happened in a run, for a person to read. It may be used from any goroutine.
type Trace struct {
	began time.Time
	mu    sync.Mutex
	lines []line
	lost  int
}

// line is formatted when it is read: most runs succeed, and their traces are not read.
type line struct {
	at   time.Duration
	who  string
	what fmt.Stringer
}

type said string

func (s said) String() string { return string(s) }

// traceMax bounds the lines of a trace, and with them the frames that it keeps: the oldest ones go
// first.
const traceMax = 20_000

// NewTrace returns an empty trace whose clock begins now.
func NewTrace() *Trace { return &Trace{began: time.Now()} }

// Logf appends a line with the time and with who did something.
func (t *Trace) Logf(who, format string, args ...any) { t.add(who, said(fmt.Sprintf(format, args...))) }

func (t *Trace) add(who string, what fmt.Stringer) {
	at := t.Elapsed()
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lines) == traceMax {
		t.lines = append(t.lines[:0], t.lines[traceMax/2:]...)
		t.lost += traceMax / 2
	}
	t.lines = append(t.lines, line{at, who, what})
}

// Last returns the last n lines.
func (t *Trace) Last(n int) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := t.lines[max(0, len(t.lines)-n):]
	var b strings.Builder
	if before := t.lost + len(t.lines) - len(lines); before > 0 {
		fmt.Fprintf(&b, "(%d earlier lines left out)\n", before)
	}
	for _, l := range lines {
		fmt.Fprintf(&b, "%10.3fs %-12s %s\n", l.at.Seconds(), l.who, l.what)
	}
	return b.String()
}

// Elapsed returns the virtual time since the trace began.
func (t *Trace) Elapsed() time.Duration { return time.Since(t.began) }
