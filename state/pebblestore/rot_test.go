//go:build !race

// Not with the race detector: it turns on assertions of Pebble, which panic at damage.

package pebblestore_test

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/pebblestore"
)

// rotting is a disk that gives one wrong bit in one of its answers.
type rotting struct {
	vfs.FS
	// left counts down the reads; the one that makes it -1 is wrong. bit says which of its bits.
	left *atomic.Int64
	bit  int
}

func (fs rotting) Open(name string, o ...vfs.OpenOption) (vfs.File, error) {
	f, err := fs.FS.Open(name, o...)
	if err != nil {
		return nil, err
	}
	return rottingFile{f, fs}, nil
}

type rottingFile struct {
	vfs.File
	fs rotting
}

func (f rottingFile) rot(p []byte, n int) {
	if n > 0 && f.fs.left.Add(-1) == -1 {
		at := f.fs.bit % (8 * n)
		p[at/8] ^= 1 << (at % 8)
	}
}

func (f rottingFile) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	f.rot(p, n)
	return n, err
}

func (f rottingFile) ReadAt(p []byte, at int64) (int, error) {
	n, err := f.File.ReadAt(p, at)
	f.rot(p, n)
	return n, err
}

// TestOneWrongBitInAnyRead: whatever read of the disk has one wrong bit, nothing wrong is served. A
// database that has met damage refuses all work, and is right again when the disk is.
func TestOneWrongBitInAnyRead(t *testing.T) {
	w := newWorkload(7)
	fs := vfs.NewMem()
	if err := w.run(fs); err != nil {
		t.Fatal(err)
	}
	spread(t, fs)
	files := readFiles(t, fs, "task")
	bits := []int{3, 1001, 30_003}
	if testing.Short() {
		bits = bits[:1]
	}
	found, unnoticed := 0, 0
	for _, bit := range bits {
		for index := int64(0); ; index++ {
			disk := rotting{FS: with(t, files), left: &atomic.Int64{}, bit: bit}
			disk.left.Store(index)
			err := readRotting(t, w, disk)
			if !rightOrClear(err) {
				t.Errorf("read %d, bit %d: %v", index, bit, err)
			}
			if disk.left.Load() >= 0 { // there are no more reads
				break
			}
			if err == nil {
				unnoticed++
				continue
			}
			found++
			if n, err := tryRead(w, disk.FS); err != nil || n != len(w.history.Rounds) {
				t.Errorf("read %d, bit %d: with a good disk at round %d: %v", index, bit, n, err)
			}
		}
	}
	t.Logf("%d wrong bits were found, %d were harmless", found, unnoticed)
	if found < 20 {
		t.Errorf("only %d wrong bits were found", found)
	}
}

// readRotting opens and reads everything, and returns what it was told.
func readRotting(t *testing.T, w *workload, disk rotting) error {
	t.Helper()
	db, err := pebblestore.Open("task", pebblestore.Options{FS: disk})
	if err != nil {
		return err
	}
	_, err = w.history.Verify(db)
	if _, _, again := db.Get(0, nil); err != nil && !errors.Is(again, state.ErrCorrupt) {
		t.Errorf("Verify returned %v, and a read afterwards %v", err, again)
	}
	if closeErr := db.Close(); closeErr != nil && !errors.Is(closeErr, state.ErrCorrupt) {
		t.Errorf("Verify returned %v, and Close %v", err, closeErr)
	}
	return err
}
