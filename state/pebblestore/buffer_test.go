package pebblestore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/onceward/onceward/state"
)

// inPebble returns the value of a key of store "s" below the buffer.
func inPebble(t *testing.T, d *database, key string) (value string, ok bool) {
	t.Helper()
	v, ok, err := getRaw(d.db, appendDataKey(nil, state.IDOf("s"), []byte(key)))
	if err != nil {
		t.Fatal(err)
	}
	return string(v), ok
}

func applyTo(t *testing.T, db state.Database, from int64, keysAndValues ...string) {
	t.Helper()
	var writes []state.Write
	for i := 0; i < len(keysAndValues); i += 2 {
		writes = append(writes, state.Write{Store: state.IDOf("s"), Key: []byte(keysAndValues[i]), Value: []byte(keysAndValues[i+1])})
	}
	if err := db.Apply(at(from), at(from+1), slices.Values(writes)); err != nil {
		t.Fatal(err)
	}
}

// TestRoundsWaitInTheBuffer until something has to see all of them, or writes past them.
func TestRoundsWaitInTheBuffer(t *testing.T) {
	id := state.IDOf("s")
	scan := func(r state.Reader) error {
		for _, err := range r.Scan(id, state.Range{}) {
			return err
		}
		return nil
	}
	drains := map[string]func(db *database) error{
		"a flush": func(db *database) error { return db.Flush() },
		"a scan":  func(db *database) error { return scan(db) },
		"a view": func(db *database) error {
			v, err := db.View()
			return errors.Join(err, v.Close())
		},
		"a declaration": func(db *database) error { return db.Declare(state.KeyValues("x")...) },
		"a removal":     func(db *database) error { return db.Remove(at(2), at(3), id, state.Range{From: []byte("x")}) },
		"a load":        func(db *database) error { return db.Load(at(2), at(3), id, ascending(3, "v")) },
	}
	for name, drain := range drains {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewCrashableMem()
			db := openForTest(t, Options{FS: fs, FlushInterval: time.Hour})
			applyTo(t, db, 0, "a", "1", "b", "1")
			applyTo(t, db, 1, "a", "2")
			if v, ok := inPebble(t, db, "a"); ok {
				t.Errorf("%q went into Pebble", v)
			}
			v, ok, err := db.Get(id, []byte("a"))
			if string(v) != "2" || !ok || err != nil {
				t.Errorf("get: %q, %t, %v", v, ok, err)
			}
			if err := drain(db); err != nil {
				t.Fatal(err)
			}
			if v, _ := inPebble(t, db, "a"); v != "2" {
				t.Errorf("%q is in Pebble", v)
			}
			// What a batch of another kind says about positions holds for the data below it.
			if err := db.db.Flush(); err != nil {
				t.Fatal(err)
			}
			left := openForTest(t, Options{FS: fs.CrashClone(vfs.CrashCloneCfg{})})
			v, ok, err = left.Get(id, []byte("a"))
			if string(v) != "2" || !ok || err != nil || !left.Positions().Equal(db.Positions()) {
				t.Errorf("after a crash: %q, %t, %v at %v", v, ok, err, left.Positions())
			}
			if err := errors.Join(left.Close(), db.Close()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestHotKeysStayInTheBuffer: rounds over the same keys take no more memory and cause no flush
// before its time.
func TestHotKeysStayInTheBuffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewCrashableMem()
		db := openForTest(t, Options{FS: fs, FlushBytes: 10_000, FlushInterval: time.Minute})
		for n := range int64(200) {
			applyTo(t, db, n, "a", fmt.Sprintf("%0500d", n), "b", fmt.Sprint(n))
		}
		synctest.Wait()
		if p := durable(t, fs); !p.Equal(at(0)) {
			t.Errorf("200 rounds over two keys were flushed up to %v", p)
		}
		if m, _ := MetricsOf(db); m.BufferBytes > 1000 {
			t.Errorf("they take %d bytes", m.BufferBytes)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if p := durable(t, fs); !p.Equal(at(200)) {
			t.Errorf("after the interval durable is %v", p)
		}
		if v, ok := inPebble(t, db, "b"); v != "199" || !ok {
			t.Errorf("%q went down", v)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestRoundsPastTheBuffer: after a scan, and when a round is large.
func TestRoundsPastTheBuffer(t *testing.T) {
	db := openForTest(t, Options{FS: vfs.NewMem(), FlushBytes: 10_000, FlushInterval: time.Hour})
	for range db.Scan(state.IDOf("s"), state.Range{}) {
	}
	n := int64(0)
	for ; n < directApplies; n++ {
		applyTo(t, db, n, "a", fmt.Sprint(n))
		if v, _ := inPebble(t, db, "a"); v != fmt.Sprint(n) {
			t.Fatalf("round %d after a scan: %q is in Pebble", n+1, v)
		}
	}
	applyTo(t, db, n, "a", "buffered", "b", "buffered")
	if v, _ := inPebble(t, db, "a"); v == "buffered" {
		t.Error("the rounds after it still go past the buffer")
	}
	large := strings.Repeat("x", 6000)
	applyTo(t, db, n+1, "a", large)
	if v, _ := inPebble(t, db, "a"); v != large {
		t.Error("a large round was buffered")
	}
	if v, _ := inPebble(t, db, "b"); v != "buffered" {
		t.Error("a large round overtook the buffer")
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// TestHeavyRoundsOfNewKeysPassTheBuffer once a buffer was full of keys that were written once,
// until it is time to look again. Light rounds do not.
func TestHeavyRoundsOfNewKeysPassTheBuffer(t *testing.T) {
	db := openForTest(t, Options{FS: vfs.NewMem(), FlushBytes: 32_000, FlushInterval: time.Hour})
	n := int64(0)
	apply := func(keys, size int) (buffered bool) {
		t.Helper()
		var writes []string
		for i := range keys {
			writes = append(writes, fmt.Sprint(n, " ", i), strings.Repeat("x", size))
		}
		applyTo(t, db, n, writes...)
		n++
		_, ok := inPebble(t, db, writes[0])
		return !ok
	}
	for i := range 4 { // below FlushBytes: nothing goes down by itself
		if !apply(40, 100) {
			t.Fatalf("round %d passed the buffer before anything was known", i)
		}
	}
	if err := db.Flush(); err != nil {
		t.Fatal(err)
	}
	passed := 0
	for !apply(40, 100) {
		if passed++; passed > 1000 {
			t.Fatal("the buffer is never tried again")
		}
		if passed == 5 && !apply(1, 10) {
			t.Error("a light round passed the buffer")
		}
	}
	if bytes := passed * 40 * 110; bytes < fruitlessFactor*32_000/2 || bytes > fruitlessFactor*32_000*2 {
		t.Errorf("%d heavy rounds passed the buffer", passed)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// TestBufferAgainstAMap fills a buffer at random, with values that grow and shrink.
func TestBufferAgainstAMap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	c := newCommitted(nil)
	want := make(map[string]*string)
	for range 50_000 {
		var key [4]byte
		binary.BigEndian.PutUint32(key[:], rng.Uint32N(9000))
		k := key[:rng.IntN(5)]
		if rng.IntN(4) == 0 {
			c.active.put(hashOf(k), k, nil, true)
			want[string(k)] = nil
			continue
		}
		value := strings.Repeat(string(rune('a'+rng.IntN(26))), rng.IntN(40))
		c.active.put(hashOf(k), k, []byte(value), false)
		want[string(k)] = &value
	}
	if len(want) != len(c.active.entries) {
		t.Errorf("%d entries, want %d", len(c.active.entries), len(want))
	}
	for key, value := range want {
		got, ok, known := c.get(hashOf([]byte(key)), []byte(key))
		if !known || ok != (value != nil) || value != nil && string(got) != *value {
			t.Fatalf("%x: got %q, %t, %t", key, got, ok, known)
		}
		if ok && got == nil {
			t.Fatalf("%x: a present key has a nil value", key)
		}
	}
	if _, _, known := c.get(hashOf([]byte("absent key")), []byte("absent key")); known {
		t.Error("a key is known that was never written")
	}
}

// TestAGetSeesWholeRounds: a reader that saw a round at one key sees it, or a later one, at every
// key of it.
func TestAGetSeesWholeRounds(t *testing.T) {
	db := openForTest(t, Options{FS: vfs.NewMem(), FlushBytes: 20_000})
	const rounds = 400
	id := state.IDOf("s")
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		wg.Go(func() {
			read := func(key string) int {
				v, ok, err := db.Get(id, []byte(key))
				if err != nil {
					t.Error(err)
				}
				n := 0
				if ok {
					if _, err := fmt.Sscan(string(v), &n); err != nil {
						t.Error(err)
					}
				}
				return n
			}
			for {
				select {
				case <-stop:
					return
				default:
				}
				if last, first := read("z"), read("a"); first < last {
					t.Errorf("round %d at one key, then %d at another", last, first)
					return
				}
				if first, last := read("a"), read("z"); last < first {
					t.Errorf("round %d at one key, then %d at another", first, last)
					return
				}
			}
		})
	}
	for n := range int64(rounds) {
		v := fmt.Sprint(n + 1)
		writes := []string{"a", v}
		for i := range 20 {
			writes = append(writes, fmt.Sprint(n, " ", i), v)
		}
		applyTo(t, db, n, append(writes, "z", v)...)
	}
	close(stop)
	wg.Wait()
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// TestABatchOfAnotherKindIsNoRound: the buffer knows sets and deletes, and stops at everything
// else.
func TestABatchOfAnotherKindIsNoRound(t *testing.T) {
	db := openForTest(t, Options{FS: vfs.NewMem()})
	b := db.db.NewBatch()
	defer releaseBatch(b)
	if err := b.DeleteRange([]byte("a"), []byte("b"), nil); err != nil {
		t.Fatal(err)
	}
	next := at(1)
	if err := db.put("apply", b, &next); !errors.Is(err, state.ErrFailed) {
		t.Errorf("got %v, want ErrFailed", err)
	}
	if err := db.Close(); !errors.Is(err, state.ErrFailed) {
		t.Errorf("close: %v", err)
	}
}

// TestARoundThatPebbleRefuses: a round that was applied waits above Pebble. If Pebble does not take
// it, for whatever reason, the database has to stop, even where nothing is wrong with the disk: the
// next round would take the place of the one that waits. A database that was opened to read refuses
// like that.
func TestARoundThatPebbleRefuses(t *testing.T) {
	fs := vfs.NewMem()
	db := openForTest(t, Options{FS: fs})
	applyTo(t, db, 0, "a", "1")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	reader, err := OpenReadOnly("task", Options{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	refusing := reader.(*readOnly).d
	AlwaysBuffer(refusing)
	applyTo(t, refusing, 1, "a", "2")
	id := state.IDOf("s")
	scan := func() error {
		for _, err := range refusing.Scan(id, state.Range{}) {
			return err
		}
		return nil
	}
	if err := scan(); !errors.Is(err, state.ErrFailed) {
		t.Errorf("the scan that brings it down: got %v, want ErrFailed", err)
	}
	_, _, getErr := refusing.Get(id, []byte("a"))
	for op, err := range map[string]error{
		"scan": scan(), "get": getErr, "flush": refusing.Flush(),
		"apply": refusing.Apply(at(2), at(3), slices.Values([]state.Write{})),
	} {
		if !errors.Is(err, state.ErrFailed) {
			t.Errorf("%s afterwards: got %v, want ErrFailed", op, err)
		}
	}
	if err := reader.Close(); err != nil {
		t.Error(err)
	}
}
