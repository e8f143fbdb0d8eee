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

// TestRowsFollowEveryChange: whichever way values change, a row that is kept changes with it, also when there is no room for all of them.
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
			turns, known := 0, 0
			for round := range 1500 {
				old := d.rows.old
				key := func() string { return fmt.Sprintf("%03d", rng.IntN(300)) }
				var err error
				switch kind := rng.IntN(20); {
				case kind < 15:
					var writes []state.Write
					for range 1 + rng.IntN(8) {
						w := state.Write{Store: store, Key: []byte(key()), Delete: rng.IntN(8) == 0}
						delete(model, string(w.Key))
						if !w.Delete {
							w.Value = fmt.Appendf(nil, "%d %s", round, strings.Repeat("v", rng.IntN(600)))
							model[string(w.Key)] = string(w.Value)
						}
						writes = append(writes, w)
					}
					err = d.Apply(at(next), at(next+1), slices.Values(writes))
					next++
				case kind < 16:
					from := key()
					to := from + "~"
					maps.DeleteFunc(model, func(k, _ string) bool { return k >= from[:2] && k < to })
					err = d.Remove(at(next), at(next+1), store, state.Range{From: []byte(from[:2]), To: []byte(to)})
					next++
				case kind < 17:
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
				for range 40 {
					read(key())
				}
				if d.rows.old != old {
					turns++
				}
				known += d.rows.hits
			}
			for n := range 300 {
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

// TestRowsShowWholeRounds: a reader that saw a round at one key sees it, or a later one, at every other, whether a row is kept or not.
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
	if d.rows.young == nil {
		t.Error("no row was kept: this was not about rows")
	}
	closeForTest(t, d)
}

// TestRowsOfTooManyKeysRest: where hardly any row is asked for again, none are kept for a while.
func TestRowsOfTooManyKeysRest(t *testing.T) {
	shared := NewShared(BudgetMin, 100)
	defer shared.Close()
	store := state.IDOf("s")
	d := openForTest(t, Options{FS: vfs.NewMem(), Shared: shared})
	const keys = 20_000
	applyKeys(t, d, store, 0, 0, keys)
	if err := d.Flush(); err != nil {
		t.Fatal(err)
	}
	mustHave(t, d, store, 0, keys)
	if d.rows.rest == 0 || d.rows.young != nil && len(d.rows.young.entries) > keys/4 {
		t.Errorf("rows go on keeping what nobody asks for again: %d to rest", d.rows.rest)
	}
	d.rows.rest = 0
	for range 20 {
		mustHave(t, d, store, 0, 50)
	}
	if d.rows.hits < 900 {
		t.Errorf("%d of 950 lookups found a row", d.rows.hits)
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
	if d.rows.young != nil {
		t.Error("it is kept")
	}
	closeForTest(t, d)
}
