package pebblestore_test

import (
	"errors"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
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

// TestDamageIsNeverServed damages every file of a database in many ways. The damage may go
// unnoticed where nobody reads it, but what is read is right: the database is exactly at a round,
// or there is an error. A MANIFEST that is damaged ends early for Pebble, and names tables that are
// gone: where they are not, the round is an earlier one. Row of the failure matrix: corrupt state
// directory.
func TestDamageIsNeverServed(t *testing.T) {
	each := 40
	switch {
	case pebblestore.RaceDetector:
		each = 4
	case testing.Short():
		each = 10
	}
	w := newWorkload(7)
	fs := vfs.NewMem()
	if err := w.run(fs); err != nil {
		t.Fatal(err)
	}
	spread(t, fs)
	files := readFiles(t, fs, "task")
	names := slices.Sorted(maps.Keys(files))
	if n := len(slices.DeleteFunc(slices.Clone(names), func(n string) bool { return kindOf(n) != "table" })); n < 5 {
		t.Fatalf("there are %d tables: %q", n, names)
	}
	rng := rand.New(rand.NewPCG(7, 7))
	for _, d := range damages {
		kinds := map[string]*[2]int{}
		for _, kind := range fileKinds {
			kinds[kind] = &[2]int{}
		}
		for _, file := range names {
			n := each
			if kindOf(file) == "table" {
				n = max(1, each/4) // there are many of them
			}
			for range n {
				damaged := maps.Clone(files)
				data, remove := d.do(rng, slices.Clone(files[file]))
				if damaged[file] = data; remove {
					delete(damaged, file)
				}
				n, err := tryRead(w, with(t, damaged))
				if !rightOrClear(err) {
					t.Fatalf("%s of %s: at round %d: %v", d.name, file, n, err)
				}
				if kinds[kindOf(file)][0]++; err != nil || n < len(w.history.Rounds) {
					kinds[kindOf(file)][1]++
				}
			}
		}
		for kind, n := range kinds {
			t.Logf("%s of %s: %d tried, %d made a difference", d.name, kind, n[0], n[1])
			if n[0] == 0 {
				t.Errorf("there was no %s", kind)
			}
			// Nobody reads the log, what OPTIONS loses has a default, and an empty file cannot be
			// changed.
			if n[1] == 0 && (kind == "table" || kind == "MANIFEST" || kind == "marker" && d.name == "remove") {
				t.Errorf("%s of a %s never made a difference", d.name, kind)
			}
		}
	}
}

// fileKinds are the kinds of files that a database has.
var fileKinds = []string{"table", "MANIFEST", "OPTIONS", "marker", "log"}

func kindOf(file string) string {
	switch {
	case strings.HasSuffix(file, ".sst"):
		return "table"
	case strings.HasSuffix(file, ".log"):
		return "log"
	}
	kind, _, _ := strings.Cut(file, "-")
	kind, _, _ = strings.Cut(kind, ".")
	return kind
}

// rightOrClear is the judgement of all damage: what was read is right, or the error names what is
// wrong. Everything else, a wrong read above all, is a failure.
func rightOrClear(err error) bool {
	return err == nil || errors.Is(err, state.ErrCorrupt) || errors.Is(err, state.ErrFormat)
}

// lying is a database without checksums: one bit of one value is another one.
type lying struct {
	state.Database
	store state.StoreID
	key   string
}

func (d lying) Get(store state.StoreID, key []byte) ([]byte, bool, error) {
	v, ok, err := d.Database.Get(store, key)
	if ok && store == d.store && string(key) == d.key {
		v[0] ^= 1
	}
	return v, ok, err
}

func (d lying) Scan(store state.StoreID, r state.Range) iter.Seq2[state.Entry, error] {
	return func(yield func(state.Entry, error) bool) {
		for e, err := range d.Database.Scan(store, r) {
			if store == d.store && string(e.Key) == d.key && len(e.Value) > 0 {
				e.Value[0] ^= 1
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// TestDamageTestFindsWrongReads is the control: whatever value has one wrong bit, the judgement is
// a failure.
func TestDamageTestFindsWrongReads(t *testing.T) {
	w := newWorkload(7)
	fs := vfs.NewMem()
	if err := w.run(fs); err != nil {
		t.Fatal(err)
	}
	db, err := pebblestore.Open("task", pebblestore.Options{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, name := range w.history.Stores() {
		for e, err := range db.Scan(state.IDOf(name.Name), state.Range{}) {
			if err != nil {
				t.Fatal(err)
			}
			if len(e.Value) == 0 {
				continue
			}
			tried++
			if _, err := w.history.Verify(lying{db, state.IDOf(name.Name), string(e.Key)}); rightOrClear(err) {
				t.Errorf("a wrong value of %s %q goes unnoticed", name, e.Key)
			}
		}
	}
	if err := db.Close(); err != nil || tried < 20 {
		t.Errorf("%d values tried, %v", tried, err)
	}
}

// spread rewrites the tables of the database into small ones: with this package's options, so
// little data is one table.
func spread(t *testing.T, fs vfs.FS) {
	t.Helper()
	o := &pebble.Options{FS: fs, FormatMajorVersion: pebble.FormatValueSeparation, DisableWAL: true, Logger: quiet{}}
	for i := range o.TargetFileSizes {
		o.TargetFileSizes[i] = 1 << 10
	}
	db, err := pebble.Open("task", o)
	if err != nil {
		t.Fatal(err)
	}
	// A compaction of one table moves it; one of two that overlap writes new ones.
	again := db.NewBatch()
	it, err := db.NewIter(nil)
	if err != nil {
		t.Fatal(err)
	}
	for valid := it.First(); valid; valid = it.Next() {
		err = errors.Join(err, again.Set(it.Key(), it.Value(), nil))
	}
	err = errors.Join(err, it.Close(), again.Commit(pebble.NoSync), db.Flush(), db.Compact(t.Context(), nil, []byte{0xff}, false), db.Close())
	if err != nil {
		t.Fatal(err)
	}
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
