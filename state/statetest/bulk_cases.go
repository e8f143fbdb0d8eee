package statetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/onceward/onceward/state"
)

func testRemove(t *testing.T, db state.Database) {
	n := int64(0)
	step := func(name string, r state.Range) {
		t.Helper()
		if err := db.Remove(at(n), at(n+1), state.IDOf(name), r); err != nil {
			t.Fatal(err)
		}
		n++
		if !db.Positions().Equal(at(n)) {
			t.Errorf("positions are %v, want %v", db.Positions(), at(n))
		}
	}
	want := stores{}
	var writes []state.Write
	for _, name := range []string{"inbox", "windows", "zero"} {
		for _, key := range keys {
			writes = append(writes, setTo(name, key, key))
			want.store(name)[key] = key
		}
	}
	mustApply(t, db, n, writes...)
	n++
	v, err := db.View()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	}()
	before := want.clone()
	for _, r := range []state.Range{
		{From: []byte("ab"), To: []byte("b")}, {From: []byte("b"), To: []byte("b")}, {From: []byte("c"), To: []byte("a")},
		{To: []byte{}}, {From: []byte("\xff"), Reverse: true}, {To: []byte("a")},
	} {
		step("inbox", r)
		want.remove("inbox", r)
		mustHold(t, db, want)
	}
	step("windows", state.Range{})
	want.remove("windows", state.Range{})
	step("balances", state.Range{}) // has nothing
	mustHold(t, db, want)
	// Later writes are not removed.
	mustApply(t, db, n, setTo("windows", "a", "again"))
	n++
	want.store("windows")["a"] = "again"
	mustHold(t, db, want)
	mustHold(t, v, before)
	if err := errors.Join(db.Flush(), db.Remove(at(n-1), at(n+1), state.IDOf("zero"), state.Range{})); !errors.Is(err, state.ErrBase) {
		t.Errorf("at another base: got %v, want ErrBase", err)
	}
	mustHold(t, db, want)
	mustHold(t, v, before)
}

func testLoad(t *testing.T, db state.Database) {
	mustApply(t, db, 0, setTo("inbox", "000001", "old"), setTo("inbox", "000002", "old"), setTo("inbox", "zzz", "old"),
		setTo("windows", "000001", "other"))
	v, err := db.View()
	if err != nil {
		t.Fatal(err)
	}
	const n = 5000
	want := stores{"inbox": {"zzz": "old"}, "windows": {"000001": "other"}}
	var batch []change
	for i := range n {
		c := change{store: "inbox", key: fmt.Sprintf("%06d", i)}
		if i%7 != 2 {
			value := strings.Repeat("x", i%40)
			c.value = &value
			want["inbox"][c.key] = value
		}
		batch = append(batch, c)
	}
	if err := db.Load(at(0), at(1), state.IDOf("inbox"), reusing(batch)); !errors.Is(err, state.ErrBase) {
		t.Fatalf("at another base: got %v, want ErrBase", err)
	}
	if err := db.Load(at(1), at(2), state.IDOf("inbox"), reusing(batch)); err != nil {
		t.Fatal(err)
	}
	if !db.Positions().Equal(at(2)) {
		t.Errorf("positions are %v", db.Positions())
	}
	mustHold(t, db, want)
	mustHold(t, v, stores{"inbox": {"000001": "old", "000002": "old", "zzz": "old"}, "windows": {"000001": "other"}})
	if !v.Positions().Equal(at(1)) {
		t.Errorf("the view is at %v", v.Positions())
	}
	if err := v.Close(); err != nil {
		t.Fatal(err)
	}
	// Batches and loads in turn, and a load of nothing.
	mustApply(t, db, 2, setTo("inbox", "000001", "newer"), deleteOf("inbox", "000003"))
	nothing := slices.Values([]state.Write{})
	if err := db.Load(at(3), at(4), state.IDOf("zero"), nothing); err != nil {
		t.Fatal(err)
	}
	want["inbox"]["000001"] = "newer"
	delete(want["inbox"], "000003")
	mustHold(t, db, want)
	if err := errors.Join(db.Flush(), db.Load(at(4), at(5), state.IDOf("inbox"), reusing(batch[:4]))); err != nil {
		t.Fatal(err)
	}
	for _, c := range batch[:4] {
		want.set(c.store, c.key, c.value)
	}
	mustHold(t, db, want)
}

func testLoadRefused(t *testing.T, db state.Database) {
	mustApply(t, db, 0, setTo("inbox", "a", "1"))
	id := state.IDOf("inbox")
	for name, writes := range map[string][]state.Write{
		"descending":    {setTo("inbox", "b", "2"), setTo("inbox", "a", "2")},
		"the same key":  {setTo("inbox", "secret", "2"), setTo("inbox", "secret", "3")},
		"an empty key":  {setTo("inbox", "", "2"), setTo("inbox", "", "3")},
		"another store": {setTo("inbox", "a", "2"), setTo("zero", "b", "2")},
	} {
		err := db.Load(at(1), at(2), id, slices.Values(writes))
		if err == nil || errors.Is(err, state.ErrBase) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v, want a refusal without keys", name, err)
		}
		if !db.Positions().Equal(at(1)) {
			t.Fatalf("%s: positions are %v", name, db.Positions())
		}
		mustHold(t, db, stores{"inbox": {"a": "1"}})
	}
	invalid := state.Positions{Inputs: []state.Input{{Topic: ""}}}
	if err := db.Load(at(1), invalid, id, slices.Values([]state.Write{setTo("inbox", "a", "2")})); err == nil {
		t.Error("positions that are not valid were taken")
	}
	if err := db.Remove(at(1), invalid, id, state.Range{}); err == nil {
		t.Error("remove took positions that are not valid")
	}
	// The refusals left the database usable.
	mustApply(t, db, 1, setTo("inbox", "b", "2"))
	mustHold(t, db, stores{"inbox": {"a": "1", "b": "2"}})
}
