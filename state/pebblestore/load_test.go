package pebblestore

import (
	"encoding/binary"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/onceward/onceward/state"
)

// ascending yields n writes of a store with the given value.
func ascending(n int, value string) iter.Seq[state.Write] {
	return func(yield func(state.Write) bool) {
		var key [4]byte
		for i := range n {
			binary.BigEndian.PutUint32(key[:], uint32(i))
			if !yield(state.Write{Store: state.IDOf("s"), Key: key[:], Value: []byte(value)}) {
				return
			}
		}
	}
}

func load(db state.Database, from int64, n int) error {
	return db.Load(at(from), at(from+1), state.IDOf("s"), ascending(n, "loaded"))
}

func filesIn(t *testing.T, fs vfs.FS, dir string) []string {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil && !strings.Contains(err.Error(), "not exist") {
		t.Fatal(err)
	}
	return names
}

// TestALoadIsDurableAfterWhatCameBefore: a loaded table is on the disk at once, but a power loss
// keeps it only with everything that was applied before it.
func TestALoadIsDurableAfterWhatCameBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &slowDisk{FS: vfs.NewCrashableMem(), only: "pebble-memtable-flush"}
		fs := disk.FS.(*vfs.MemFS)
		db := openForTest(t, Options{FS: disk, FlushInterval: time.Hour})
		if err := load(db, 0, 100); err != nil {
			t.Fatal(err)
		}
		// The format of the new database was in memory only.
		synctest.Wait()
		if p := durable(t, fs); !p.Equal(at(1)) {
			t.Errorf("after a load: durable is %v", p)
		}
		disk.hold()
		if err := errors.Join(applyBytes(db, 1, 10), load(db, 2, 100), applyBytes(db, 3, 10)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if p := durable(t, fs); !p.Equal(at(1)) {
			t.Errorf("a load overtook what was applied before it: durable is %v", p)
		}
		disk.release()
		synctest.Wait()
		if p := durable(t, fs); !p.Equal(at(3)) {
			t.Errorf("after the flush of what came before: durable is %v", p)
		}
		if err := db.Flush(); err != nil {
			t.Fatal(err)
		}
		if p := durable(t, fs); !p.Equal(at(4)) {
			t.Errorf("after Flush: durable is %v", p)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestWithoutPositionsInTheTableALoadOvertakes is the control: it is the key of the positions that
// makes Pebble see the overlap.
func TestWithoutPositionsInTheTableALoadOvertakes(t *testing.T) {
	fs := vfs.NewCrashableMem()
	db := openForTest(t, Options{FS: fs, FlushInterval: time.Hour})
	if err := errors.Join(db.Flush(), applyBytes(db, 0, 10)); err != nil {
		t.Fatal(err)
	}
	if err := fs.MkdirAll("task/load", 0o700); err != nil {
		t.Fatal(err)
	}
	file, err := fs.Create("task/load/1.sst", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	w := sstable.NewWriter(objstorageprovider.NewFileWritable(file), db.tables)
	if err := errors.Join(w.Set(appendDataKey(nil, state.IDOf("t"), nil), []byte("overtaken")), w.Close()); err != nil {
		t.Fatal(err)
	}
	if err := db.ingest("load", "task/load/1.sst"); err != nil {
		t.Fatal(err)
	}
	left := openForTest(t, Options{FS: fs.CrashClone(vfs.CrashCloneCfg{})})
	_, overtaken, err := left.Get(state.IDOf("t"), nil)
	if !overtaken || err != nil || !left.Positions().Equal(at(0)) {
		t.Errorf("the table is there: %t at %v, %v; the control shows nothing", overtaken, left.Positions(), err)
	}
	if err := errors.Join(left.Close(), db.Close()); err != nil {
		t.Error(err)
	}
}

// TestALoadEndsWithAFault: Pebble's Ingest can wait for ever behind a flush that failed. Load may
// not, and Close has to get through.
func TestALoadEndsWithAFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := &slowLink{FS: vfs.NewMem(), linked: make(chan struct{})}
		db := openForTest(t, Options{FS: fs})
		result := make(chan error, 1)
		go func() { result <- load(db, 0, 10) }()
		synctest.Wait()
		if len(result) > 0 {
			t.Fatal("the ingest did not wait")
		}
		db.fault.stop(errors.New("broken"))
		synctest.Wait()
		select {
		case err := <-result:
			if !errors.Is(err, state.ErrFailed) {
				t.Errorf("got %v, want ErrFailed", err)
			}
		default:
			t.Error("the load goes on waiting")
		}
		if err := load(db, 0, 10); !errors.Is(err, state.ErrFailed) {
			t.Errorf("the next one: got %v, want ErrFailed", err)
		}
		close(fs.linked)
		if err := db.Close(); !errors.Is(err, state.ErrFailed) {
			t.Errorf("close: got %v, want ErrFailed", err)
		}
		db = openForTest(t, Options{FS: fs})
		if p := db.Positions(); !p.Equal(at(0)) {
			t.Errorf("reopened at %v", p)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
}

// slowLink waits with each hard link.
type slowLink struct {
	vfs.FS
	linked chan struct{}
}

func (s *slowLink) Link(oldname, newname string) error {
	<-s.linked
	return s.FS.Link(oldname, newname)
}

// TestALoadIsInterrupted by Close and by a fault, in the middle of a long sequence.
func TestALoadIsInterrupted(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(db *database)
		want error
	}{
		"the close": {func(db *database) { go func() { _ = db.Close() }(); <-db.flusher.stopped }, state.ErrClosed},
		"a fault":   {func(db *database) { db.fault.stop(errors.New("broken")) }, state.ErrFailed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fs := vfs.NewMem()
				db := openForTest(t, Options{FS: fs})
				n := 0
				endless := func(yield func(state.Write) bool) {
					for w := range ascending(1<<31, "v") {
						if n++; n == 5000 {
							c.end(db)
						}
						if !yield(w) {
							return
						}
					}
				}
				if err := db.Load(at(0), at(1), state.IDOf("s"), endless); !errors.Is(err, c.want) {
					t.Errorf("got %v, want %v", err, c.want)
				}
				if n > 5000+loadCheckEvery {
					t.Errorf("%d writes were taken", n)
				}
				if err := db.Close(); err != nil && !errors.Is(err, c.want) {
					t.Error(err)
				}
				if names := filesIn(t, fs, "task/load"); len(names) > 0 {
					t.Errorf("%q are left", names)
				}
				db = openForTest(t, Options{FS: fs})
				if p := db.Positions(); !p.Equal(at(0)) {
					t.Errorf("reopened at %v", p)
				}
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestLoadLeavesNoFiles: neither a load that was taken nor one that failed, and what a crash left
// is gone after the next open.
func TestLoadLeavesNoFiles(t *testing.T) {
	fs := vfs.NewMem()
	// Of the load alone: a compaction that fails stops the database.
	errs := errorfs.Toggle{Injector: errorfs.ErrInjected.If(errorfs.And(errorfs.Writes, errorfs.PathMatch("task/load/*")))}
	db := openForTest(t, Options{FS: errorfs.Wrap(fs, &errs)})
	if err := errors.Join(load(db, 0, 5000), load(db, 1, 5000)); err != nil {
		t.Fatal(err)
	}
	disorder := slices.Values([]state.Write{{Store: state.IDOf("s"), Key: []byte("b")}, {Store: state.IDOf("s"), Key: []byte("a")}})
	if err := db.Load(at(2), at(3), state.IDOf("s"), disorder); err == nil {
		t.Fatal("a load in disorder was taken")
	}
	if names := filesIn(t, fs, "task/load"); len(names) > 0 {
		t.Errorf("%q are left", names)
	}
	// A table that cannot be written harms nothing: it is no part of the database yet.
	errs.On()
	if err := load(db, 2, 5000); err == nil || errors.Is(err, state.ErrFailed) {
		t.Errorf("got %v, want the injected error", err)
	}
	errs.Off()
	if err := load(db, 2, 5000); err != nil {
		t.Errorf("once the disk works again: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := fs.Create("task/load/9.sst", vfs.WriteCategoryUnspecified)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	db = openForTest(t, Options{FS: fs})
	if names := filesIn(t, fs, "task/load"); len(names) > 0 {
		t.Errorf("after the next open %q are left", names)
	}
	if p := db.Positions(); !p.Equal(at(3)) {
		t.Errorf("reopened at %v", p)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// TestLoadsWaitForCompactions: a row of loads is held back like a row of batches.
func TestLoadsWaitForCompactions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &slowDisk{FS: vfs.NewMem(), only: "pebble-compaction"}
		db := openForTest(t, Options{FS: disk, FlushBytes: 1000})
		disk.hold()
		results := make(chan error)
		loaded := int64(0)
		for waits := false; !waits; loaded++ {
			if loaded == 100 {
				t.Fatal("nothing waited")
			}
			go func() { results <- load(db, loaded, 1000) }()
			synctest.Wait()
			select {
			case err := <-results:
				if err != nil {
					t.Fatal(err)
				}
			default:
				waits = true
			}
		}
		if n := db.sublevels(); n <= sublevelsMax || n > sublevelsMax+5 {
			t.Errorf("the wait began with %d sublevels", n)
		}
		disk.release()
		if err := <-results; err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestLoadsOfDifferentStoresDoNotOverlap: each goes to the last level at once, although all of them
// have positions.
func TestLoadsOfDifferentStoresDoNotOverlap(t *testing.T) {
	db := openForTest(t, Options{FS: vfs.NewMem()})
	if err := db.Flush(); err != nil { // the format of a new database
		t.Fatal(err)
	}
	stores := []string{"s", "t", "u"}
	for i, name := range stores {
		writes := func(yield func(state.Write) bool) {
			for w := range ascending(5000, "loaded") {
				if w.Store = state.IDOf(name); !yield(w) {
					return
				}
			}
		}
		if err := db.Load(at(int64(i)), at(int64(i+1)), state.IDOf(name), writes); err != nil {
			t.Fatal(err)
		}
	}
	m := db.db.Metrics()
	if last := m.Levels[len(m.Levels)-1]; last.TablesCount < int64(len(stores)) {
		t.Errorf("%d tables are in the last level after %d loads:\n%s", last.TablesCount, len(stores), m)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// TestLoadsThatOverlapTheirNeighbours: tables of which each overlaps only the one before it are so
// many levels of L0, and no compaction comes for them. Nobody waits for one.
func TestLoadsThatOverlapTheirNeighbours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openForTest(t, Options{FS: vfs.NewMem()})
		store := state.IDOf("s")
		timer := time.AfterFunc(time.Hour, func() { _ = db.Close() }) // lets a load go that waits
		for n := range int64(4 * sublevelsMax) {
			var writes []state.Write
			for k := range 15 {
				writes = append(writes, state.Write{Store: store, Key: numbered(int(n)*10 + k), Value: []byte("v")})
			}
			if err := db.Load(at(n), at(n+1), store, slices.Values(writes)); err != nil {
				t.Fatalf("load %d, with %d sublevels: %v", n, db.sublevels(), err)
			}
		}
		if !timer.Stop() {
			t.Error("a load has waited")
		}
		closeForTest(t, db)
	})
}
