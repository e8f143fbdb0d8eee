package pebblestore_test

import (
	"errors"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/pebblestore"
	"github.com/onceward/onceward/state/statetest"
)

// TestInMemoryConformance: a database of two parts is a database like any other. Some of the
// stores of the suite are in memory, or all, or none that it uses.
func TestInMemoryConformance(t *testing.T) {
	shared := pebblestore.NewShared(16<<20, 256)
	defer shared.Close()
	for name, stores := range map[string][]string{
		"one":  {"inbox"},
		"some": {"windows", "zero"},
		"all":  {"inbox", "windows", "zero"},
		"none": {"another"},
	} {
		t.Run(name, func(t *testing.T) {
			statetest.Run(t, func(t *testing.T) state.Database {
				return open(t, "task", pebblestore.Options{Shared: shared, FS: vfs.NewMem(), FlushBytes: 4 << 10, InMemory: stores})
			})
		})
	}
}

const (
	kept, lost = "kept", "lost"
	rowsEach   = 20
)

var inMemory = pebblestore.Options{InMemory: []string{lost}}

// twoStores are positions and writes of a round that changes a store on the disk and one in memory.
func twoStores(n int64) (state.Positions, []state.Write) {
	p := state.Positions{Round: state.RoundID{ProducerID: 1, Epoch: int16(n), Incarnation: 1}, WrittenAt: n}
	p.SetInput(state.Input{Topic: "in", Offset: n})
	var writes []state.Write
	for _, name := range []string{kept, lost} {
		p.SetChangelog(state.Changelog{Store: name, TopicID: [16]byte{1}, Applied: n, Scanned: n})
		writes = append(writes, state.Write{Store: state.IDOf(name), Key: []byte{byte(n)}, Value: []byte{byte(n)}})
	}
	return p, writes
}

// applyTwo makes rounds 1 to n.
func applyTwo(t *testing.T, db state.Database, n int64) {
	t.Helper()
	for i := range n {
		p, writes := twoStores(i + 1)
		if err := db.Apply(db.Positions(), p, slices.Values(writes)); err != nil {
			t.Fatal(err)
		}
	}
}

func rowsOf(t *testing.T, r state.Reader, store string) (n int) {
	t.Helper()
	for _, err := range r.Scan(state.IDOf(store), state.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// wantLost expects that a database was opened again: the store in memory is empty and has no
// position, and the other one is complete.
func wantLost(t *testing.T, db interface {
	state.Reader
	Positions() state.Positions
}, rounds int64,
) {
	t.Helper()
	p := db.Positions()
	_, has := p.Changelog(lost)
	note, noted := p.InMemory(lost)
	at, _ := p.Changelog(kept)
	if n := rowsOf(t, db, lost); n != 0 || has {
		t.Errorf("there are %d rows of the store in memory, and a position: %t", n, has)
	}
	if n := rowsOf(t, db, kept); int64(n) != rounds || at.Applied != rounds || !noted || note.Applied != rounds {
		t.Errorf("there are %d rows at %v, want %d", n, p, rounds)
	}
}

// TestInMemoryIsGone: what is in memory does not outlive the database, nor is it in a checkpoint,
// and nothing that is left looks as if it were there.
func TestInMemoryIsGone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "task")
	db := open(t, path, inMemory)
	if err := db.Declare(state.KeyValues(kept, lost)...); err != nil {
		t.Fatal(err)
	}
	applyTwo(t, db, rowsEach)
	if n := rowsOf(t, db, lost); n != rowsEach {
		t.Errorf("there are %d rows of the store in memory", n)
	}
	copied := filepath.Join(t.TempDir(), "checkpoint")
	if err := errors.Join(db.Flush(), db.Checkpoint(copied)); err != nil {
		t.Fatal(err)
	}
	mustClose(t, db)
	for _, at := range []string{path, copied} {
		for name, o := range map[string]pebblestore.Options{"as before": inMemory, "with all stores on the disk": {}} {
			t.Run(name, func(t *testing.T) {
				db := open(t, at, o)
				wantLost(t, db, rowsEach)
				mustClose(t, db)
			})
		}
	}
	r, err := pebblestore.OpenReadOnly(path, pebblestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	wantLost(t, r, rowsEach)
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// TestInMemoryCrash: after a crash at any moment the disk has whole rounds, from the first one on,
// of its own stores, and no row of the one in memory.
func TestInMemoryCrash(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 5))
	disk := vfs.NewCrashableMem()
	o := pebblestore.Options{FS: disk, FlushBytes: 256, InMemory: []string{lost}}
	db := open(t, "task", o)
	for n := int64(1); n <= 60; n++ {
		p, writes := twoStores(n)
		if err := db.Apply(db.Positions(), p, slices.Values(writes)); err != nil {
			t.Fatal(err)
		}
		left := o
		left.FS = disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: random.IntN(101), RNG: random})
		again := open(t, "task", left)
		note, _ := again.Positions().InMemory(lost)
		if note.Applied > n {
			t.Fatalf("after round %d the disk is at %v", n, again.Positions())
		}
		if note.Applied > 0 {
			wantLost(t, again, note.Applied)
		}
		mustClose(t, again)
	}
	mustClose(t, db)
}

// TestMovedToMemory: the rows that a store has on the disk leave it when the store is in memory,
// also if a crash came between the rows and the next Open.
func TestMovedToMemory(t *testing.T) {
	o := pebblestore.Options{FS: vfs.NewMem()}
	db := open(t, "task", o)
	if err := db.Declare(state.KeyValues(kept, lost)...); err != nil {
		t.Fatal(err)
	}
	applyTwo(t, db, rowsEach)
	mustClose(t, db)

	o.InMemory = []string{lost}
	db = open(t, "task", o)
	wantLost(t, db, rowsEach)
	mustClose(t, db)
	o.InMemory = nil
	db = open(t, "task", o)
	wantLost(t, db, rowsEach)
	// Rows without a position.
	if err := db.Apply(db.Positions(), db.Positions(), slices.Values([]state.Write{
		{Store: state.IDOf(lost), Key: []byte("k"), Value: []byte("v")},
	})); err != nil {
		t.Fatal(err)
	}
	mustClose(t, db)
	o.InMemory = []string{lost}
	db = open(t, "task", o)
	wantLost(t, db, rowsEach)
	mustClose(t, db)
	o.InMemory = nil
	db = open(t, "task", o)
	wantLost(t, db, rowsEach)
	mustClose(t, db)
}

// TestInMemoryLayout: the directory knows what a store in memory was declared as, so that its
// changelog is not read as that of a store of another kind. A store that was emptied, and has no
// note any more, may be declared as another kind.
func TestInMemoryLayout(t *testing.T) {
	o := pebblestore.Options{FS: vfs.NewMem(), InMemory: []string{lost}}
	db := open(t, "task", o)
	other := state.Declaration{Name: lost, Layout: state.Layout{Kind: state.TimestampedKind}}
	if err := errors.Join(db.Declare(state.KeyValues(kept, lost)...), db.Declare(other), db.Declare(state.KeyValues(lost)...)); err != nil {
		t.Fatal(err)
	}
	applyTwo(t, db, rowsEach)
	mustClose(t, db)
	db = open(t, "task", o)
	if err := db.Declare(other); !errors.Is(err, state.ErrLayout) {
		t.Fatalf("a store of another layout: got %v, want ErrLayout", err)
	}
	at := db.Positions()
	if err := db.Remove(at, at, state.IDOf(lost), state.Range{}); err != nil {
		t.Fatal(err)
	}
	if _, noted := db.Positions().InMemory(lost); noted {
		t.Error("the note of the store is still there")
	}
	if err := db.Declare(other); err != nil {
		t.Error(err)
	}
	mustClose(t, db)
	db = open(t, "task", o)
	if stores, err := db.Stores(); err != nil || !slices.Contains(stores, other) {
		t.Errorf("the stores are %v, %v", stores, err)
	}
	mustClose(t, db)
}

// TestInMemoryBudget: the tables of a store in memory are taken out of the budget, and given back.
func TestInMemoryBudget(t *testing.T) {
	shared := pebblestore.NewShared(16<<20, 256)
	defer shared.Close()
	db := open(t, "task", pebblestore.Options{Shared: shared, FS: vfs.NewMem(), InMemory: []string{lost}})
	value := make([]byte, 4<<20)
	random := rand.NewChaCha8([32]byte{1})
	if _, err := random.Read(value); err != nil {
		t.Fatal(err)
	}
	at, next := db.Positions(), db.Positions()
	next.SetChangelog(state.Changelog{Store: lost, Applied: 1, Scanned: 1})
	rows := func(yield func(state.Write) bool) {
		for i := range 256 {
			if !yield(state.Write{Store: state.IDOf(lost), Key: []byte{byte(i)}, Value: value[i<<14 : (i+1)<<14]}) {
				return
			}
		}
	}
	if err := db.Load(at, next, state.IDOf(lost), rows); err != nil {
		t.Fatal(err)
	}
	if got := shared.Spent().InMemory; got < 4<<20 {
		t.Errorf("%d bytes are counted of 4 MiB", got)
	}
	m, ok := pebblestore.MetricsOf(db)
	if !ok || m.InMemoryBytes < 4<<20 || m.DiskBytes > 1<<20 {
		t.Errorf("the metrics are %+v, %t", m, ok)
	}
	if e, ok, err := pebblestore.EstimateOf(db, state.IDOf(lost)); err != nil || !ok || e.Keys < 200 {
		t.Errorf("the estimate is %+v, %t, %v", e, ok, err)
	}
	mustClose(t, db)
	if got := shared.Spent().InMemory; got != 0 {
		t.Errorf("%d bytes are counted after the end", got)
	}
}

// TestInMemoryTorn: a disk that fails stops the whole database, also the stores in memory.
func TestInMemoryTorn(t *testing.T) {
	for name, store := range map[string]string{"a store on the disk": kept, "a store in memory": lost} {
		t.Run(name, func(t *testing.T) {
			db := open(t, "task", pebblestore.Options{FS: vfs.NewMem(), InMemory: []string{lost}})
			applyTwo(t, db, 3)
			if err := pebblestore.CloseDisk(db); err != nil {
				t.Fatal(err)
			}
			at := db.Positions()
			next := at.Clone()
			next.Round.Epoch++
			write := []state.Write{{Store: state.IDOf(store), Key: []byte("k"), Value: []byte("v")}}
			if err := db.Load(at, next, state.IDOf(store), slices.Values(write)); err == nil {
				t.Error("a step was made without the disk")
			}
			if !db.Positions().Same(at) {
				t.Errorf("the positions are %v, want %v", db.Positions(), at)
			}
			if _, _, err := db.Get(state.IDOf(lost), []byte{1}); !errors.Is(err, state.ErrClosed) {
				t.Errorf("a lookup in memory: %v", err)
			}
			mustClose(t, db)
		})
	}
}
