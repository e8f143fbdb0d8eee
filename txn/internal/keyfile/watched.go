package keyfile

import (
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"
)

// Watched is what files hold.
type Watched[T any] struct {
	log   *slog.Logger
	names []string
	read  func() (T, error)

	mu     sync.Mutex
	stamps []stamp
	value  T
}

// Watch reads a value with a function that reads the files of these names; empty names are none.
func Watch[T any](log *slog.Logger, read func() (T, error), names ...string) (*Watched[T], error) {
	w := &Watched[T]{log: log, names: slices.DeleteFunc(names, func(name string) bool { return name == "" }), read: read}
	return w, w.load(w.stamp())
}

// stamp tells whether a file has changed. Symbolic links are followed: Kubernetes swaps the link of a mounted secret.
type stamp struct {
	size     int64
	modified time.Time
}

func (w *Watched[T]) stamp() []stamp {
	stamps := make([]stamp, len(w.names))
	for i, name := range w.names {
		if info, err := os.Stat(name); err == nil {
			stamps[i] = stamp{info.Size(), info.ModTime()}
		}
	}
	return stamps
}

// load reads the value. The stamps were taken before: what changes meanwhile is read again.
func (w *Watched[T]) load(stamps []stamp) error {
	value, err := w.read()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stamps = stamps // also after a failure, so that it is told once and not with every use
	if err == nil {
		w.value = value
	}
	return err
}

// Current returns the value as of the files now, or the last good one while they cannot be used.
func (w *Watched[T]) Current() T {
	stamps := w.stamp() // not under the mutex: the file system may take its time
	w.mu.Lock()
	changed := !slices.Equal(w.stamps, stamps)
	w.mu.Unlock()
	if changed {
		if err := w.load(stamps); err != nil {
			w.log.Warn("changed files of keys and secrets cannot be used, the last good ones stay in use", "error", err)
		} else {
			w.log.Info("changed files of keys and secrets are in use for new connections", "files", w.names)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.value
}
