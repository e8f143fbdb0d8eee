package keyfile

import (
	"log/slog"
	"os"
	"slices"
	"sync"
)

// Watched is what files hold.
type Watched[T any] struct {
	log   *slog.Logger
	names []string
	read  func() (T, error)

	mu     sync.Mutex
	stamps []stamp
	value  T
	// failed says why the files of these stamps could not be used, empty if they were.
	failed string
}

// Watch reads a value with a function that reads the files of these names; empty names are none.
func Watch[T any](log *slog.Logger, read func() (T, error), names ...string) (*Watched[T], error) {
	w := &Watched[T]{log: log, names: slices.DeleteFunc(names, func(name string) bool { return name == "" }), read: read}
	_, err := w.load(w.stamp())
	return w, err
}

// stamp tells whether a file has changed; nil for none. Symbolic links are followed: Kubernetes
// swaps the link of a mounted secret.
type stamp struct{ os.FileInfo }

func (s stamp) same(other stamp) bool {
	if s.FileInfo == nil || other.FileInfo == nil {
		return s.FileInfo == nil && other.FileInfo == nil
	}
	// A copy that keeps times can have those of the file that it replaces.
	return s.Size() == other.Size() && s.ModTime().Equal(other.ModTime()) && os.SameFile(s.FileInfo, other.FileInfo)
}

func (w *Watched[T]) stamp() []stamp {
	stamps := make([]stamp, len(w.names))
	for i, name := range w.names {
		if info, err := os.Stat(name); err == nil {
			stamps[i] = stamp{info}
		}
	}
	return stamps
}

// load reads the value, and reports whether its failure is a new one. The stamps were taken before:
// what changes meanwhile is read again.
func (w *Watched[T]) load(stamps []stamp) (news bool, err error) {
	value, err := w.read()
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		news = err.Error() != w.failed || !slices.EqualFunc(w.stamps, stamps, stamp.same)
		w.stamps, w.failed = stamps, err.Error()
		return news, err
	}
	w.stamps, w.failed, w.value = stamps, "", value
	return true, nil
}

// Current returns the value as of the files now, or the last good one while they cannot be used.
// Files that could not be used are tried again with each call, because the reason may pass. The
// failure is reported once.
func (w *Watched[T]) Current() T {
	stamps := w.stamp() // not under the mutex: the file system may take its time
	w.mu.Lock()
	due := w.failed != "" || !slices.EqualFunc(w.stamps, stamps, stamp.same)
	w.mu.Unlock()
	if due {
		switch news, err := w.load(stamps); {
		case err == nil:
			w.log.Info("changed files of keys and secrets are in use for new connections", "files", w.names)
		case news:
			w.log.Warn("changed files of keys and secrets cannot be used, the last good ones stay in use", "error", err)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.value
}
