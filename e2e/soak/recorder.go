package soak

import (
	"errors"
	"io"
	"sync"
	"time"

	"github.com/onceward/onceward/e2e/check"
)

// Recorder stamps events and writes them. It may be used from any goroutine; the first error is kept.
type Recorder struct {
	out   *check.Writer
	began time.Time
	mu    sync.Mutex
	first error
}

// NewRecorder returns a recorder of a history that begins now.
func NewRecorder(w io.Writer) *Recorder { return &Recorder{out: check.NewWriter(w), began: time.Now()} }

// Write records an event that happens now.
func (r *Recorder) Write(e check.Event) {
	e.At = time.Since(r.began).Milliseconds()
	if err := r.out.Write(e); err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.first == nil {
			r.first = err
		}
	}
}

// Flush hands everything to the underlying writer, and returns the first error of the recording.
func (r *Recorder) Flush() error { return errors.Join(r.out.Flush(), r.err()) }

func (r *Recorder) err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.first
}

func (r *Recorder) fault(what, who string) {
	r.Write(check.Event{Fault: &check.Fault{What: what, Who: who}})
}
