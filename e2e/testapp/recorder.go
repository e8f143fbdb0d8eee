package testapp

import (
	"errors"
	"io"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/onceward/onceward/e2e/check"
)

// Recorder stamps events and keeps them. It may be used from any goroutine; the first error is
// kept.
type Recorder struct {
	out   *check.Writer // nil: in memory
	began time.Time
	mu    sync.Mutex
	all   []check.Event
	first error
}

// NewRecorder returns a recorder of a history that begins now and is written to w.
func NewRecorder(w io.Writer) *Recorder { return &Recorder{out: check.NewWriter(w), began: time.Now()} }

// NewMemory returns a recorder of a history that begins now and stays in memory: see
// [Recorder.History].
func NewMemory() *Recorder { return &Recorder{began: time.Now()} }

// Began returns when the history began.
func (r *Recorder) Began() time.Time { return r.began }

// Write records an event that happens now.
func (r *Recorder) Write(e check.Event) {
	e.At = time.Since(r.began).Milliseconds()
	if r.out == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.all = append(r.all, e)
		return
	}
	if err := r.out.Write(e); err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.first == nil {
			r.first = err
		}
	}
}

// Fault records what was done to whom.
func (r *Recorder) Fault(what, who string) {
	r.Write(check.Event{Fault: &check.Fault{What: what, Who: who}})
}

// Flush hands everything to the underlying writer, and returns the first error of the recording.
func (r *Recorder) Flush() error {
	if r.out == nil {
		return nil
	}
	return errors.Join(r.out.Flush(), r.err())
}

// History yields what [NewMemory]'s recorder has.
func (r *Recorder) History() iter.Seq2[check.Event, error] {
	r.mu.Lock()
	all := slices.Clip(r.all)
	r.mu.Unlock()
	return func(yield func(check.Event, error) bool) {
		for _, e := range all {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (r *Recorder) err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.first
}
