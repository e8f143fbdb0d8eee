package pebblestore_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/pebblestore"
)

// verifyCheckpoint opens a checkpoint and expects one of the rounds between two.
func (w *workload) verifyCheckpoint(fs vfs.FS, dir string, least, most int) error {
	db, err := pebblestore.Open(dir, pebblestore.Options{FS: fs})
	if err != nil {
		return err
	}
	n, err := w.history.Verify(db)
	if err == nil && (n < least || n > most) {
		err = fmt.Errorf("the checkpoint is at round %d, want %d to %d", n, least, most)
	}
	names, namesErr := db.Stores()
	if namesErr == nil && len(names) != len(w.history.Stores()) {
		namesErr = fmt.Errorf("the checkpoint has the stores %q", names)
	}
	return errors.Join(err, namesErr, db.Close())
}

// openAt opens a new database and applies rounds.
func (w *workload) openAt(fs vfs.FS, rounds int) (state.Database, error) {
	db, err := pebblestore.Open("task", pebblestore.Options{FS: fs, FlushBytes: 8 << 10})
	if err != nil {
		return nil, err
	}
	return db, errors.Join(db.Declare(w.history.Stores()...), w.history.Apply(db, 0, rounds))
}

// TestCheckpoint: a checkpoint is a database at a moment of the other, and each goes its own way
// afterwards.
func TestCheckpoint(t *testing.T) {
	w := newWorkload(11)
	disk := vfs.NewMem()
	db, err := w.openAt(disk, 10)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Checkpoint("copy"); err != nil {
		t.Fatal(err)
	}
	for name, dir := range map[string]string{
		"a directory that is there": "copy", "the database itself": "task", "inside the database": "task/copy",
		"below nothing": "absent/copy",
	} {
		if err := db.Checkpoint(dir); err == nil || !strings.Contains(err.Error(), dir) {
			t.Errorf("checkpoint to %s: %v", name, err)
		}
	}
	if err := db.Checkpoint("copy"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("checkpoint to a directory that is there: %v", err)
	}
	if err := w.history.Apply(db, 10, len(w.history.Rounds)); err != nil {
		t.Fatal(err)
	}
	if err := w.verifyCheckpoint(disk, "copy", 10, 10); err != nil {
		t.Error(err)
	}
	copied, err := pebblestore.Open("copy", pebblestore.Options{FS: disk, FlushBytes: 8 << 10})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.history.Apply(copied, 10, 20), copied.Close()); err != nil {
		t.Fatal(err)
	}
	if n, err := w.history.Verify(db); err != nil || n != len(w.history.Rounds) {
		t.Errorf("the database is at round %d: %v", n, err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	if err := db.Checkpoint("late"); !errors.Is(err, state.ErrClosed) {
		t.Errorf("after the close: %v", err)
	}
	if err := w.verifyCheckpoint(disk, "copy", 20, 20); err != nil {
		t.Error(err)
	}
	names, err := disk.List("")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if name != "copy" && name != "task" {
			t.Errorf("%s is left over", name)
		}
	}
}

// TestCheckpointWhileWriting: checkpoints of a database that goes on are whole rounds, none of them
// before the call.
func TestCheckpointWhileWriting(t *testing.T) {
	w := newWorkload(12)
	disk := vfs.NewMem()
	db, err := w.openAt(disk, 0)
	if err != nil {
		t.Fatal(err)
	}
	var applied atomic.Int64
	var writer sync.WaitGroup
	var writeErr error
	writer.Go(func() {
		for i := range w.history.Rounds {
			if writeErr = w.history.Apply(db, i, i+1); writeErr != nil {
				return
			}
			applied.Store(int64(i + 1))
		}
	})
	for i, done := 0, false; !done; i++ {
		dir := fmt.Sprint("copy-", i)
		least := int(applied.Load())
		done = least == len(w.history.Rounds)
		if err := db.Checkpoint(dir); err != nil {
			t.Error(err)
			break
		}
		if err := w.verifyCheckpoint(disk, dir, least, int(applied.Load())+1); err != nil {
			t.Errorf("%s: %v", dir, err)
		}
	}
	writer.Wait()
	if err := errors.Join(writeErr, db.Close()); err != nil {
		t.Error(err)
	}
}

// TestCheckpointOnBadDisk injects an error at every operation of a checkpoint, and crashes before
// each of them. The checkpoint is there as a whole or not at all, the database stays what it was,
// and where nothing of the database itself failed it goes on.
func TestCheckpointOnBadDisk(t *testing.T) {
	const rounds = 10
	failed, crashed, stopped := 0, 0, 0
	for index := int64(0); ; index++ {
		w := newWorkload(13)
		disk := vfs.NewCrashableMem()
		i := &injector{index: 1 << 40}
		db, err := w.openAt(errorfs.Wrap(disk, i), rounds)
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(uint64(index), 5))
		var clone *vfs.MemFS
		i.before = func() {
			clone = disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: int(index*31) % 101, RNG: rng})
		}
		i.arm(index)
		err = db.Checkpoint("copy")
		i.arm(1 << 40)
		op := i.firstOp()
		if op == nil {
			if err := errors.Join(err, db.Close()); err != nil {
				t.Fatal(err)
			}
			break
		}
		crashed++
		if err != nil {
			failed++
			if !errors.Is(err, state.ErrFull) {
				t.Errorf("operation %d (%+v): %v", index, op, err)
			}
		}
		for name, left := range map[string]vfs.FS{"as it is": disk, "crash": clone} {
			_, statErr := left.Stat("copy")
			if name == "as it is" && (statErr == nil) != (err == nil) && op.Kind != errorfs.OpFileSync {
				t.Errorf("operation %d (%+v): Checkpoint returned %v, and its directory: %v", index, op, err, statErr)
			}
			if statErr == nil {
				if err := w.verifyCheckpoint(left, "copy", rounds, rounds); err != nil {
					t.Errorf("operation %d (%+v), %s: %v", index, op, name, err)
				}
			}
		}
		// A compaction may have met the error, and the database hears of it when that ends.
		own := filepath.Dir(op.Path) == "task" || op.Path == "task"
		if _, _, getErr := db.Get(0, nil); getErr != nil {
			stopped++
			if !errors.Is(getErr, state.ErrFull) || !own {
				t.Errorf("operation %d (%+v) stopped the database: %v", index, op, getErr)
			}
			if err := db.Close(); !errors.Is(err, state.ErrFull) {
				t.Errorf("operation %d (%+v): close: %v", index, op, err)
			}
		} else if err := errors.Join(w.history.Apply(db, rounds, rounds+1), db.Close()); err != nil {
			stopped++
			if !errors.Is(err, state.ErrFull) || !own {
				t.Errorf("operation %d (%+v): the database does not go on: %v", index, op, err)
			}
		}
		if err := w.verify(clone, 0, rounds); err != nil {
			t.Errorf("operation %d (%+v), crash: the database: %v", index, op, err)
		}
	}
	t.Logf("%d crashes, %d checkpoints failed, %d of them stopped the database", crashed, failed, stopped)
	if failed < 10 {
		t.Errorf("only %d checkpoints failed", failed)
	}
}

// TestCheckpointAfterReopening: nothing need have been written since the database was opened.
func TestCheckpointAfterReopening(t *testing.T) {
	dir := t.TempDir()
	live := filepath.Join(dir, "live")
	for i := range int64(4) {
		db := open(t, live, pebblestore.Options{})
		mustApply(t, db, i, write(fmt.Sprint("k", i), "v"))
		mustClose(t, db)
		db = open(t, live, pebblestore.Options{})
		to := filepath.Join(dir, fmt.Sprint("to-", i))
		if err := db.Checkpoint(to); err != nil {
			t.Fatal(err)
		}
		mustClose(t, db)
		copied := open(t, to, pebblestore.Options{})
		if !copied.Positions().Same(at(i + 1)) {
			t.Errorf("checkpoint %d is at %v", i, copied.Positions())
		}
		mustClose(t, copied)
	}
}

// TestCheckpointInside: a place inside the database is refused under every name that it has.
func TestCheckpointInside(t *testing.T) {
	t.Chdir(t.TempDir())
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	db, err := pebblestore.Open("task", pebblestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := os.Symlink("task", "link"); err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{"task/copy", filepath.Join(here, "task", "copy"), "link/copy", filepath.Join(here, "link", "copy"), "link"} {
		if err := db.Checkpoint(to); err == nil || !strings.Contains(err.Error(), "inside the database") {
			t.Errorf("a checkpoint to %s gave %v", to, err)
		}
	}
	if err := db.Checkpoint(filepath.Join(here, "copy")); err != nil {
		t.Error(err)
	}
}
