package pebblestore_test

import (
	"errors"
	"io"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/pebblestore"
)

// damage changes one file.
type damage struct {
	name string
	do   func(rng *rand.Rand, data []byte) (changed []byte, remove bool)
}

var damages = []damage{
	{"flip a bit", func(rng *rand.Rand, data []byte) ([]byte, bool) {
		if len(data) > 0 {
			data[rng.IntN(len(data))] ^= 1 << rng.IntN(8)
		}
		return data, false
	}},
	{"zero a run", func(rng *rand.Rand, data []byte) ([]byte, bool) {
		if len(data) > 0 {
			from := rng.IntN(len(data))
			clear(data[from:min(len(data), from+1+rng.IntN(64))])
		}
		return data, false
	}},
	{"cut the end", func(rng *rand.Rand, data []byte) ([]byte, bool) {
		return data[:rng.IntN(len(data)+1)], false
	}},
	{"remove", func(_ *rand.Rand, data []byte) ([]byte, bool) { return nil, true }},
}

// TestDamageIsNeverServed damages every file of a database in many ways. The damage may go unnoticed where
// nobody reads it, but what is read is right: the database is exactly at a round, or there is an error.
func TestDamageIsNeverServed(t *testing.T) {
	each := 40
	if raceDetector || testing.Short() {
		each = 4
	}
	w := newWorkload(7)
	fs := vfs.NewCrashableMem()
	if err := w.run(fs); err != nil {
		t.Fatal(err)
	}
	files, err := fs.List("task")
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(7, 7))
	for _, d := range damages {
		corrupt, right := 0, 0
		for _, file := range files {
			if file == "LOCK" || file == "load" { // an empty directory
				continue
			}
			for range each {
				clone := fs.CrashClone(vfs.CrashCloneCfg{})
				if err := change(clone, filepath.Join("task", file), rng, d); err != nil {
					t.Fatal(err)
				}
				switch n, err := tryRead(w, clone); {
				case err == nil:
					right++
				case errors.Is(err, state.ErrCorrupt):
					corrupt++
				default:
					t.Fatalf("%s of %s: at round %d: %v", d.name, file, n, err)
				}
			}
		}
		t.Logf("%s: %d found as corrupt, %d harmless", d.name, corrupt, right)
		if corrupt == 0 {
			t.Errorf("%s was never found", d.name)
		}
	}
}

func change(fs vfs.FS, file string, rng *rand.Rand, d damage) error {
	f, err := fs.Open(file)
	if err != nil {
		return err
	}
	data, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	data, remove := d.do(rng, data)
	if err := fs.Remove(file); err != nil || remove {
		return err
	}
	f, err = fs.Create(file, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

// tryRead opens the database and reads all of it.
func tryRead(w *workload, fs vfs.FS) (rounds int, err error) {
	db, err := pebblestore.Open("task", pebblestore.Options{FS: fs})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return w.history.Verify(db)
}
