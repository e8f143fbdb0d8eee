package pebblestore

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/cockroachdb/redact"

	"github.com/onceward/onceward/state"
)

// fault is the first error that a database must not survive. It is Pebble's logger and event
// listener, through which Pebble tells about such errors, and it stands between Pebble and the file
// system.
//
// Pebble ends the process when it does not know whether a change of its MANIFEST reached the disk,
// because every further step could be wrong: it would, for instance, remove the table that the
// change names. And it retries a failed flush at once and without end. Instead of ending the
// process, fault freezes the directory as a kill at this moment would: from the first error on
//
//   - every operation that changes a file or the directory is refused, so that a reopening finds
//     what a crash leaves;
//   - the creation of a table, with which each retry of a flush or compaction begins, waits until
//     Close, so that retries do not spin (during Open it does not, for there is nobody yet who
//     could close, nor does a checkpoint, which nobody retries). That of a MANIFEST does not wait:
//     Pebble holds a lock then that its metrics need;
//   - reads go on below, but the database looks at the fault after each of them and returns it
//     instead: what Pebble read after a call of Fatalf returned may be wrong.
//
// Pebble's own hook for refused operations, package errorfs, is made for tests; it is a thin
// wrapper that suits this as well, and keeps the wrapping of twenty methods out of here.
type fault struct {
	path string
	log  *slog.Logger
	// fs is asked how much space is left when the disk is full; nil is nobody to ask.
	fs vfs.FS
	// files are those that Pebble has open for writing.
	files *files
	err   atomic.Pointer[storeError]
	// failed is closed with the first error.
	failed chan struct{}
	// opened is set when Open is done. closing is closed by Close: creations that wait go on to
	// fail.
	opened    atomic.Bool
	closing   chan struct{}
	closeOnce sync.Once
	// copying has a *copyFault for the directory of each checkpoint that is being written.
	copying sync.Map
	// compacted gets a token when a compaction ends, for the flusher that waits for one. replaced
	// gets one when a flush or a compaction ends: what it replaced is kept by the iterators that
	// were made before.
	compacted, replaced chan struct{}
}

func newFault(path string, log *slog.Logger, fs vfs.FS) *fault {
	return &fault{
		path: path, log: log.With("database", path), fs: fs, files: newFiles(fs),
		failed: make(chan struct{}), closing: make(chan struct{}), compacted: make(chan struct{}, 1), replaced: make(chan struct{}, 1),
	}
}

// close lets creations go on that wait.
func (f *fault) close() { f.closeOnce.Do(func() { close(f.closing) }) }

// stop records the first error and freezes the directory. Pebble calls it while it holds locks: it
// must not call back.
func (f *fault) stop(err error) { f.stopFor(f.newError("stopped", err)) }

func (f *fault) stopFor(e *storeError) {
	if e.class == nil {
		e.class = state.ErrFailed
	}
	if !f.err.CompareAndSwap(nil, e) {
		return
	}
	close(f.failed)
	f.log.Error("database stopped", "error", e.Error())
}

// check returns the error of op if the database has stopped.
func (f *fault) check(op string) error {
	if e := f.err.Load(); e != nil {
		return fmt.Errorf("pebblestore: %s: %w", op, e)
	}
	return nil
}

// read returns the error of a read that ended with err, and stops the database if it shows damage,
// or a full disk: what such an error says holds for the whole database.
func (f *fault) read(op string, err error) error {
	if err != nil && (pebble.IsCorruptionError(err) || state.IsFull(err)) {
		f.stop(err)
	}
	if stopped := f.check(op); stopped != nil || err == nil {
		return stopped
	}
	return f.newError(op, err)
}

// disk returns the file system behind the fault.
func (f *fault) disk() vfs.FS { return faultFS{errorfs.Wrap(f.files, f), f} }

// faultFS catches the one error that Pebble answers with a panic, in a goroutine of its own at
// that: the failed sync of a directory. The fault learns of it and Pebble does not; what Pebble
// goes on to do in the belief that it is safe is refused.
type faultFS struct {
	vfs.FS
	fault *fault
}

// Create implements vfs.FS. It makes the entries of a directory durable before a marker joins them.
// Pebble creates a new MANIFEST, then the marker that names it, and syncs the directory once: a
// file system that keeps the second entry without the first leaves a database that cannot be
// opened. Journals keep the order, POSIX does not ask for it.
func (fs faultFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if strings.HasPrefix(fs.PathBase(name), "marker.") {
		dir, err := fs.OpenDir(fs.PathDir(name))
		if err != nil {
			return nil, err
		}
		if err := errors.Join(dir.Sync(), dir.Close()); err != nil {
			return nil, err
		}
	}
	return fs.FS.Create(name, category)
}

// OpenDir implements vfs.FS.
func (fs faultFS) OpenDir(name string) (vfs.File, error) {
	dir, err := fs.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	if fs.fault.owns(name) {
		return faultDir{dir, fs.fault}, nil
	}
	if copied, ok := fs.fault.copying.Load(name); ok {
		return copyDir{dir, copied.(*copyFault)}, nil
	}
	return dir, nil // above them; Pebble returns the error
}

// Unwrap implements vfs.FS.
func (fs faultFS) Unwrap() vfs.FS { return fs.FS }

type faultDir struct {
	vfs.File
	fault *fault
}

// Sync implements vfs.File. It never fails, see faultFS.
func (d faultDir) Sync() error {
	if err := d.File.Sync(); err != nil {
		d.fault.stop(err)
	}
	return nil
}

// MaybeError implements errorfs.Injector: it refuses changes once the database has stopped, and
// those of a checkpoint that the close waits for.
func (f *fault) MaybeError(op errorfs.Op) error {
	if op.Kind.ReadOrWrite() == errorfs.OpIsRead {
		return nil
	}
	if f.err.Load() == nil {
		return f.interrupted(op.Path)
	}
	if op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst") && f.opened.Load() && f.owns(op.Path) {
		<-f.closing
	}
	return fmt.Errorf("refused: %w", state.ErrFailed)
}

// interrupted refuses to go on with a file of a checkpoint once Close was called: where tables
// cannot be linked, a checkpoint copies as much as there is.
func (f *fault) interrupted(path string) error {
	select {
	case <-f.closing:
	default:
		return nil
	}
	if _, copied := f.copying.Load(filepath.Dir(path)); !copied {
		return nil
	}
	return fmt.Errorf("refused: the database is %w", state.ErrClosed)
}

// String implements errorfs.Injector.
func (f *fault) String() string { return "fault of " + f.path }

// Infof implements pebble.Logger.
func (f *fault) Infof(format string, args ...any) {
	f.log.Debug("pebble", "message", lazySafe{format, args})
}

// Errorf implements pebble.Logger.
func (f *fault) Errorf(format string, args ...any) {
	f.log.Error("pebble", "message", lazySafe{format, args})
}

// Fatalf implements pebble.Logger. Unlike what Pebble expects it returns.
func (f *fault) Fatalf(format string, args ...any) {
	cause := errFatal
	for _, arg := range args {
		if err, ok := arg.(error); ok {
			cause = err
			break
		}
	}
	e := f.newError("stopped", cause)
	e.text = fmt.Sprintf("stopped %s: %s", f.path, safe(redact.Sprintf(format, args...)))
	f.stopFor(e)
}

// errFatal is the cause of a call of Fatalf that names no error: Pebble found its own state
// inconsistent.
var errFatal = errors.New("pebble found an inconsistency")

// listener returns the events that matter. All others have Pebble's default, which is to do
// nothing.
func (f *fault) listener() *pebble.EventListener {
	return &pebble.EventListener{
		BackgroundError: f.stop,
		DataCorruption:  func(info pebble.DataCorruptionInfo) { f.stop(info.Details) },
		CompactionEnd: func(pebble.CompactionInfo) {
			token(f.compacted)
			token(f.replaced)
		},
		FlushEnd: func(pebble.FlushInfo) { token(f.replaced) },
	}
}

// lazySafe formats a message of Pebble without what Pebble marks as data, if a handler asks for it
// at all.
type lazySafe struct {
	format string
	args   []any
}

func (m lazySafe) LogValue() slog.Value {
	return slog.StringValue(safe(redact.Sprintf(m.format, m.args...)))
}

// safe returns a text of Pebble without what Pebble marks as data, in one line: it lists every file
// that is missing.
func safe(s redact.RedactableString) string {
	text := s.Redact().StripMarkers()
	first, rest, more := strings.Cut(text, "\n")
	if more {
		return fmt.Sprintf("%s (and %d lines more)", first, 1+strings.Count(rest, "\n"))
	}
	return text
}

// storeError is an error of Pebble without the keys that Pebble's texts may contain.
type storeError struct {
	text string
	// class is state.ErrCorrupt, state.ErrFailed, state.ErrFull or nil.
	class error
	cause error
	// note is what else helps whoever reads the text.
	note string
}

func (f *fault) newError(op string, err error) *storeError {
	e := &storeError{cause: err}
	switch {
	case pebble.IsCorruptionError(err):
		e.class = state.ErrCorrupt
	case state.IsFull(err):
		e.class = state.ErrFull
		if free, ok := freeBytes(f.fs, f.path); ok {
			e.note = fmt.Sprintf(" (%d bytes are free in %s)", free, f.path)
		}
	}
	e.text = fmt.Sprintf("%s %s: %s", op, f.path, safe(redact.Sprint(err)))
	return e
}

// Error says what happened where.
func (e *storeError) Error() string {
	if e.class == nil {
		return e.text + e.note
	}
	return e.class.Error() + ": " + e.text + e.note
}

// Unwrap returns the class and the cause.
func (e *storeError) Unwrap() []error {
	if e.class == nil {
		return []error{e.cause}
	}
	return []error{e.class, e.cause}
}
