package pebblestore_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/pebblestore"
)

// readFiles returns the content of all files of a directory but the lock.
func readFiles(t *testing.T, fs vfs.FS, dir string) map[string][]byte {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, name := range names {
		if name == "LOCK" || name == "load" { // the second is a directory, for tables on their way in
			continue
		}
		f, err := fs.Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(f)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		files[name] = data
	}
	return files
}

// with returns a file system whose directory "task" has these files.
func with(t *testing.T, files map[string][]byte) *vfs.MemFS {
	t.Helper()
	fs := vfs.NewMem()
	if err := fs.MkdirAll("task", 0o700); err != nil {
		t.Fatal(err)
	}
	for name, data := range files {
		f, err := fs.Create(filepath.Join("task", name), vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.Write(slices.Clone(data)) // Pebble's assertions let it change what it was given
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return fs
}

// expectRightOrCorrupt opens what there is: it is a database at one of its rounds, or an error says
// that it is damaged. It reports which.
func expectRightOrCorrupt(t *testing.T, w *workload, fs vfs.FS, what string) (right bool) {
	t.Helper()
	n, err := tryRead(w, fs)
	if !rightOrClear(err) {
		t.Errorf("%s: at round %d: %v", what, n, err)
	}
	return err == nil
}

// TestFilesOfAnotherDatabase mixes the files of two databases, as an operator who restores a backup
// over a directory does. Pebble knows a table by its number and its size: one that has both is not
// found out, so such tables are left out here.
func TestFilesOfAnotherDatabase(t *testing.T) {
	ours, theirs := newWorkload(7), newWorkload(8)
	files := map[*workload]map[string][]byte{}
	for _, w := range []*workload{ours, theirs} {
		fs := vfs.NewMem()
		if err := w.run(fs); err != nil {
			t.Fatal(err)
		}
		spread(t, fs)
		files[w] = readFiles(t, fs, "task")
	}
	mixed, refused := 0, 0
	try := func(what string, change func(to map[string][]byte)) {
		to := map[string][]byte{}
		for name, data := range files[ours] {
			to[name] = data
		}
		change(to)
		mixed++
		if !expectRightOrCorrupt(t, ours, with(t, to), what) {
			refused++
		}
	}
	for name, data := range files[theirs] {
		if strings.HasPrefix(name, "marker.") { // names a file, and has no content
			continue
		}
		if len(files[ours][name]) != len(data) {
			try("with "+name+" of another database", func(to map[string][]byte) { to[name] = data })
		}
		// Files of the same kind have other numbers: in the place of each of ours.
		for own := range files[ours] {
			if kindOf(own) == kindOf(name) && own != name && len(files[ours][own]) != len(data) {
				try("with "+name+" of another database as "+own, func(to map[string][]byte) { to[own] = data })
			}
		}
	}
	t.Logf("%d mixtures, %d refused", mixed, refused)
	if refused < mixed/4 {
		t.Errorf("only %d of %d mixtures were refused", refused, mixed)
	}
}

// TestHalfCopiedDirectory copies a database in part: some files are missing, the last one is cut. A
// copy of a moment later has newer files beside older ones.
func TestHalfCopiedDirectory(t *testing.T) {
	each := 300
	if pebblestore.RaceDetector {
		each = 30
	}
	w := newWorkload(9)
	fs := vfs.NewMem()
	if err := w.session(fs, len(w.history.Rounds)/2); err != nil {
		t.Fatal(err)
	}
	before := readFiles(t, fs, "task")
	if err := w.session(fs, len(w.history.Rounds)); err != nil {
		t.Fatal(err)
	}
	after := readFiles(t, fs, "task")
	names := map[string]bool{}
	for name := range before {
		names[name] = true
	}
	for name := range after {
		names[name] = true
	}
	order := make([]string, 0, len(names))
	for name := range names {
		order = append(order, name)
	}
	slices.Sort(order)
	rng := rand.New(rand.NewPCG(9, 9))
	right, refused := 0, 0
	for i := range each {
		rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		copied := map[string][]byte{}
		until, switched := rng.IntN(len(order)+1), rng.IntN(len(order)+1)
		for j, name := range order[:until] {
			data, there := before[name]
			if j >= switched {
				data, there = after[name]
			}
			if !there {
				continue
			}
			if j == until-1 {
				data = data[:rng.IntN(len(data)+1)]
			}
			copied[name] = data
		}
		if expectRightOrCorrupt(t, w, with(t, copied), fmt.Sprint("copy ", i)) {
			right++
		} else {
			refused++
		}
	}
	t.Logf("%d copies refused, %d harmless", refused, right)
	if refused == 0 || right == 0 {
		t.Error("one of the two never occurred")
	}
}

// TestTablesWithoutAManifest: what is left without its root is not taken for a new database, and
// stays as it is.
func TestTablesWithoutAManifest(t *testing.T) {
	w := newWorkload(7)
	fs := vfs.NewMem()
	if err := w.run(fs); err != nil {
		t.Fatal(err)
	}
	files := readFiles(t, fs, "task")
	for name := range files {
		if !strings.HasSuffix(name, ".sst") {
			delete(files, name)
		}
	}
	left := with(t, files)
	if _, err := pebblestore.Open("task", pebblestore.Options{FS: left}); !errors.Is(err, state.ErrCorrupt) ||
		!strings.Contains(err.Error(), "marker") {
		t.Errorf("got %v, want ErrCorrupt", err)
	}
	if now := readFiles(t, left, "task"); !sameFiles(files, now) {
		t.Error("opening changed the directory")
	}
}

func sameFiles(a, b map[string][]byte) bool {
	if len(a) != len(b) {
		return false
	}
	for name, data := range a {
		if other, ok := b[name]; !ok || !bytes.Equal(data, other) {
			return false
		}
	}
	return true
}

// refuseWrites is a file system that is mounted read-only, or whose directory is somebody else's.
type refuseWrites struct{ errno syscall.Errno }

func (r refuseWrites) String() string { return "read-only" }

func (r refuseWrites) MaybeError(op errorfs.Op) error {
	if op.Kind.ReadOrWrite() == errorfs.OpIsRead {
		return nil
	}
	return &os.PathError{Op: "write", Path: op.Path, Err: r.errno}
}

// TestReadOnlyDirectory: a directory that cannot be written is refused with the error of the
// operating system. It is not damaged, not full and not in use, and stays as it is.
func TestReadOnlyDirectory(t *testing.T) {
	w := newWorkload(7)
	fs := vfs.NewMem()
	if err := w.run(fs); err != nil {
		t.Fatal(err)
	}
	before := readFiles(t, fs, "task")
	for _, errno := range []syscall.Errno{syscall.EROFS, syscall.EACCES, syscall.EPERM} {
		_, err := pebblestore.Open("task", pebblestore.Options{FS: errorfs.Wrap(fs, refuseWrites{errno})})
		expectEnvironment(t, err, errno)
		if !sameFiles(before, readFiles(t, fs, "task")) {
			t.Errorf("%v: the directory was changed", errno)
		}
		_, err = pebblestore.Open("new", pebblestore.Options{FS: errorfs.Wrap(fs, refuseWrites{errno})})
		expectEnvironment(t, err, errno)
	}
	if n, err := tryRead(w, fs); err != nil || n != len(w.history.Rounds) {
		t.Errorf("afterwards at round %d: %v", n, err)
	}
}

func expectEnvironment(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
	for _, not := range []error{state.ErrCorrupt, state.ErrFormat, state.ErrLocked, state.ErrFull} {
		if errors.Is(err, not) {
			t.Errorf("%v is reported as %v", want, not)
		}
	}
}
