package pebblestore

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/onceward/onceward/state"
)

// TestFatalErrorStopsTheDatabase: Pebble's default would end the process here.
func TestFatalErrorStopsTheDatabase(t *testing.T) {
	cases := map[string]struct {
		happen func(f *fault)
		want   error
		not    error
	}{
		"a fatal message with an I/O error": {func(f *fault) { f.Fatalf("MANIFEST sync failed: %v", syscall.EIO) },
			state.ErrFailed, state.ErrCorrupt},
		"a fatal message alone": {func(f *fault) { f.Fatalf("lower bound violation") },
			state.ErrFailed, state.ErrCorrupt},
		"a background error": {func(f *fault) { f.listener().BackgroundError(syscall.EIO) },
			state.ErrFailed, state.ErrFull},
		"a full disk": {func(f *fault) { f.listener().BackgroundError(syscall.ENOSPC) },
			state.ErrFull, state.ErrCorrupt},
		"a quota that is used up, in a fatal message": {func(f *fault) { f.Fatalf("MANIFEST write failed: %v", syscall.EDQUOT) },
			state.ErrFull, state.ErrCorrupt},
		"damage": {func(f *fault) {
			f.listener().DataCorruption(pebble.DataCorruptionInfo{Details: pebble.ErrCorruption})
		}, state.ErrCorrupt, state.ErrFailed},
		"damage, then an I/O error": {func(f *fault) {
			f.Fatalf("%v", pebble.ErrCorruption)
			f.Fatalf("%v", syscall.EIO)
		}, state.ErrCorrupt, state.ErrFailed},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testFatal(t, c.happen, c.want, c.not) })
		})
	}
}

func testFatal(t *testing.T, happen func(f *fault), want, not error) {
	fs := vfs.NewMem()
	db := openForTest(t, Options{FS: fs})
	if err := errors.Join(applyBytes(db, 0, 10), db.Flush(), applyBytes(db, 1, 10)); err != nil {
		t.Fatal(err)
	}
	view, err := db.View()
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait() // for the compaction after the flush
	before := listing(t, fs)
	happen(db.fault)
	for op, err := range allOperations(db, view) {
		if !errors.Is(err, want) || errors.Is(err, not) || !strings.Contains(err.Error(), "task") {
			t.Errorf("%s: got %v, want %v", op, err, want)
		}
	}
	if p := db.Positions(); !p.Equal(at(2)) {
		t.Errorf("positions are %v", p)
	}
	if _, err := db.Stores(); err != nil {
		t.Errorf("stores: %v", err)
	}
	if err := db.Close(); !errors.Is(err, want) {
		t.Errorf("close: got %v, want %v", err, want)
	}
	if err := errors.Join(db.Close(), view.Close()); err != nil {
		t.Errorf("close again: %v", err)
	}
	if after := listing(t, fs); !slices.Equal(before, after) {
		t.Errorf("the directory changed from\n%q to\n%q", before, after)
	}
	db = openForTest(t, Options{FS: fs})
	if p := db.Positions(); !p.Equal(at(1)) {
		t.Errorf("reopened at %v, flushed was %v", p, at(1))
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

func allOperations(db *database, view state.View) map[string]error {
	_, _, getErr := db.Get(state.IDOf("s"), []byte("k"))
	_, _, viewGetErr := view.Get(state.IDOf("s"), []byte("k"))
	_, viewErr := db.View()
	var scanErr, viewScanErr error
	for _, scanErr = range db.Scan(state.IDOf("s"), state.Range{}) {
	}
	for _, viewScanErr = range view.Scan(state.IDOf("s"), state.Range{}) {
	}
	return map[string]error{
		"get": getErr, "scan": scanErr, "view": viewErr, "get from view": viewGetErr, "scan of view": viewScanErr,
		"apply": applyBytes(db, 2, 10), "flush": db.Flush(), "declare": db.Declare(state.KeyValues("new")...),
	}
}

// listing has the names of all files and a hash of what is in them.
func listing(t *testing.T, fs *vfs.MemFS) []string {
	t.Helper()
	names, err := fs.List("task")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	for i, name := range names {
		// Locks hold no data, and the empty log gets a trailer from a handle that was opened
		// before.
		if name == "LOCK" || strings.HasSuffix(name, ".log") {
			continue
		}
		f, err := fs.Open("task/" + name)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(f)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		names[i] += fmt.Sprintf(": %x", sha256.Sum256(data))
	}
	return names
}

// TestARunningScanSeesTheFault: what Pebble read after a fatal message may be wrong.
func TestARunningScanSeesTheFault(t *testing.T) {
	db := openForTest(t, Options{FS: vfs.NewMem()})
	var writes []state.Write
	for _, key := range []string{"a", "b", "c"} {
		writes = append(writes, state.Write{Store: state.IDOf("s"), Key: []byte(key), Value: []byte("1")})
	}
	if err := db.Apply(at(0), at(1), slices.Values(writes)); err != nil {
		t.Fatal(err)
	}
	var last error
	n := 0
	for _, last = range db.Scan(state.IDOf("s"), state.Range{}) {
		if n++; n == 1 {
			db.fault.Fatalf("mergingIter: upper bound violation: %s", []byte("secret-key"))
		}
	}
	if n != 2 || !errors.Is(last, state.ErrFailed) {
		t.Errorf("%d steps, then %v", n, last)
	}
	if strings.Contains(last.Error(), "secret") || !strings.Contains(last.Error(), "upper bound violation") {
		t.Errorf("the error is %v", last)
	}
	if err := db.Close(); !errors.Is(err, state.ErrFailed) || strings.Contains(err.Error(), "secret") {
		t.Errorf("close: %v", err)
	}
}

// TestRetriesWaitForTheClose: Pebble retries a failed flush at once and for ever. Each retry begins
// with a new file.
func TestRetriesWaitForTheClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFault("task", slog.New(slog.DiscardHandler), nil)
		create := errorfs.Op{Kind: errorfs.OpCreate, Path: "task/000001.sst"}
		if err := f.MaybeError(create); err != nil {
			t.Errorf("before the fault: %v", err)
		}
		f.stop(syscall.EIO)
		if err := f.MaybeError(create); !errors.Is(err, state.ErrFailed) {
			t.Errorf("during open: got %v, want ErrFailed", err)
		}
		f.opened.Store(true)
		result := make(chan error, 1)
		go func() { result <- f.MaybeError(create) }()
		synctest.Wait()
		select {
		case err := <-result:
			t.Errorf("the creation did not wait: %v", err)
		default:
		}
		manifest := errorfs.Op{Kind: errorfs.OpCreate, Path: "task/MANIFEST-000002"}
		if err := f.MaybeError(manifest); !errors.Is(err, state.ErrFailed) {
			t.Errorf("a MANIFEST: got %v, want ErrFailed", err)
		}
		for _, kind := range []errorfs.OpKind{
			errorfs.OpRemove, errorfs.OpRename, errorfs.OpFileWrite, errorfs.OpFileSync,
		} {
			if err := f.MaybeError(errorfs.Op{Kind: kind}); !errors.Is(err, state.ErrFailed) {
				t.Errorf("operation %d: got %v, want ErrFailed", kind, err)
			}
		}
		if err := f.MaybeError(errorfs.Op{Kind: errorfs.OpFileReadAt}); err != nil {
			t.Errorf("a read: %v", err)
		}
		close(f.closing)
		if err := <-result; !errors.Is(err, state.ErrFailed) {
			t.Errorf("after the close: got %v, want ErrFailed", err)
		}
	})
}

// TestMessagesHaveNoData: Pebble marks what is safe to show; the rest stays out of the log.
func TestMessagesHaveNoData(t *testing.T) {
	var log bytes.Buffer
	f := newFault("task", slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})), nil)
	f.Infof("compacting %s of %d", "secret", 5)
	f.Errorf("cannot read %q", []byte("secret"))
	f.Fatalf("collision at %s: %v", []byte("secret"), syscall.EIO)
	for _, want := range []string{
		"compacting", "cannot read", "collision at", "input/output error", "database=task",
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("%q is missing in\n%s", want, log.String())
		}
	}
	if strings.Contains(log.String(), "secret") {
		t.Errorf("the log contains data:\n%s", log.String())
	}
	if err := f.check("get"); !errors.Is(err, syscall.EIO) {
		t.Errorf("the cause is lost: %v", err)
	}
}
