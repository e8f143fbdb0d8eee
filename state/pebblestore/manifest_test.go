package pebblestore

import (
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/onceward/onceward/state"
)

// TestPebbleDoesNotLearnOfAFailedManifest: the database stops, with the reason, and Pebble's own
// account of its tables stays whole: what it believes to have flushed is there.
func TestPebbleDoesNotLearnOfAFailedManifest(t *testing.T) {
	for name, kind := range map[string]errorfs.OpKind{"write": errorfs.OpFileWrite, "sync": errorfs.OpFileSync} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fs := vfs.NewCrashableMem()
				fail := &failManifest{kind: kind}
				db := openForTest(t, Options{FS: errorfs.Wrap(fs, fail)})
				if err := errors.Join(applyBytes(db, 0, 10), db.Flush(), applyBytes(db, 1, 10)); err != nil {
					t.Fatal(err)
				}
				synctest.Wait() // for a compaction after the flush, whose MANIFEST it would be
				fail.on.Store(true)
				if err := db.Flush(); !errors.Is(err, state.ErrFailed) || !errors.Is(err, syscall.EIO) {
					t.Errorf("flush: got %v, want the failure", err)
				}
				synctest.Wait()
				if n := db.db.Metrics().Flush.NumInProgress; n != 0 {
					t.Errorf("%d flushes are tried again and again", n)
				}
				if err := db.Close(); !errors.Is(err, state.ErrFailed) {
					t.Errorf("close: got %v, want ErrFailed", err)
				}
				fail.on.Store(false)
				for what, left := range map[string]vfs.FS{"as it is": fs, "after a crash": fs.CrashClone(vfs.CrashCloneCfg{})} {
					db := openForTest(t, Options{FS: left})
					if p := db.Positions(); !p.Equal(at(1)) && !p.Equal(at(2)) {
						t.Errorf("%s: reopened at %v", what, p)
					}
					if _, ok, err := db.Get(state.IDOf("s"), []byte("0")); !ok || err != nil {
						t.Errorf("%s: get: %t, %v", what, ok, err)
					}
					if err := db.Close(); err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}

// failManifest fails one kind of operation on MANIFEST files.
type failManifest struct {
	kind errorfs.OpKind
	on   atomic.Bool
}

func (*failManifest) String() string { return "failManifest" }

func (f *failManifest) MaybeError(op errorfs.Op) error {
	if f.on.Load() && op.Kind == f.kind && strings.Contains(op.Path, "MANIFEST") {
		return syscall.EIO
	}
	return nil
}
