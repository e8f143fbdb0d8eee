package pebblestore

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/onceward/onceward/state"
)

// TestRowsFollowEveryChange: whichever way values change, a row that is kept changes with it, also
// when there is no room for all of them.
func TestRowsFollowEveryChange(t *testing.T) {
	for _, direct := range []int{0, 1 << 30} {
		t.Run(fmt.Sprintf("%d direct", direct), func(t *testing.T) {
			shared := NewShared(BudgetMin, 100)
			defer shared.Close()
			rng := rand.New(rand.NewPCG(11, uint64(direct)))
			d := openForTest(t, Options{FS: vfs.NewMem(), Shared: shared, FlushBytes: 4 << 10, FlushInterval: time.Hour})
			d.direct = direct
			store, model, next := state.IDOf("s"), map[string]string{}, int64(0)
			read := func(key string) {
				t.Helper()
				value, found, err := d.Get(store, []byte(key))
				if want, there := model[key]; err != nil || found != there || string(value) != want {
					t.Fatalf("key %s: got %.20q, %t, %v, want %.20q, %t", key, value, found, err, want, there)
				}
			}
			turns, known, rounds, reads := 0, 0, 1500, 40
			if RaceDetector {
				rounds, reads = 500, 8 // all in one goroutine
			}
			for round := range rounds {
				before := d.rows.table.reclaimed
				key := func() string { return fmt.Sprintf("%03d", rng.IntN(600)) }
				var err error
				switch kind := rng.IntN(200); {
				case kind < 160:
					var writes []state.Write
					for range 1 + rng.IntN(8) {
						w := state.Write{Store: store, Key: []byte(key()), Delete: rng.IntN(8) == 0}
						delete(model, string(w.Key))
						if !w.Delete {
							w.Value = fmt.Appendf(nil, "%d %s", round, strings.Repeat("v", rng.IntN(3000)))
							model[string(w.Key)] = string(w.Value)
						}
						writes = append(writes, w)
					}
					err = d.Apply(at(next), at(next+1), slices.Values(writes))
					next++
				case kind < 164:
					from := key()
					to := from + "~"
					maps.DeleteFunc(model, func(k, _ string) bool { return k >= from[:2] && k < to })
					err = d.Remove(at(next), at(next+1), store, state.Range{From: []byte(from[:2]), To: []byte(to)})
					next++
				case kind < 168:
					k := key()
					model[k] = fmt.Sprint("loaded ", round)
					err = d.Load(at(next), at(next+1), store, slices.Values([]state.Write{{Store: store, Key: []byte(k), Value: []byte(model[k])}}))
					next++
				default:
					err = d.Flush()
				}
				if err != nil {
					t.Fatal(err)
				}
				for range reads {
					read(key())
				}
				if d.rows.table.reclaimed > before {
					turns++
				}
				known += d.rows.hits
			}
			for n := range 600 {
				read(fmt.Sprintf("%03d", n))
			}
			if turns < 3 || known == 0 {
				t.Errorf("%d turns, %d hits: this was not about rows", turns, known)
			}
			closeForTest(t, d)
			if kept := shared.Spent().Kept; kept != 0 {
				t.Errorf("%d bytes are kept for a closed database", kept)
			}
		})
	}
}

// TestRowsShowWholeRounds: a reader that saw a round at one key sees it, or a later one, at every
// other, whether a row is kept or not.
func TestRowsShowWholeRounds(t *testing.T) {
	store := state.IDOf("s")
	d := openForTest(t, Options{FS: vfs.NewMem(), FlushBytes: 128 << 10})
	keys := []string{"a", "m", "z"}
	const rounds = 2000
	done := make(chan struct{})
	var readers sync.WaitGroup
	for reader := range 3 {
		readers.Go(func() {
			rng, last := rand.New(rand.NewPCG(1, uint64(reader))), 0
			for {
				select {
				case <-done:
					return
				default:
				}
				key := keys[rng.IntN(len(keys))]
				value, found, err := d.Get(store, []byte(key))
				if err != nil {
					t.Error(err)
					return
				}
				now := 0
				if found {
					if _, err := fmt.Sscan(string(value), &now); err != nil {
						t.Error(err)
						return
					}
				}
				if now < last {
					t.Errorf("key %s is of round %d, after something of round %d", key, now, last)
					return
				}
				last = now
			}
		})
	}
	for round := range int64(rounds) {
		if round%10 == 0 {
			d.direct = 8
		}
		var writes []state.Write
		for _, key := range keys {
			value := fmt.Append(nil, round+1, " ")
			if key == "m" { // never kept: lookups of it go to Pebble
				value = append(value, make([]byte, rowBytesMax)...)
			}
			writes = append(writes, state.Write{Store: store, Key: []byte(key), Value: value})
		}
		for i := range 10 {
			writes = append(writes, state.Write{Store: store, Key: fmt.Append(nil, "other ", i), Value: make([]byte, 100)})
		}
		if err := d.Apply(at(round), at(round+1), slices.Values(writes)); err != nil {
			t.Fatal(err)
		}
	}
	close(done)
	readers.Wait()
	if d.rows.table.count == 0 {
		t.Error("no row was kept: this was not about rows")
	}
	closeForTest(t, d)
}

// TestRowsOfTooManyKeysAreFew: where hardly any row is asked for again, they have little of the
// memory, until they are worth more.
func TestRowsOfTooManyKeysAreFew(t *testing.T) {
	if RaceDetector {
		t.Skip("looks up 540,000 rows, in one goroutine")
	}
	shared := NewShared(4*BudgetMin, 100)
	defer shared.Close()
	store := state.IDOf("s")
	d := openForTest(t, Options{FS: vfs.NewMem(), Shared: shared})
	const keys = 100_000
	applyKeys(t, d, store, 0, 0, keys)
	if err := d.Flush(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		mustHave(t, d, store, 0, keys)
		if held := d.rows.table.held(); held > shared.rowsMax()/rowsTrial+segmentBytes || d.rows.limit() == shared.rowsMax() {
			t.Errorf("rows that nobody asks for again have %d of %d bytes", held, shared.rowsMax())
		}
	}
	for range 20 {
		mustHave(t, d, store, 0, 50)
	}
	if d.rows.hits < 900 {
		t.Errorf("%d of 950 lookups found a row", d.rows.hits)
	}
	rng, hits := rand.New(rand.NewPCG(5, 5)), 0
	const fit = 12_000
	for range 20 * fit {
		before, n := d.rows.hits, rng.IntN(fit)
		mustHave(t, d, store, n, n+1)
		if d.rows.hits == before+1 {
			hits++
		}
	}
	if hits < 15*fit {
		t.Errorf("%d of %d lookups found a row; there is room for %d bytes", hits, 20*fit, d.rows.limit())
	}
	closeForTest(t, d)
}

// TestRowsFollowTheirLimit: what filters take, or other databases, rows give back, also where none
// is added.
func TestRowsFollowTheirLimit(t *testing.T) {
	if RaceDetector {
		t.Skip("looks up 200,000 rows, in one goroutine")
	}
	const keys = 50_000
	store := state.IDOf("s")
	for name, use := range map[string]func(d *database) error{
		"found": func(d *database) error {
			for n := range keys {
				key := appendDataKey(nil, store, numbered(n))
				d.inMemory(hashOf(key), key)
			}
			return nil
		},
		"written": func(d *database) error {
			at := d.Positions()
			return d.Apply(at, at, slices.Values([]state.Write{{Store: store, Key: []byte("other"), Value: []byte("v")}}))
		},
		"kept": func(d *database) error {
			rng := rand.New(rand.NewPCG(6, 6))
			for range keys {
				if _, _, err := d.Get(store, numbered(rng.IntN(keys))); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			shared := NewShared(8*BudgetMin, 100)
			defer shared.Close()
			d := openForTest(t, Options{FS: vfs.NewMem(), Shared: shared})
			applyKeys(t, d, store, 0, 0, keys)
			if err := d.Flush(); err != nil {
				t.Fatal(err)
			}
			mustHave(t, d, store, 0, keys)
			all := d.rows.table.held()
			if d.rows.table.count != keys || all > d.rows.limit() {
				t.Fatalf("%d rows in %d bytes of %d", d.rows.table.count, all, d.rows.limit())
			}
			shared.filters.Add(shared.budget / filterShare)
			defer shared.filters.Add(-shared.budget / filterShare)
			limit := shared.budget / rowsShare
			if got := shared.rowsMax(); got != limit || limit > all/4*3 {
				t.Fatalf("rows may take %d bytes, want %d, and have %d", got, limit, all)
			}
			for range 500 {
				if err := use(d); err != nil {
					t.Fatal(err)
				}
				if d.rows.table.held() <= limit {
					break
				}
			}
			held, kept := d.rows.table.held(), shared.rows.Load()
			if held > limit || held < limit/4*3 || kept > limit+limit/8 {
				t.Errorf("%d bytes are held and %d reserved of %d", held, kept, limit)
			}
			closeForTest(t, d)
			if kept := shared.rows.Load(); kept != 0 {
				t.Errorf("%d bytes are reserved for a closed database", kept)
			}
		})
	}
}

// TestTwoReadersKeepARowOnce: a key that had two rows would show the older one some day.
func TestTwoReadersKeepARowOnce(t *testing.T) {
	store := state.IDOf("s")
	d := openForTest(t, Options{FS: vfs.NewMem()})
	applyTo(t, d, 0, "k", "v")
	if err := d.Flush(); err != nil {
		t.Fatal(err)
	}
	key := appendDataKey(nil, store, []byte("k"))
	_, _, _, first := d.inMemory(hashOf(key), key)
	_, _, _, second := d.inMemory(hashOf(key), key)
	d.rows.keep(store, hashOf(key), key, []byte("v"), first)
	d.rows.keep(store, hashOf(key), key, []byte("v"), second)
	if n := d.rows.table.count; n != 1 {
		t.Errorf("there are %d rows of a key", n)
	}
	closeForTest(t, d)
}

// TestLargeRowsAreNotKept, so that one of them does not take the place of hundreds.
func TestLargeRowsAreNotKept(t *testing.T) {
	store := state.IDOf("s")
	d := openForTest(t, Options{FS: vfs.NewMem()})
	large := state.Write{Store: store, Key: []byte("large"), Value: make([]byte, rowBytesMax)}
	if err := d.Apply(at(0), at(1), slices.Values([]state.Write{large})); err != nil {
		t.Fatal(err)
	}
	if err := d.Flush(); err != nil {
		t.Fatal(err)
	}
	if _, found, err := d.Get(store, large.Key); !found || err != nil {
		t.Fatal(found, err)
	}
	if d.rows.table.count > 0 {
		t.Error("it is kept")
	}
	closeForTest(t, d)
}

// TestRowsKeepNothingOlderThanTheBuffer: what Pebble says of a key is not kept when something was
// applied since the buffer was asked for it.
func TestRowsKeepNothingOlderThanTheBuffer(t *testing.T) {
	store := state.IDOf("s")
	d := openForTest(t, Options{FS: vfs.NewMem()})
	applyTo(t, d, 0, "k", "old")
	if err := d.Flush(); err != nil {
		t.Fatal(err)
	}
	key := appendDataKey(nil, store, []byte("k"))
	_, _, known, at := d.inMemory(hashOf(key), key)
	if known {
		t.Fatal("the row is in memory")
	}
	applyTo(t, d, 1, "k", "new")
	old, _, err := d.lookUp(store, d.habits.of(store), key)
	if err != nil || string(old) != "old" {
		t.Fatalf("Pebble has %q, %v", old, err)
	}
	d.rows.keep(store, hashOf(key), key, old, at)
	if err := d.Flush(); err != nil {
		t.Fatal(err)
	}
	if value, _, err := d.Get(store, []byte("k")); err != nil || string(value) != "new" {
		t.Errorf("got %q, %v", value, err)
	}
	closeForTest(t, d)
}

// TestRowThatGrows: a row that was kept while it was small is right, and takes no memory to speak
// of, when it is not any more.
func TestRowThatGrows(t *testing.T) {
	store := state.IDOf("s")
	for _, size := range []int{rowBytesMax / 2, 2 * rowBytesMax, 32 * rowBytesMax} {
		d := openForTest(t, Options{FS: vfs.NewMem()})
		applyTo(t, d, 0, "k", "small")
		if err := d.Flush(); err != nil {
			t.Fatal(err)
		}
		if _, _, err := d.Get(store, []byte("k")); err != nil || d.rows.table.count == 0 {
			t.Fatal("the row is not kept", err)
		}
		applyTo(t, d, 1, "k", strings.Repeat("v", size))
		if err := d.Flush(); err != nil {
			t.Fatal(err)
		}
		if value, _, err := d.Get(store, []byte("k")); err != nil || len(value) != size {
			t.Errorf("%d bytes, %v, want %d", len(value), err, size)
		}
		want := 0
		if size < rowBytesMax {
			want = 1
		}
		if held := d.rows.table.held(); d.rows.table.count != want || held > segmentBytes+8*slotsMin {
			t.Errorf("%d rows in %d bytes", d.rows.table.count, held)
		}
		closeForTest(t, d)
	}
}

// TestRemoveAndRowsAreOneStep: when the positions of a removal can be seen, no row of its range
// can.
func TestRemoveAndRowsAreOneStep(t *testing.T) {
	store := state.IDOf("s")
	d := openForTest(t, Options{FS: vfs.NewMem()})
	rounds := int64(2000)
	if RaceDetector {
		rounds = 200
	}
	for round := int64(0); round < rounds; round += 2 {
		applyTo(t, d, round, "a", "1", "b", "1")
		if err := d.Flush(); err != nil {
			t.Fatal(err)
		}
		if _, found, err := d.Get(store, []byte("a")); !found || err != nil { // keeps it
			t.Fatal(found, err)
		}
		done := make(chan error)
		go func() { done <- d.Remove(at(round+1), at(round+2), store, state.Range{}) }()
		for gone := false; !gone; {
			_, other, err := d.Get(store, []byte("b")) // goes to Pebble the first time
			if err != nil {
				t.Fatal(err)
			}
			if gone = !other; gone {
				if _, found, err := d.Get(store, []byte("a")); found || err != nil {
					t.Fatalf("round %d: a row is there after its range was removed: %v", round, err)
				}
			}
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	closeForTest(t, d)
}
