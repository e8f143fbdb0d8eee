package pebblestore

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/onceward/onceward/state"
)

// expectAbsent makes lookups of the store go the way of those that find nothing.
func expectAbsent(t *testing.T, d *database, store state.StoreID) {
	t.Helper()
	for range 2 * habitShare {
		if _, found, err := d.Get(store, []byte("never there")); found || err != nil {
			t.Fatal(found, err)
		}
	}
	if !d.habits.of(store).expectsAbsent() {
		t.Fatal("lookups that find nothing are not expected to")
	}
}

// seekAbsent looks a key up that is not there, with an iterator. Get would ask the key filter
// instead, as soon as that is filled.
func seekAbsent(t *testing.T, d *database, store state.StoreID) {
	t.Helper()
	d.life.RLock()
	defer d.life.RUnlock()
	if _, found, err := d.seek(appendDataKey(nil, store, []byte("never there"))); found || err != nil {
		t.Fatal(found, err)
	}
}

// TestAbsentLookupsSeeEveryChange: whatever brings something into Pebble, the next lookup sees it,
// also with an iterator that is kept.
func TestAbsentLookupsSeeEveryChange(t *testing.T) {
	for _, direct := range []int{0, 1 << 30} {
		t.Run(fmt.Sprintf("%d direct", direct), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(7, uint64(direct)))
			d := openForTest(t, Options{FS: vfs.NewMem(), FlushBytes: 4 << 10, FlushInterval: time.Hour})
			d.direct = direct
			store, model, next := state.IDOf("s"), map[string]string{}, int64(0)
			step := func(do func(base, next state.Positions) error) {
				t.Helper()
				if err := do(at(next), at(next+1)); err != nil {
					t.Fatal(err)
				}
				next++
			}
			for round := range 300 {
				expectAbsent(t, d, store)
				key := fmt.Sprintf("%03d", rng.IntN(200))
				switch kind := rng.IntN(10); {
				case kind < 7:
					write := state.Write{Store: store, Key: []byte(key), Delete: rng.IntN(4) == 0}
					if write.Delete {
						delete(model, key)
					} else {
						model[key] = fmt.Sprint(round)
						write.Value = []byte(model[key])
					}
					step(func(base, next state.Positions) error {
						return d.Apply(base, next, slices.Values([]state.Write{write}))
					})
				case kind < 8:
					to := key + "~"
					maps.DeleteFunc(model, func(k, _ string) bool { return k >= key[:2] && k < to })
					step(func(base, next state.Positions) error {
						return d.Remove(base, next, store, state.Range{From: []byte(key[:2]), To: []byte(to)})
					})
				case kind < 9:
					model[key] = fmt.Sprint("loaded ", round)
					write := state.Write{Store: store, Key: []byte(key), Value: []byte(model[key])}
					step(func(base, next state.Positions) error {
						return d.Load(base, next, store, slices.Values([]state.Write{write}))
					})
				default:
					if err := d.Flush(); err != nil {
						t.Fatal(err)
					}
				}
				for n := range 200 {
					key := fmt.Sprintf("%03d", n)
					value, found, err := d.Get(store, []byte(key))
					if want, there := model[key]; err != nil || found != there || string(value) != want {
						t.Fatalf("round %d, key %s: got %q, %t, %v, want %q, %t", round, key, value, found, err, want, there)
					}
				}
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestAbsentLookupsNeverGoBack: while rounds go into Pebble and are flushed all the time, no reader
// sees an older value after a newer one, whichever way its lookups go.
func TestAbsentLookupsNeverGoBack(t *testing.T) {
	d := openForTest(t, Options{FS: vfs.NewMem(), FlushBytes: 64 << 10})
	store, key := state.IDOf("s"), []byte("counter")
	const rounds = 3000
	var readers sync.WaitGroup
	done := make(chan struct{})
	for range 3 {
		readers.Go(func() {
			for last := uint64(0); ; {
				select {
				case <-done:
					return
				default:
				}
				for _, absent := range []bool{true, false} {
					if absent {
						d.habits.of(store).absent.Store(habitMax)
					} else {
						d.habits.of(store).absent.Store(0)
					}
					value, found, err := d.Get(store, key)
					if err != nil {
						t.Error(err)
						return
					}
					now := uint64(0)
					if found {
						now = binary.BigEndian.Uint64(value)
					}
					if now < last {
						t.Errorf("%d after %d", now, last)
						return
					}
					last = now
				}
			}
		})
	}
	readers.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			if err := d.Flush(); err != nil {
				t.Error(err)
				return
			}
		}
	})
	d.applying.Lock()
	d.direct = rounds
	d.applying.Unlock()
	for n := range int64(rounds) {
		write := state.Write{Store: store, Key: key, Value: binary.BigEndian.AppendUint64(nil, uint64(n+1))}
		if err := d.Apply(at(n), at(n+1), slices.Values([]state.Write{write})); err != nil {
			t.Fatal(err)
		}
	}
	close(done)
	readers.Wait()
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// TestIteratorCacheInUse: an iterator that was in use while something changed is not kept.
func TestIteratorCacheInUse(t *testing.T) {
	d := openForTest(t, Options{FS: vfs.NewMem()})
	d.direct = 1
	store := state.IDOf("s")
	expectAbsent(t, d, store)
	it, made, err := d.iterators.take(d.db)
	if err != nil {
		t.Fatal(err)
	}
	write := state.Write{Store: store, Key: []byte("k"), Value: []byte("v")}
	if err := d.Apply(at(0), at(1), slices.Values([]state.Write{write})); err != nil {
		t.Fatal(err)
	}
	if err := d.iterators.give(it, made); err != nil {
		t.Fatal(err)
	}
	if _, found, err := d.Get(store, write.Key); !found || err != nil {
		t.Errorf("what was applied meanwhile: %t, %v", found, err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// TestIteratorCacheIsReleased: an iterator that is kept holds the memtable that a flush has
// replaced, and the tables that a compaction has.
func TestIteratorCacheIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openForTest(t, Options{FS: vfs.NewMem()})
		store := state.IDOf("s")
		write := state.Write{Store: store, Key: []byte("k"), Value: []byte("v")}
		if err := d.Apply(at(0), at(1), slices.Values([]state.Write{write})); err != nil {
			t.Fatal(err)
		}
		if err := d.drain("test"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // for what the flush lets go of
		seekAbsent(t, d, store)
		kept := func() int {
			d.iterators.mu.Lock()
			defer d.iterators.mu.Unlock()
			if d.iterators.idle != nil {
				return 1
			}
			return 0
		}
		if kept() != 1 {
			t.Fatalf("%d iterators are kept after lookups one by one", kept())
		}
		if err := d.Flush(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if kept() != 0 {
			t.Error("the iterator is kept after the flush")
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestHabit: a store is asked in the way that suits what was found lately.
func TestHabit(t *testing.T) {
	var h habit
	if h.expectsAbsent() {
		t.Error("nothing is known, and nothing is expected to be there")
	}
	for range 10 * habitShare {
		h.saw(false)
	}
	if !h.expectsAbsent() {
		t.Error("after many lookups that found nothing")
	}
	for range habitShare {
		h.saw(true)
	}
	if h.expectsAbsent() {
		t.Error("after many lookups that found something")
	}
	if n := testing.AllocsPerRun(100, func() { h.saw(true) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestIteratorCacheIsBounded: what is kept for the next lookup does not grow with the number of
// databases, and each is given back.
func TestIteratorCacheIsBounded(t *testing.T) {
	shared := NewShared(1<<20, openFilesMin)
	defer shared.Close()
	store := state.IDOf("s")
	var databases []*database
	for n := range 2 * openFilesMin / iteratorsShare {
		databases = append(databases, openForTest(t, Options{FS: vfs.NewMem(), Shared: shared}))
		seekAbsent(t, databases[n], store)
	}
	if kept := shared.iterators.Load(); kept != openFilesMin/iteratorsShare {
		t.Errorf("%d iterators are kept", kept)
	}
	for _, d := range databases {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	if kept := shared.iterators.Load(); kept != 0 {
		t.Errorf("%d iterators are kept after the end", kept)
	}
}
