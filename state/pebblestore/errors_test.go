package pebblestore_test

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/pebblestore"
	"github.com/onceward/onceward/state/statetest"
)

// workload is a short life of a database: two sessions with flushes, compactions, reads and a close
// in between.
type workload struct {
	history *statetest.History
	rng     *rand.Rand
	// applied is the number of rounds that Apply took, durable that of those before the last Flush
	// or Close that returned no error. They are read in the middle of an operation, on a goroutine
	// of Pebble's.
	applied, durable atomic.Int64
	// compactions counts those of both sessions.
	compactions int64
	// wrong is the first read that was not an error and not right either. It belongs to the
	// goroutine of run.
	wrong error
}

func newWorkload(seed uint64) *workload {
	rng := rand.New(rand.NewPCG(seed, 2))
	return &workload{history: statetest.NewHistory(rng, 24, 40, 200), rng: rng}
}

func (w *workload) run(fs vfs.FS) error {
	half := len(w.history.Rounds) / 2
	if err := w.session(fs, half); err != nil {
		return fmt.Errorf("first session: %w", err)
	}
	if err := w.session(fs, len(w.history.Rounds)); err != nil {
		return fmt.Errorf("second session: %w", err)
	}
	return nil
}

// session goes on to the given round. It stops at the first error, as a task does, except that a
// failed read is tried again later.
func (w *workload) session(fs vfs.FS, to int) (err error) {
	db, err := pebblestore.Open("task", pebblestore.CompactEarly(pebblestore.Options{FS: fs, FlushBytes: 16 << 10}))
	if err != nil {
		return err
	}
	defer func() {
		// Of a database that has stopped too: it answers, and does not wait for anything.
		if m, ok := pebblestore.MetricsOf(db); ok {
			w.compactions += m.Compactions
		}
		if closeErr := db.Close(); closeErr != nil {
			err = errors.Join(err, closeErr)
		} else if err == nil {
			w.durable.Store(w.applied.Load())
		}
	}()
	if err := db.Declare(w.history.Stores()...); err != nil {
		return err
	}
	at, err := w.history.Locate(db.Positions())
	if err != nil || at != int(w.applied.Load()) {
		w.wrong = fmt.Errorf("opened at round %d of %d: %w", at, w.applied.Load(), err)
		return w.wrong
	}
	for at < to {
		if err := w.history.Apply(db, at, at+1); err != nil {
			return err
		}
		at++
		w.applied.Store(int64(at))
		for range 3 {
			w.read(w.history.ExpectGet(db, at, w.rng))
		}
		if at%6 == 0 {
			if err := db.Flush(); err != nil {
				return err
			}
			w.durable.Store(int64(at))
			_, err := w.history.Verify(db)
			w.read(err)
		}
	}
	return nil
}

// read tells an injected error from a wrong result.
func (w *workload) read(err error) {
	if err != nil && !errors.Is(err, errInjected) && !errors.Is(err, errBadDisk) && w.wrong == nil {
		w.wrong = err
	}
}

// verify opens what the workload left and expects one of its rounds, not less than was durable and
// not more than was applied.
func (w *workload) verify(fs vfs.FS, durable, applied int64) error {
	db, err := pebblestore.Open("task", pebblestore.Options{FS: fs})
	if err != nil {
		return fmt.Errorf("reopen: %w", err)
	}
	n, err := w.history.Verify(db)
	// A batch whose Apply failed may be in: the error came from somewhere else at the same moment.
	if err == nil && (int64(n) < durable || int64(n) > applied+1) {
		err = fmt.Errorf("reopened at round %d: %d were durable and %d applied", n, durable, applied)
	}
	return errors.Join(err, db.Close())
}

// errInjected looks like a full disk, the error that operators meet, errBadDisk like a disk that
// fails.
var (
	errInjected = fmt.Errorf("injected: %w", syscall.ENOSPC)
	errBadDisk  = fmt.Errorf("injected: %w", syscall.EIO)
)

// injector fails the operations from index on, one or all of them.
type injector struct {
	index   int64
	forever bool
	// late lets the operation happen before it fails: what an fsync did when it returned an error
	// is unknown.
	late bool
	// err is errInjected unless it is set.
	err error

	// before is called before the first operation that fails.
	before func()

	n     atomic.Int64
	mu    sync.Mutex
	first *errorfs.Op
}

// arm makes the operation of that index from now on fail.
func (i *injector) arm(index int64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.index = i.n.Load() + index
}

// firstOp returns what failed first, nil for nothing.
func (i *injector) firstOp() *errorfs.Op {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.first
}

func (i *injector) String() string { return "injector" }

func (i *injector) MaybeError(op errorfs.Op) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	// An error of the MANIFEST is the end of the process for Pebble. With the race detector it
	// checks afterwards what it has in memory, and panics over what it has not put back.
	if pebblestore.RaceDetector && strings.Contains(op.Path, "MANIFEST") {
		return nil
	}
	n := i.n.Add(1) - 1
	if n < i.index || n > i.index && !i.forever {
		return nil
	}
	if i.first == nil {
		if i.first = &op; i.before != nil {
			i.before()
		}
	}
	return cmp.Or(i.err, errInjected)
}

// mustSurface says that the loss of such an operation must not go unnoticed. Others may: what fails
// to be removed is removed at the next open, and hints to the operating system are hints.
func mustSurface(kind errorfs.OpKind) bool {
	switch kind {
	case errorfs.OpCreate, errorfs.OpFileWrite, errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpRename,
		errorfs.OpMkdirAll:
		return true
	}
	return false
}

func TestErrorAtEveryOperation(t *testing.T) {
	modes := []struct {
		name          string
		forever, late bool
		err           error
		step          int
	}{
		{"once", false, false, errInjected, 1}, {"from then on", true, false, errInjected, 1},
		{"once, after it happened", false, true, errInjected, 1},
		{"a bad disk, once", false, false, errBadDisk, 5}, {"a bad disk, from then on", true, false, errBadDisk, 7},
		{"a bad disk, once, after it happened", false, true, errBadDisk, 3},
	}
	w := newWorkload(1)
	if err := w.run(vfs.NewMem()); err != nil || w.compactions == 0 {
		t.Fatalf("the workload compacts %d times, %v: errors in compactions would not be tested", w.compactions, err)
	}
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			step := mode.step
			switch {
			case pebblestore.RaceDetector:
				step *= 37
			case testing.Short():
				step *= 5
			}
			surfaced, tried := 0, 0
			for index := 0; ; index += step {
				i := &injector{index: int64(index), forever: mode.forever, late: mode.late, err: mode.err}
				err, op := runWithErrors(t, i)
				if op == nil {
					if tried == 0 {
						t.Fatal("no operation was injected into")
					}
					break
				}
				tried++
				if err != nil {
					surfaced++
				} else if mustSurface(op.Kind) {
					t.Errorf("operation %d: kind %d on %s failed and nobody said so", index, op.Kind, op.Path)
				}
			}
			t.Logf("%d operations, %d errors surfaced", tried, surfaced)
		})
	}
}

// runWithErrors runs the workload and checks what it leaves: as it is, and as a power loss at the
// end leaves it.
func runWithErrors(t *testing.T, i *injector) (err error, op *errorfs.Op) {
	t.Helper()
	fs := vfs.NewCrashableMem()
	w := newWorkload(1)
	if i.late {
		err = w.run(lateErrors{errorfs.Wrap(fs, neverInject{}), i})
	} else {
		err = w.run(errorfs.Wrap(fs, i))
	}
	if w.wrong != nil {
		t.Fatalf("operation %d (%+v): a wrong read: %v (workload: %v)", i.index, i.first, w.wrong, err)
	}
	percent := int(i.index*37) % 101
	rng := rand.New(rand.NewPCG(uint64(i.index), 3))
	clone := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng})
	for name, left := range map[string]*vfs.MemFS{"as it is": fs, fmt.Sprintf("crash, %d %%", percent): clone} {
		if verifyErr := w.verify(left, w.durable.Load(), w.applied.Load()); verifyErr != nil {
			t.Fatalf("operation %d (%+v), %s: %v (workload: %v)", i.index, i.first, name, verifyErr, err)
		}
	}
	full := errors.Is(i.err, errInjected)
	if err != nil && (errors.Is(err, state.ErrFull) != full || errors.Is(err, state.ErrCorrupt)) {
		t.Errorf("operation %d (%+v): %v is reported as %v", i.index, i.first, i.err, err)
	}
	if err != nil && strings.Contains(err.Error(), "key-") {
		t.Errorf("the error contains a key: %v", err)
	}
	return err, i.first
}

// crashes clones the file system before every operation, as a crash at this moment would leave it.
type crashes struct {
	fs *vfs.MemFS
	w  *workload

	mu     sync.Mutex
	rng    *rand.Rand
	clones []crashed
	// linking is held shared while a link is made, and exclusively to clone.
	linking sync.RWMutex
}

// apart keeps links and clones apart. The Link of Pebble's file system in memory takes one lock for
// reading twice, and hangs for ever when a clone asks for the lock in between.
type apart struct {
	vfs.FS
	linking *sync.RWMutex
}

func (fs apart) Link(from, to string) error {
	fs.linking.RLock()
	defer fs.linking.RUnlock()
	return fs.FS.Link(from, to)
}

func (fs apart) Unwrap() vfs.FS { return fs.FS }

type crashed struct {
	fs               *vfs.MemFS
	op               errorfs.Op
	percent          int
	durable, applied int64
}

func (*crashes) String() string { return "crashes" }

func (c *crashes) MaybeError(op errorfs.Op) error {
	if op.Kind.ReadOrWrite() == errorfs.OpIsRead {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	percent := []int{0, 100, c.rng.IntN(101)}[len(c.clones)%3]
	at := crashed{op: op, percent: percent, durable: c.w.durable.Load()}
	c.linking.Lock()
	at.fs = c.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: c.rng})
	c.linking.Unlock()
	at.applied = c.w.applied.Load()
	c.clones = append(c.clones, at)
	return nil
}

func TestCrashBeforeEveryOperation(t *testing.T) {
	seeds, step := uint64(3), 1
	if pebblestore.RaceDetector {
		seeds, step = 1, 4 // all crashes are made, and the databases are read one after the other: a fourth, of every percentage
	}
	for seed := range seeds {
		fs := vfs.NewCrashableMem()
		w := newWorkload(seed)
		c := &crashes{fs: fs, w: w, rng: rand.New(rand.NewPCG(seed, 4))}
		if err := w.run(errorfs.Wrap(apart{fs, &c.linking}, c)); err != nil || w.wrong != nil {
			t.Fatal(err, w.wrong)
		}
		for i := 0; i < len(c.clones); i += step {
			at := c.clones[i]
			if err := w.verify(at.fs, at.durable, at.applied); err != nil {
				t.Fatalf("seed %d, crash %d before %+v with %d %%: %v", seed, i, at.op, at.percent, err)
			}
		}
		t.Logf("seed %d: %d crashes", seed, len(c.clones))
	}
}

// neverInject makes errorfs a plain wrapper.
type neverInject struct{}

func (neverInject) String() string              { return "never" }
func (neverInject) MaybeError(errorfs.Op) error { return nil }

// lateErrors fails syncs, renames and writes after they happened.
type lateErrors struct {
	vfs.FS
	i *injector
}

func (fs lateErrors) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := fs.FS.Create(name, c)
	if err != nil {
		return nil, err
	}
	return lateFile{f, name, fs.i}, nil
}

func (fs lateErrors) OpenDir(name string) (vfs.File, error) {
	f, err := fs.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return lateFile{f, name, fs.i}, nil
}

func (fs lateErrors) Rename(oldname, newname string) error {
	if err := fs.FS.Rename(oldname, newname); err != nil {
		return err
	}
	return fs.i.MaybeError(errorfs.Op{Kind: errorfs.OpRename, Path: oldname})
}

type lateFile struct {
	vfs.File
	path string
	i    *injector
}

func (f lateFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	if err == nil {
		if err = f.i.MaybeError(errorfs.Op{Kind: errorfs.OpFileWrite, Path: f.path}); err != nil {
			n = 0
		}
	}
	return n, err
}

func (f lateFile) Sync() error {
	if err := f.File.Sync(); err != nil {
		return err
	}
	return f.i.MaybeError(errorfs.Op{Kind: errorfs.OpFileSync, Path: f.path})
}

func (f lateFile) SyncData() error {
	if err := f.File.SyncData(); err != nil {
		return err
	}
	return f.i.MaybeError(errorfs.Op{Kind: errorfs.OpFileSyncData, Path: f.path})
}
