package instance

import (
	"bytes"
	"os"
	"strings"
	"sync"
	"testing"
)

// envLog copies all logs to the standard error.
const envLog = "ONCEWARD_TEST_LOG"

const (
	// keepBytes is how much of the end of a log is kept, at least.
	keepBytes = 32 << 20
	// showBytes is how much of it is shown.
	showBytes = 12 << 10
)

// Log keeps what an application says. Its methods may be called from any goroutine.
type Log struct {
	copied bool
	mu     sync.Mutex
	text   bytes.Buffer
	line   []byte // begun, and not ended
	waited []waited
}

type waited struct {
	line string
	said chan struct{}
}

// NewLog returns a log that is shown under the name if the test fails.
func NewLog(t testing.TB, name string) *Log {
	l := &Log{copied: os.Getenv(envLog) != ""}
	t.Cleanup(func() {
		if t.Failed() && !l.copied {
			t.Logf("end of the log of %s:\n%s", name, l.tail())
		}
	})
	return l
}

// Await returns channels for lines that are waited for, in this order: each is closed when the line
// has been said after those before it. It is called before the application starts.
func (l *Log) Await(lines ...string) (said []chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range lines {
		w := waited{line, make(chan struct{})}
		l.waited, said = append(l.waited, w), append(said, w.said)
	}
	return said
}

// Write takes what was said. It never fails.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.copied {
		_, _ = os.Stderr.Write(p)
	}
	if l.text.Len() > 2*keepBytes {
		l.text.Next(l.text.Len() - keepBytes)
	}
	l.text.Write(p)
	if len(l.waited) == 0 {
		return len(p), nil
	}
	l.line = append(l.line, p...)
	for {
		line, rest, whole := bytes.Cut(l.line, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		if len(l.waited) > 0 && string(line) == l.waited[0].line {
			close(l.waited[0].said)
			l.waited = l.waited[1:]
		}
		l.line = rest
	}
}

// String returns what is kept.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Lines returns the lines that contain all of the words.
func (l *Log) Lines(words ...string) (out []string) {
next:
	for line := range strings.Lines(l.String()) {
		for _, word := range words {
			if !strings.Contains(line, word) {
				continue next
			}
		}
		out = append(out, line)
	}
	return out
}

func (l *Log) tail() string {
	text := l.String()
	if len(text) > showBytes {
		text = "...\n" + text[len(text)-showBytes:]
	}
	return strings.ToValidUTF8(text, "?")
}
