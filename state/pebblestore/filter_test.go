package pebblestore

import (
	"encoding/binary"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/onceward/onceward/state"
)

// numbered returns a key.
func numbered(n int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

// TestFilterKnowsItsKeysAndFewOthers: no key of a filter is ever said to be absent, and nearly
// every other key is, at filterBits for each.
func TestFilterKnowsItsKeysAndFewOthers(t *testing.T) {
	if RaceDetector {
		t.Skip("adds 300,000 keys, in one goroutine")
	}
	f := &keyFilter{}
	const keys = 300_000
	for n := range keys {
		if !f.add(hashOf(numbered(n))) {
			t.Fatalf("full after %d keys", n)
		}
	}
	wrong := 0
	for n := range keys {
		if !f.mayHave(hashOf(numbered(n))) {
			t.Fatalf("key %d is gone", n)
		}
		if f.mayHave(hashOf(numbered(keys + n))) {
			wrong++
		}
	}
	if wrong > keys/100 {
		t.Errorf("%d of %d other keys may be there", wrong, keys)
	}
	bits := 0
	for _, part := range *f.parts.Load() {
		bits += 512 * len(part.blocks)
	}
	if bits > (partFactor+1)*filterBits*keys {
		t.Errorf("%d bits for %d keys", bits, keys)
	}
}

// TestFiltersOfStoresThatGrowAlike: none takes what the others need, and where there is no memory
// for a part the last one is crowded before a filter is given up. At the end of its room each still
// knows most keys that are not there.
func TestFiltersOfStoresThatGrowAlike(t *testing.T) {
	if RaceDetector {
		t.Skip("adds millions of keys, in one goroutine")
	}
	const filters, budget = 8, 16 << 20
	shared := NewShared(budget, 100)
	defer shared.Close()
	all := make([]*keyFilter, filters)
	for i := range all {
		all[i] = &keyFilter{memory: reservation{shared: shared, use: &shared.filters}}
	}
	const enough = budget / filterShare * 8 / filterBits / filters // each of them has its part of the memory
	for n := range enough {
		for i, f := range all {
			if !f.add(hashOf(numbered(n))) {
				t.Fatalf("filter %d is full after %d keys, and %d are its part", i, n, enough)
			}
		}
	}
	if got := shared.filters.Load(); got > budget/filterShare {
		t.Errorf("filters take %d bytes of %d", got, budget/filterShare)
	}
	for i, f := range all {
		wrong, asked := 0, 20_000
		for n := range asked {
			if f.mayHave(hashOf(numbered(1_000_000 + n))) {
				wrong++
			}
		}
		if wrong > asked/8 {
			t.Errorf("filter %d: %d of %d other keys may be there", i, wrong, asked)
		}
		f.end()
	}
}

// awaitFilter looks up keys that are not there until the store has a filter.
func awaitFilter(t *testing.T, d *database, store state.StoreID) *keyFilter {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		expectAbsent(t, d, store)
		if f := d.habits.of(store).filter.Load(); f != nil && f.ready.Load() {
			return f
		}
	}
	t.Fatal("there is no filter")
	return nil
}

// applyKeys applies a round that writes the keys from one number on to another.
func applyKeys(t *testing.T, d *database, store state.StoreID, round int64, from, to int) {
	t.Helper()
	writes := make([]state.Write, 0, to-from)
	for n := from; n < to; n++ {
		writes = append(writes, state.Write{Store: store, Key: numbered(n), Value: numbered(n)})
	}
	if err := d.Apply(at(round), at(round+1), slices.Values(writes)); err != nil {
		t.Error(err)
	}
}

// mustHave looks up the keys from one number on to another; a few of many under the race detector,
// where Pebble notes the stack of each lookup.
func mustHave(t *testing.T, d *database, store state.StoreID, from, to int) {
	t.Helper()
	step := 1
	if RaceDetector {
		step = 1 + (to-from)/5000
	}
	for n := from; n < to; n += step {
		if _, found, err := d.Get(store, numbered(n)); !found || err != nil {
			t.Fatalf("key %d: %t, %v", n, found, err)
		}
	}
}

// TestFilterOfADatabaseThatIsOpenedAgain: what was in it before is in the filter, and so is what is
// applied while it is made.
func TestFilterOfADatabaseThatIsOpenedAgain(t *testing.T) {
	fs, store := vfs.NewMem(), state.IDOf("ids")
	d := openForTest(t, Options{FS: fs})
	const before, each = 100_000, 100
	applyKeys(t, d, store, 0, 0, before)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = openForTest(t, Options{FS: fs})
	next, round := before, int64(1)
	var filter *keyFilter
	for rounds := 0; rounds < 10 || filter == nil || !filter.ready.Load(); rounds++ {
		expectAbsent(t, d, store)
		applyKeys(t, d, store, round, next, next+each)
		mustHave(t, d, store, next, next+each)
		next, round = next+each, round+1
		filter = d.habits.of(store).filter.Load()
		if t.Failed() || rounds == 1_000_000 {
			t.Fatal("there is no filter")
		}
	}
	mustHave(t, d, store, 0, next)
	if got := filter.keys; got < int64(next)*95/100 {
		t.Errorf("the filter has %d of %d keys", got, next)
	}
	if filter.mayHave(hashOf([]byte("s nothing like it"))) && filter.mayHave(hashOf([]byte("s nor this"))) && filter.mayHave(hashOf([]byte("s nor that"))) {
		t.Error("the filter says of everything that it may be there")
	}
	closeForTest(t, d)
}

// TestLookupsNeedTheFilterComplete is the control of the tests here: a filter that was made from an
// iterator older than its beginning loses a key.
func TestLookupsNeedTheFilterComplete(t *testing.T) {
	store := state.IDOf("ids")
	d := openForTest(t, Options{FS: vfs.NewMem()})
	f := &keyFilter{}
	for n := range 10 {
		f.add(hashOf(appendDataKey(nil, store, numbered(n))))
	}
	applyKeys(t, d, store, 0, 0, 100)
	expectAbsent(t, d, store)
	f.ready.Store(true)
	d.habits.of(store).filter.Store(f)
	lost := 0
	for n := range 100 {
		if _, found, err := d.Get(store, numbered(n)); err != nil {
			t.Fatal(err)
		} else if !found {
			lost++
		}
	}
	if lost < 80 {
		t.Errorf("%d of 90 keys are lost: nothing asks the filter", lost)
	}
	closeForTest(t, d)
}

// TestFilterFollowsEveryWayIn: rounds, heavy ones, removals and loads, with lookups from other
// goroutines meanwhile.
func TestFilterFollowsEveryWayIn(t *testing.T) {
	store := state.IDOf("ids")
	d := openForTest(t, Options{FS: vfs.NewMem(), FlushBytes: 64 << 10})
	awaitFilter(t, d, store)
	var readers sync.WaitGroup
	done := make(chan struct{})
	for range 2 {
		readers.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-done:
					return
				default:
				}
				if _, _, err := d.Get(store, numbered(n%4000)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	next, rounds := 0, int64(60)
	if RaceDetector {
		rounds = 20 // of every kind
	}
	for round := range rounds {
		count := 10
		if round%3 == 0 {
			count = 3000 // heavy
		}
		if round%5 == 4 {
			var writes []state.Write
			for n := next; n < next+count; n++ {
				writes = append(writes, state.Write{Store: store, Key: numbered(n), Value: numbered(n)})
			}
			if err := d.Load(at(round), at(round+1), store, slices.Values(writes)); err != nil {
				t.Fatal(err)
			}
		} else {
			applyKeys(t, d, store, round, next, next+count)
		}
		mustHave(t, d, store, next, next+count)
		next += count
	}
	mustHave(t, d, store, 0, next)
	close(done)
	readers.Wait()
	closeForTest(t, d)
}

// TestFilterGivesWay: a filter that has outgrown its share of the memory is given up with all of
// it, lookups are right without it, and the next attempt comes when lookups have paid for it.
func TestFilterGivesWay(t *testing.T) {
	shared := NewShared(BudgetMin, 100)
	defer shared.Close()
	store := state.IDOf("ids")
	d := openForTest(t, Options{FS: vfs.NewMem(), Shared: shared})
	filter := awaitFilter(t, d, store)
	if shared.Spent().Kept == 0 {
		t.Error("the memory of the filter is not counted")
	}
	next, round := 0, int64(0)
	for ; d.habits.of(store).filter.Load() != nil; round++ {
		applyKeys(t, d, store, round, next, next+5000)
		next += 5000
		if next > 2_000_000 {
			t.Fatal("the filter never gives way")
		}
	}
	if kept := shared.filters.Load(); filter.memory.bytes != 0 || kept != 0 {
		t.Errorf("%d bytes are kept for a filter that is none", kept)
	}
	mustHave(t, d, store, 0, next)
	expectAbsent(t, d, store)
	if h := d.habits.of(store); h.filter.Load() != nil || h.filling.Load() || h.rest.Load() < int64(next)/2 {
		t.Errorf("another one is made at once: %d lookups to go", h.rest.Load())
	}
	if err := d.Remove(at(round), at(round+1), store, state.Range{}); err != nil {
		t.Fatal(err)
	}
	d.habits.of(store).rest.Store(0)
	awaitFilter(t, d, store)
	closeForTest(t, d)
	if kept := shared.Spent().Kept; kept != 0 {
		t.Errorf("%d bytes are kept for a closed database", kept)
	}
}

// TestCloseEndsAFilling: a database can be closed while a filter is made, at any moment.
func TestCloseEndsAFilling(t *testing.T) {
	fs, store := vfs.NewMem(), state.IDOf("ids")
	d := openForTest(t, Options{FS: fs})
	applyKeys(t, d, store, 0, 0, 50_000)
	closeForTest(t, d)
	for range 20 {
		d := openForTest(t, Options{FS: fs})
		expectAbsent(t, d, store)
		closeForTest(t, d)
		if f := d.habits.of(store).filter.Load(); f != nil {
			t.Error("a closed database has a filter")
		}
		if _, _, err := d.Get(store, numbered(1)); err == nil {
			t.Error("a closed database answers")
		}
	}
}

func closeForTest(t *testing.T, d *database) {
	t.Helper()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestOneFilterForEachStore: one that is ready stays, whoever asked for another one before it was,
// and all memory is given back.
func TestOneFilterForEachStore(t *testing.T) {
	shared := NewShared(BudgetMin, 100)
	defer shared.Close()
	store := state.IDOf("ids")
	d := openForTest(t, Options{FS: vfs.NewMem(), Shared: shared})
	filter := awaitFilter(t, d, store)
	d.fill(store, d.habits.of(store))
	if d.habits.of(store).filter.Load() != filter {
		t.Error("it was replaced")
	}
	closeForTest(t, d)
	if kept := shared.Spent().Kept; kept != 0 {
		t.Errorf("%d bytes are kept for a closed database", kept)
	}
}

// TestFiltersAreMadeOneAtATime in a process: each reads a whole store through the cache of all.
func TestFiltersAreMadeOneAtATime(t *testing.T) {
	shared := NewShared(BudgetMin, 100)
	defer shared.Close()
	store := state.IDOf("ids")
	d := openForTest(t, Options{FS: vfs.NewMem(), Shared: shared})
	shared.filling.Store(true) // another database's
	for range 20 {
		expectAbsent(t, d, store)
	}
	if h := d.habits.of(store); h.filter.Load() != nil || h.filling.Load() {
		t.Error("a second one is made")
	}
	shared.filling.Store(false)
	awaitFilter(t, d, store)
	closeForTest(t, d)
}

// TestFilterThatNobodyAsksIsGivenUp: a store whose lookups come to find something does without its
// filter, and gives it up in the end; one whose lookups find nothing once in a while keeps it.
func TestFilterThatNobodyAsksIsGivenUp(t *testing.T) {
	var h habit
	f := &keyFilter{}
	f.add(1)
	f.ready.Store(true)
	h.filter.Store(f)
	look := func(found bool) bool {
		asked := h.filter.Load() != nil && h.asks(h.filter.Load())
		h.saw(found)
		return asked
	}
	for range habitShare * 4 {
		look(false)
	}
	if !look(false) {
		t.Fatal("lookups that find nothing do not ask the filter")
	}
	for range 3 {
		for range unaskedMin - 10 {
			look(true)
		}
		if look(true) || h.filter.Load() != f {
			t.Fatal("lookups that find something ask the filter, or have given it up too early")
		}
		for range habitShare * 4 {
			look(false)
		}
		if !look(false) {
			t.Fatal("lookups that find nothing again do not ask the filter again")
		}
	}
	for range 2 * unaskedMin {
		look(true)
	}
	if h.filter.Load() != nil || h.rest.Load() < f.keys {
		t.Errorf("a filter that was not asked for %d lookups is kept, or is made anew after %d", 2*unaskedMin, h.rest.Load())
	}
}
