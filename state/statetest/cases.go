package statetest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/onceward/onceward/state"
)

func testEmpty(t *testing.T, db state.Database) {
	mustHold(t, db, stores{})
	if p := db.Positions(); !p.Equal(state.Positions{}) {
		t.Errorf("positions are %v", p)
	}
	if names, err := db.Stores(); err != nil || len(names) != 0 {
		t.Errorf("stores are %q, %v", names, err)
	}
	if err := db.Flush(); err != nil {
		t.Errorf("flush: %v", err)
	}
}

func testLaterWrite(t *testing.T, db state.Database) {
	mustApply(t, db, 0, setTo("inbox", "a", "1"), setTo("inbox", "b", "1"), setTo("inbox", "a", "2"),
		deleteOf("inbox", "b"), deleteOf("inbox", "c"), setTo("inbox", "c", "3"))
	mustHold(t, db, stores{"inbox": {"a": "2", "c": "3"}})
	mustApply(t, db, 1, deleteOf("inbox", "a"), deleteOf("inbox", "never"))
	mustHold(t, db, stores{"inbox": {"c": "3"}})
}

// testBatchCopies reuses one key and one value buffer for all writes, as a restore does.
func testBatchCopies(t *testing.T, db state.Database) {
	key, value := make([]byte, 1), make([]byte, 1)
	want := content{}
	err := db.Apply(at(0), at(1), func(yield func(state.Write) bool) {
		for i := range byte(10) {
			key[0], value[0] = 'a'+i, '0'+i
			want[string(key)] = string(value)
			if !yield(state.Write{Store: state.IDOf("inbox"), Key: key, Value: value}) {
				return
			}
		}
		key[0], value[0] = 0, 0
	})
	if err != nil {
		t.Fatal(err)
	}
	mustHold(t, db, stores{"inbox": want})
}

func testEmptyValue(t *testing.T, db state.Database) {
	mustApply(t, db, 0, setTo("inbox", "", ""), setTo("inbox", "a", ""),
		state.Write{Store: state.IDOf("zero"), Key: nil, Value: nil})
	mustHold(t, db, stores{"inbox": {"": "", "a": ""}, "zero": {"": ""}})
	mustApply(t, db, 1, deleteOf("inbox", ""))
	mustHold(t, db, stores{"inbox": {"a": ""}, "zero": {"": ""}})
}

func testFreshCopies(t *testing.T, db state.Database) {
	want := stores{"inbox": {"a": "value", "b": "other"}}
	mustApply(t, db, 0, setTo("inbox", "a", "value"), setTo("inbox", "b", "other"))
	value, _, err := db.Get(state.IDOf("inbox"), []byte("a"))
	if err != nil {
		t.Fatal(err)
	}
	clear(value)
	var kept []state.Entry
	for e, err := range db.Scan(state.IDOf("inbox"), state.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, e)
	}
	if string(kept[0].Key) != "a" || string(kept[0].Value) != "value" || string(kept[1].Key) != "b" {
		t.Errorf("entries changed behind the scan: %q", kept)
	}
	for _, e := range kept {
		clear(e.Key)
		clear(e.Value)
	}
	p := db.Positions()
	p.Inputs[0].Offset = 99
	if !db.Positions().Equal(at(1)) {
		t.Error("a change of the result of Positions changed the database")
	}
	mustHold(t, db, want)
}

func testInvalidPositions(t *testing.T, db state.Database) {
	for _, p := range []state.Positions{
		{Inputs: []state.Input{{Topic: "b"}, {Topic: "a"}}},
		{Inputs: []state.Input{{Topic: "a", Offset: -1}}},
		{Changelogs: []state.Changelog{{Store: ""}}},
	} {
		if err := db.Apply(at(0), p, slices.Values([]state.Write{setTo("inbox", "a", "1")})); err == nil {
			t.Errorf("%v were taken", p)
		}
	}
	mustHold(t, db, stores{})
	if !db.Positions().Equal(at(0)) {
		t.Errorf("positions are %v", db.Positions())
	}
}

func testBase(t *testing.T, db state.Database) {
	mustApply(t, db, 0, setTo("inbox", "a", "1"))
	for _, base := range []state.Positions{at(0), at(2)} {
		err := db.Apply(base, at(3), slices.Values([]state.Write{setTo("inbox", "a", "2")}))
		var typed *state.BaseError
		if !errors.Is(err, state.ErrBase) || !errors.As(err, &typed) {
			t.Fatalf("at base %v: got %v, want ErrBase", base, err)
		}
		if !typed.Base.Equal(base) || !typed.Actual.Equal(at(1)) {
			t.Errorf("the error says %v and %v", typed.Base, typed.Actual)
		}
	}
	mustHold(t, db, stores{"inbox": {"a": "1"}})
	// The refusals left the database usable, and a batch without writes moves the positions.
	mustApply(t, db, 1)
	if !db.Positions().Equal(at(2)) {
		t.Errorf("positions are %v", db.Positions())
	}
}

func testStoresApart(t *testing.T, db state.Database) {
	want := stores{}
	var writes []state.Write
	for _, name := range storeNames {
		for _, key := range keys {
			writes = append(writes, setTo(name, key, name+key))
			want.store(name)[key] = name + key
		}
	}
	mustApply(t, db, 0, writes...)
	mustHold(t, db, want)
	// The ids at both ends of the number space have a successor or none.
	mustApply(t, db, 1, state.Write{Store: 0, Key: []byte("a"), Value: []byte("first")},
		state.Write{Store: 1<<32 - 1, Key: []byte("\xff\xff"), Value: []byte("last")})
	mustHold(t, db, want)
	for id, value := range map[state.StoreID]string{0: "first", 1<<32 - 1: "last"} {
		got, err := collect(db.Scan(id, state.Range{}), nil)
		if err != nil || len(got) != 1 || got[0].value != value {
			t.Errorf("store %08x holds %q, %v", id, got, err)
		}
	}
}

// testRanges compares every pair of bounds in both directions.
func testRanges(t *testing.T, db state.Database) {
	c := content{}
	var writes []state.Write
	for _, key := range keys {
		writes = append(writes, setTo("inbox", key, key))
		c[key] = key
	}
	mustApply(t, db, 0, append(writes, setTo("balances", "b", "other"), setTo("windows", "b", "other"))...)
	bounds := [][]byte{nil, []byte("aa"), []byte("\xff\xff\xff")}
	for _, key := range keys {
		bounds = append(bounds, []byte(key))
	}
	for _, from := range bounds {
		for _, to := range bounds {
			for _, reverse := range []bool{false, true} {
				r := state.Range{From: from, To: to, Reverse: reverse}
				got, err := collect(db.Scan(state.IDOf("inbox"), r), nil)
				if err != nil {
					t.Fatal(err)
				}
				if diff := diffEntries(got, c.in(r)); diff != "" {
					t.Errorf("%s: %s", rangeString(r), diff)
				}
			}
		}
	}
}

func testDeclare(t *testing.T, db state.Database) {
	for range 2 {
		if err := db.Declare(state.KeyValues("b", "a")...); err != nil {
			t.Fatal(err)
		}
	}
	// Two words with one FNV-1a hash.
	if state.IDOf("costarring") != state.IDOf("liquid") {
		t.Fatal("the collision of the test is none")
	}
	if err := db.Declare(state.KeyValues("costarring")...); err != nil {
		t.Fatal(err)
	}
	if err := db.Declare(state.KeyValues("c", "liquid")...); !errors.Is(err, state.ErrStoreID) {
		t.Errorf("a colliding name: got %v, want ErrStoreID", err)
	}
	if err := db.Declare(state.KeyValues("declinate", "macallums")...); !errors.Is(err, state.ErrStoreID) {
		t.Errorf("two names with one id in one call: got %v, want ErrStoreID", err)
	}
	for _, no := range []state.Declaration{{}, {Name: "a\x00b"}, {Name: "v", Layout: state.Layout{Kind: state.VersionedKind}}, {Name: "k", Layout: state.Layout{Kind: 99}}} {
		if err := db.Declare(state.Declaration{Name: "not alone"}, no); err == nil {
			t.Errorf("the store %q with %s rows was declared", no.Name, no.Layout)
		}
	}
	windows := state.Declaration{Name: "w", Layout: state.Layout{Kind: state.WindowKind, Retention: 1000}}
	if err := db.Declare(windows); err != nil {
		t.Fatal(err)
	}
	mustApply(t, db, 0, setTo("w", "row", "value"))
	for _, other := range []state.Layout{{}, {Kind: state.SessionKind, Retention: 1000}, {Kind: state.WindowKind, Retention: 1001}} {
		if err := db.Declare(state.Declaration{Name: "w", Layout: other}); !errors.Is(err, state.ErrLayout) {
			t.Errorf("layout %s instead of %s: got %v, want ErrLayout", other, windows.Layout, err)
		}
	}
	stores, err := db.Stores()
	if err != nil || !slices.Equal(stores, append(state.KeyValues("a", "b", "costarring"), windows)) {
		t.Errorf("stores are %v, %v", stores, err)
	}
	if _, err := state.NewTask(db, state.KeyValues("liquid")); !errors.Is(err, state.ErrStoreID) {
		t.Errorf("a task with the colliding name: got %v, want ErrStoreID", err)
	}
	if !db.Positions().Equal(at(1)) {
		t.Errorf("declaring moved the positions to %v", db.Positions())
	}
	if err := db.Remove(at(1), at(2), state.IDOf("w"), state.Range{}); err != nil {
		t.Fatal(err)
	}
	sessions := state.Declaration{Name: "w", Layout: state.Layout{Kind: state.SessionKind, Retention: 1000}}
	for _, both := range [][]state.Declaration{{sessions, windows}, {windows, sessions}} {
		if err := db.Declare(both...); !errors.Is(err, state.ErrLayout) {
			t.Errorf("two layouts for one name in one call: got %v, want ErrLayout", err)
		}
	}
	if err := db.Declare(sessions); err != nil {
		t.Errorf("another layout for a store without rows: %v", err)
	}
	if stores, err := db.Stores(); err != nil || !slices.Contains(stores, sessions) || slices.Contains(stores, windows) {
		t.Errorf("stores are %v, %v", stores, err)
	}
}

func testView(t *testing.T, db state.Database) {
	mustApply(t, db, 0, setTo("inbox", "a", "1"), setTo("inbox", "b", "1"))
	v, err := db.View()
	if err != nil {
		t.Fatal(err)
	}
	mustApply(t, db, 1, setTo("inbox", "a", "2"), deleteOf("inbox", "b"), setTo("inbox", "c", "2"))
	if err := db.Flush(); err != nil {
		t.Fatal(err)
	}
	mustHold(t, v, stores{"inbox": {"a": "1", "b": "1"}})
	if !v.Positions().Equal(at(1)) {
		t.Errorf("the view is at %v", v.Positions())
	}
	mustHold(t, db, stores{"inbox": {"a": "2", "c": "2"}})
	for range 2 {
		if err := v.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := v.Get(state.IDOf("inbox"), []byte("a")); !errors.Is(err, state.ErrClosed) {
		t.Errorf("get from a closed view: got %v, want ErrClosed", err)
	}
	if _, err := collect(v.Scan(state.IDOf("inbox"), state.Range{}), nil); !errors.Is(err, state.ErrClosed) {
		t.Errorf("scan of a closed view: got %v, want ErrClosed", err)
	}
}

func testClosed(t *testing.T, db state.Database) {
	mustApply(t, db, 0, setTo("inbox", "a", "1"), setTo("inbox", "b", "1"), setTo("inbox", "c", "1"))
	v, err := db.View()
	if err != nil {
		t.Fatal(err)
	}
	inbox := state.IDOf("inbox")
	for _, scan := range []state.Reader{db, v} {
		n := 0
		for _, err = range scan.Scan(inbox, state.Range{}) {
			if n == 0 {
				if err := db.Close(); err != nil {
					t.Fatalf("close within a scan: %v", err)
				}
			}
			n++
		}
		if !errors.Is(err, state.ErrClosed) {
			t.Errorf("a scan whose database was closed ended with %v after %d entries", err, n)
		}
	}
	_, _, getErr := db.Get(inbox, []byte("a"))
	_, scanErr := collect(db.Scan(inbox, state.Range{}), nil)
	_, viewErr := db.View()
	_, storesErr := db.Stores()
	for op, err := range map[string]error{
		"get": getErr, "scan": scanErr, "view": viewErr, "stores": storesErr, "flush": db.Flush(),
		"declare": db.Declare(state.KeyValues("x")...), "apply": db.Apply(at(1), at(2), slices.Values([]state.Write{})),
		"remove": db.Remove(at(1), at(2), inbox, state.Range{}),
		"load":   db.Load(at(1), at(2), inbox, slices.Values([]state.Write{})),
	} {
		if !errors.Is(err, state.ErrClosed) {
			t.Errorf("%s after close: got %v, want ErrClosed", op, err)
		}
	}
	if err := errors.Join(db.Close(), v.Close()); err != nil {
		t.Errorf("closing again: %v", err)
	}
	if !db.Positions().Equal(at(1)) {
		t.Errorf("positions after close are %v", db.Positions())
	}
}

func testScanSnapshot(t *testing.T, db state.Database) {
	var writes []state.Write
	for i := range 500 {
		writes = append(writes, setTo("inbox", fmt.Sprintf("%03d", i), "old"))
	}
	mustApply(t, db, 0, writes...)
	n := 0
	for e, err := range db.Scan(state.IDOf("inbox"), state.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			for i := range writes {
				writes[i].Value = []byte("new")
			}
			later := append(writes[:250], deleteOf("inbox", "499"), setTo("inbox", "zzz", "new"))
			mustApply(t, db, 1, later...)
		}
		if !bytes.Equal(e.Value, []byte("old")) {
			t.Fatalf("the scan saw the later batch at %q", e.Key)
		}
		n++
	}
	if n != 500 {
		t.Errorf("the scan saw %d entries, want 500", n)
	}
}
