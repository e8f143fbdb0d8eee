package pebblestore_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/onceward/onceward/e2e/leaktest"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/pebblestore"
	"github.com/onceward/onceward/state/statetest"
)

// TestMain finds goroutines that outlive their database.
func TestMain(m *testing.M) { leaktest.Main(m) }

func TestConformance(t *testing.T) {
	shared := pebblestore.NewShared(16<<20, 256)
	defer shared.Close()
	t.Run("in memory", func(t *testing.T) {
		statetest.Run(t, func(t *testing.T) state.Database {
			return open(t, "task", pebblestore.Options{Shared: shared, FS: vfs.NewMem()})
		})
	})
	t.Run("buffered", func(t *testing.T) {
		statetest.Run(t, func(t *testing.T) state.Database {
			return pebblestore.AlwaysBuffer(open(t, "task", pebblestore.Options{FS: vfs.NewMem()}))
		})
	})
	opener := func(*testing.T) func() (state.Database, error) {
		o := pebblestore.Options{Shared: shared, FS: vfs.NewMem()}
		return func() (state.Database, error) { return pebblestore.Open("task", o) }
	}
	statetest.RunStores(t, opener)
	if pebblestore.RaceDetector {
		return // The next one makes the same calls, only slower: what races, races above.
	}
	// Tables of a few kilobytes: reads go through flushed and compacted tables instead of the
	// memtable.
	t.Run("small tables", func(t *testing.T) {
		statetest.Run(t, func(t *testing.T) state.Database {
			return open(t, "task", pebblestore.Options{FS: vfs.NewMem(), FlushBytes: 512})
		})
	})
}

func open(t *testing.T, path string, o pebblestore.Options) state.Database {
	t.Helper()
	db, err := pebblestore.Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func at(n int64) state.Positions {
	if n == 0 {
		return state.Positions{}
	}
	return state.Positions{Inputs: []state.Input{{Topic: "in", Offset: n}}}
}

func write(key, value string) []state.Write {
	return []state.Write{{Store: state.IDOf("s"), Key: []byte(key), Value: []byte(value)}}
}

func mustApply(t *testing.T, db state.Database, from int64, writes []state.Write) {
	t.Helper()
	if err := db.Apply(at(from), at(from+1), slices.Values(writes)); err != nil {
		t.Fatal(err)
	}
}

func mustClose(t *testing.T, db state.Database) {
	t.Helper()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestOnDisk runs on the real file system: identity, permissions and the second open.
func TestOnDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tasks", "ledger", "0")
	db := open(t, path, pebblestore.Options{})
	h := statetest.NewHistory(rand.New(rand.NewPCG(3, 3)), 30, 40, 300)
	if err := errors.Join(db.Declare(h.Stores()...), h.Apply(db, 0, 20)); err != nil {
		t.Fatal(err)
	}
	_, err := pebblestore.Open(path, pebblestore.Options{})
	if !errors.Is(err, state.ErrLocked) || !strings.Contains(err.Error(), path) {
		t.Errorf("a second time: got %v, want ErrLocked", err)
	}
	mustClose(t, db)

	db = open(t, path, pebblestore.Options{})
	if n, err := h.Verify(db); n != 20 || err != nil {
		t.Fatalf("reopened at round %d: %v", n, err)
	}
	if names, err := db.Stores(); err != nil || !slices.Equal(names, h.Stores()) {
		t.Errorf("stores are %v, %v", names, err)
	}
	if err := h.Apply(db, 20, 30); err != nil {
		t.Fatal(err)
	}
	if n, err := h.Verify(db); n != 30 || err != nil {
		t.Errorf("went on to round %d: %v", n, err)
	}
	mustClose(t, db)

	if runtime.GOOS == "windows" {
		return // no mode bits
	}
	for dir := path; len(dir) > len(filepath.Dir(filepath.Dir(filepath.Dir(path)))); dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err != nil || info.Mode() != fs.ModeDir|0o700 {
			t.Errorf("%s: %v, %v", dir, info.Mode(), err)
		}
	}
}

// raw changes a closed database through Pebble itself.
func raw(t *testing.T, fs vfs.FS, change func(b *pebble.Batch) error) {
	t.Helper()
	o := &pebble.Options{FS: fs, FormatMajorVersion: pebble.FormatNewest, Logger: quiet{}}
	db, err := pebble.Open("task", o)
	if err != nil {
		t.Fatal(err)
	}
	b := db.NewBatch()
	if err := errors.Join(change(b), b.Commit(pebble.Sync), db.Flush(), db.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestLayout pins the keys of FORMAT.md.
func TestLayout(t *testing.T) {
	fs := vfs.NewMem()
	db := open(t, "task", pebblestore.Options{FS: fs})
	if err := db.Declare(state.KeyValues("s", "inbox")...); err != nil {
		t.Fatal(err)
	}
	mustApply(t, db, 0, write("k", "v"))
	mustApply(t, db, 1, []state.Write{
		{Store: state.IDOf("inbox"), Key: nil, Value: nil},
		{Store: state.IDOf("inbox"), Key: []byte{0xff}, Value: []byte("w")},
		{Store: state.IDOf("s"), Key: []byte("gone"), Delete: true},
	})
	mustClose(t, db)
	var got []string
	p, err := pebble.Open("task", &pebble.Options{FS: fs, ReadOnly: true, Logger: quiet{}})
	if err != nil {
		t.Fatal(err)
	}
	it, err := p.NewIter(nil)
	if err != nil {
		t.Fatal(err)
	}
	for valid := it.First(); valid; valid = it.Next() {
		got = append(got, fmt.Sprintf("%q=%x", it.Key(), it.Value()))
	}
	if err := errors.Join(it.Close(), p.Close()); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`"m/format"=01`,
		`"m/positions"=` + fmt.Sprintf("%x", at(2).Append(nil)),
		`"m/store/e252d53b"=696e626f78`,
		`"m/store/f60c4582"=73`,
		`"s\xe2R\xd5;"=`,
		`"s\xe2R\xd5;\xff"=77`,
		`"s\xf6\fE\x82k"=76`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

type quiet struct{}

func (quiet) Infof(string, ...any)              {}
func (quiet) Errorf(string, ...any)             {}
func (quiet) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func TestOpenRefuses(t *testing.T) {
	cases := map[string]struct {
		change func(b *pebble.Batch) error
		want   error
		says   string
	}{
		"a newer format": {func(b *pebble.Batch) error { return b.Set([]byte("m/format"), []byte{2}, nil) },
			state.ErrFormat, "version 02, this build reads 1"},
		"newer positions": {func(b *pebble.Batch) error { return b.Set([]byte("m/positions"), []byte{9, 9}, nil) },
			state.ErrFormat, "version 9"},
		"damaged positions": {func(b *pebble.Batch) error { return b.Set([]byte("m/positions"), []byte{1, 9}, nil) },
			state.ErrCorrupt, "positions"},
		"no positions": {func(b *pebble.Batch) error { return b.Delete([]byte("m/positions"), nil) },
			state.ErrCorrupt, "no positions"},
		"data without a format": {func(b *pebble.Batch) error { return b.Delete([]byte("m/format"), nil) },
			state.ErrCorrupt, "no format"},
		"a name with another id": {func(b *pebble.Batch) error {
			return b.Set([]byte("m/store/00000001"), []byte("s"), nil)
		}, state.ErrCorrupt, "another id"},
		// As an older build sees a series.
		"a store of a kind that came later": {func(b *pebble.Batch) error {
			return b.Set([]byte("m/store/f60c4582"), []byte("s\x00another/1000"), nil)
		}, state.ErrFormat, `"another/1000" is none that this build knows`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewMem()
			db := open(t, "task", pebblestore.Options{FS: fs})
			mustApply(t, db, 0, write("k", "v"))
			mustClose(t, db)
			raw(t, fs, c.change)
			_, err := pebblestore.Open("task", pebblestore.Options{FS: fs})
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) ||
				!strings.Contains(err.Error(), "task") {
				t.Errorf("got %v, want %v with %q", err, c.want, c.says)
			}
		})
	}
}

// TestOpenTakesANewerMinorVersion: what it added to the version and beside the positions is
// skipped.
func TestOpenTakesANewerMinorVersion(t *testing.T) {
	fs := vfs.NewMem()
	db := open(t, "task", pebblestore.Options{FS: fs})
	mustApply(t, db, 0, write("k", "v"))
	want := db.Positions()
	mustClose(t, db)
	raw(t, fs, func(b *pebble.Batch) error {
		return errors.Join(b.Set([]byte("m/format"), []byte{1, 9}, nil), b.Set([]byte("m/next"), []byte("x"), nil))
	})
	db = open(t, "task", pebblestore.Options{FS: fs})
	if got := db.Positions(); !got.Same(want) {
		t.Errorf("the positions are %v, want %v", got, want)
	}
	mustClose(t, db)
}

// TestOpenRefusesANewerPebble: the directory of a build with a newer Pebble is left alone.
func TestOpenRefusesANewerPebble(t *testing.T) {
	fs := vfs.NewMem()
	mustClose(t, open(t, "task", pebblestore.Options{FS: fs}))
	f, err := fs.Create("task/marker.format-version.999999.999", vfs.WriteCategoryUnspecified)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	before := list(t, fs)
	if _, err := pebblestore.Open("task", pebblestore.Options{FS: fs}); !errors.Is(err, state.ErrFormat) {
		t.Errorf("got %v, want ErrFormat", err)
	}
	if after := list(t, fs); !slices.Equal(before, after) {
		t.Errorf("changed %q to %q", before, after)
	}
}

func list(t *testing.T, fs vfs.FS) []string {
	t.Helper()
	names, err := fs.List("task")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

// TestReopenWithoutClose is a kill -9: the file system has everything that was written to it,
// synced or not.
func TestReopenWithoutClose(t *testing.T) {
	fs := vfs.NewCrashableMem()
	db := open(t, "task", pebblestore.Options{FS: fs})
	mustApply(t, db, 0, write("k", "1"))
	if err := db.Flush(); err != nil {
		t.Fatal(err)
	}
	mustApply(t, db, 1, write("k", "2"))
	killed := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
	mustClose(t, db)
	db = open(t, "task", pebblestore.Options{FS: killed})
	value, _, err := db.Get(state.IDOf("s"), []byte("k"))
	if !db.Positions().Equal(at(1)) || string(value) != "1" || err != nil {
		t.Errorf("at %v with %q, %v", db.Positions(), value, err)
	}
	mustClose(t, db)
}

// TestCloseFlushes is what a clean shutdown is for: nothing to replay.
func TestCloseFlushes(t *testing.T) {
	fs := vfs.NewCrashableMem()
	db := open(t, "task", pebblestore.Options{FS: fs})
	mustApply(t, db, 0, write("k", "1"))
	mustClose(t, db)
	db = open(t, "task", pebblestore.Options{FS: fs.CrashClone(vfs.CrashCloneCfg{})})
	if !db.Positions().Equal(at(1)) {
		t.Errorf("at %v", db.Positions())
	}
	mustClose(t, db)
}

// TestLargeBatch is larger than the memtable, which Pebble then goes around.
func TestLargeBatch(t *testing.T) {
	fs := vfs.NewCrashableMem()
	db := open(t, "task", pebblestore.Options{FS: fs, FlushBytes: 64 << 10})
	var writes []state.Write
	for i := range 5000 {
		writes = append(writes, write(fmt.Sprintf("%06d", i*7919%100_000), strings.Repeat("v", 100))...)
	}
	mustApply(t, db, 0, writes)
	mustApply(t, db, 1, write("k", "after"))
	n := 0
	for _, err := range db.Scan(state.IDOf("s"), state.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 5001 {
		t.Errorf("%d entries", n)
	}
	// After a crash the large batch is there or not, but never the one behind it alone.
	for percent := 0; percent <= 100; percent += 10 {
		rng := rand.New(rand.NewPCG(uint64(percent), 1))
		clone := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng})
		db := open(t, "task", pebblestore.Options{FS: clone})
		_, large, err1 := db.Get(state.IDOf("s"), []byte("007919"))
		_, after, err2 := db.Get(state.IDOf("s"), []byte("k"))
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		p := db.Positions()
		if large != !p.Equal(at(0)) || after != p.Equal(at(2)) {
			t.Errorf("%d %%: large %t, after %t at %v", percent, large, after, p)
		}
		mustClose(t, db)
	}
	mustClose(t, db)
}

// TestNothingPrivateIsLogged: keys and values must not reach the log, whatever Pebble says at debug
// level.
func TestNothingPrivateIsLogged(t *testing.T) {
	var log bytes.Buffer
	o := pebblestore.Options{
		FS: vfs.NewMem(), FlushBytes: 4 << 10,
		Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	h := statetest.NewHistory(rand.New(rand.NewPCG(3, 3)), 40, 40, 100)
	for range 2 {
		db := open(t, "task", o)
		at, err := h.Locate(db.Positions())
		if err := errors.Join(err, db.Declare(h.Stores()...), h.Apply(db, at, at+20)); err != nil {
			t.Fatal(err)
		}
		mustClose(t, db)
	}
	if log.Len() == 0 {
		t.Error("nothing was logged at all")
	}
	for _, private := range []string{"key-", "vvv", "round "} {
		if strings.Contains(log.String(), private) {
			t.Errorf("the log contains %q:\n%s", private, log.String())
		}
	}
}

func TestSharedCachesOutliveTheirOwner(t *testing.T) {
	shared := pebblestore.NewShared(0, 0) // raised to the minimum
	var dbs []state.Database
	for range 3 {
		db := open(t, "task", pebblestore.Options{FS: vfs.NewMem(), Shared: shared})
		mustApply(t, db, 0, write("k", "v"))
		dbs = append(dbs, db)
	}
	shared.Close()
	for _, db := range dbs {
		if err := db.Flush(); err != nil {
			t.Error(err)
		}
		if v, _, err := db.Get(state.IDOf("s"), []byte("k")); string(v) != "v" || err != nil {
			t.Errorf("%q, %v", v, err)
		}
		mustClose(t, db)
	}
}
