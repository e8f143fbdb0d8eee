package state_test

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/memstore"
)

func newTask(t *testing.T, stores ...string) *state.Task {
	t.Helper()
	task, err := state.NewTask(memstore.New(), state.KeyValues(stores...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := task.Close(); err != nil {
			t.Error(err)
		}
	})
	return task
}

func at(n int64) state.Positions {
	if n == 0 {
		return state.Positions{}
	}
	return state.Positions{Inputs: []state.Input{{Topic: "in", Offset: n}}}
}

func mustPut(t *testing.T, b state.Bytes, key, value string) {
	t.Helper()
	if err := b.Put([]byte(key), []byte(value)); err != nil {
		t.Fatal(err)
	}
}

func mustGet(t *testing.T, b state.Bytes, key, want string) {
	t.Helper()
	got, ok, err := b.Get([]byte(key))
	if err != nil || ok != (want != "") || string(got) != want {
		t.Errorf("get %s: %q, %t, %v; want %q", key, got, ok, err, want)
	}
}

func TestNewTaskRefusesCollidingNames(t *testing.T) {
	for _, names := range [][]string{{"a", "b", "a"}, {"costarring", "liquid"}} {
		if _, err := state.NewTask(memstore.New(), state.KeyValues(names...)); !errors.Is(err, state.ErrStoreID) {
			t.Errorf("%q: got %v, want ErrStoreID", names, err)
		}
	}
}

func TestUndeclaredStoreRefusesEverything(t *testing.T) {
	b := newTask(t, "two", "one").Store("three")
	_, _, getErr := b.Get([]byte("k"))
	var scanErr error
	for _, scanErr = range b.Scan(state.Range{}) {
	}
	for op, err := range map[string]error{
		"get": getErr, "put": b.Put([]byte("k"), nil), "delete": b.Delete([]byte("k")), "scan": scanErr,
	} {
		if !errors.Is(err, state.ErrUnknownStore) ||
			!strings.Contains(err.Error(), `"three": declared are [one two]`) {
			t.Errorf("%s: got %v", op, err)
		}
	}
}

func TestRevertWithoutMarkKeepsEverything(t *testing.T) {
	task := newTask(t, "s")
	b := task.Store("s")
	mustPut(t, b, "a", "1")
	task.Revert()
	mustGet(t, b, "a", "1")
	task.Mark()
	mustPut(t, b, "a", "2")
	task.Freeze() // accepts the record
	task.Revert() // belongs to the new overlay, which has no mark
	mustGet(t, b, "a", "2")
}

// TestSavepointUndoesAPart: what was written since goes, rows and the stream time of a store alike;
// what was before stays until Revert.
func TestSavepointUndoesAPart(t *testing.T) {
	task := newTask(t, "s")
	b := task.Store("s")
	mustPut(t, b, "a", "0")
	for _, marked := range []bool{false, true} {
		if marked {
			task.Mark()
		}
		mustPut(t, b, "a", "1")
		b.Advance(10)
		undo := task.Savepoint()
		for range 2 {
			mustPut(t, b, "a", "2")
			mustPut(t, b, "b", "2")
			b.Advance(20)
			undo()
			mustGet(t, b, "a", "1")
			mustGet(t, b, "b", "")
			if b.StreamTime() != 10 {
				t.Errorf("the stream time is %d", b.StreamTime())
			}
		}
		mustPut(t, b, "a", "3")
		task.Revert()
		if !marked {
			mustGet(t, b, "a", "1") // the savepoint was a mark
			mustPut(t, b, "a", "0")
		}
	}
	mustGet(t, b, "a", "0")
}

func TestFrozenLayerDoesNotChange(t *testing.T) {
	task := newTask(t, "s")
	b := task.Store("s")
	mustPut(t, b, "b", "1")
	mustPut(t, b, "a", "1")
	mustPut(t, b, "b", "2")
	l := task.Freeze()
	mustPut(t, b, "b", "3")
	if err := b.Delete([]byte("a")); err != nil {
		t.Fatal(err)
	}
	var got []string
	for w := range l.Writes() {
		got = append(got, fmt.Sprintf("%s=%s", w.Key, w.Value))
	}
	if want := []string{"a=1", "b=2"}; !slices.Equal(got, want) {
		t.Errorf("the layer has %q, want %q", got, want)
	}
	if l.Len() != 2 || l.Bytes() == 0 {
		t.Errorf("length %d, bytes %d", l.Len(), l.Bytes())
	}
	mustGet(t, b, "a", "")
	mustGet(t, b, "b", "3")
}

func TestOpenBytesFollowsTheWrites(t *testing.T) {
	task := newTask(t, "s")
	b := task.Store("s")
	if n := task.OpenBytes(); n != 0 {
		t.Errorf("empty: %d", n)
	}
	mustPut(t, b, "k", strings.Repeat("v", 10_000))
	large := task.OpenBytes()
	if large < 10_000 || large > 10_500 {
		t.Errorf("one value of 10000 bytes: %d", large)
	}
	task.Mark()
	mustPut(t, b, "k", "v")
	mustPut(t, b, "l", strings.Repeat("v", 5000))
	if n := task.OpenBytes(); n < 5000 || n > 5500 {
		t.Errorf("one value of 5000 bytes: %d", n)
	}
	task.Revert()
	if n := task.OpenBytes(); n < large || n > large+10 {
		t.Errorf("after the revert: %d, want about %d", n, large)
	}
}

func TestRetirePanicsOnWhatWouldGoBackInTime(t *testing.T) {
	cases := map[string]func(task *state.Task, first, second *state.Layer){
		"not applied": func(task *state.Task, first, _ *state.Layer) { task.Retire(first) },
		"not the oldest": func(task *state.Task, first, second *state.Layer) {
			err := errors.Join(task.Apply(first, at(0), at(1)), task.Apply(second, at(1), at(2)))
			if err != nil {
				panic(err)
			}
			task.Retire(second)
		},
		"twice": func(task *state.Task, first, _ *state.Layer) {
			if err := task.Apply(first, at(0), at(1)); err != nil {
				panic(err)
			}
			task.Retire(first)
			task.Retire(first)
		},
	}
	for name, retire := range cases {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if r := recover(); !strings.Contains(fmt.Sprint(r), "Retire") {
					t.Errorf("recovered %v", r)
				}
			}()
			task := newTask(t, "s")
			retire(task, task.Freeze(), task.Freeze())
			t.Error("no panic")
		})
	}
}

// TestRefusedApplyKeepsTheLayers: a late resolver comes with an old base. Nothing changes, and the
// right base works.
func TestRefusedApplyKeepsTheLayers(t *testing.T) {
	task := newTask(t, "s")
	b := task.Store("s")
	mustPut(t, b, "k", "1")
	l := task.Freeze()
	err := task.Apply(l, at(5), at(6))
	var typed *state.BaseError
	if !errors.As(err, &typed) || !errors.Is(err, state.ErrBase) ||
		!typed.Base.Equal(at(5)) || !typed.Actual.Equal(at(0)) {
		t.Fatalf("got %v", err)
	}
	if !strings.Contains(err.Error(), "in-0@5") {
		t.Errorf("the error does not name the base: %v", err)
	}
	mustGet(t, b, "k", "1")
	if err := task.Apply(l, at(0), at(1)); err != nil {
		t.Fatal(err)
	}
	if err := task.Apply(l, at(1), at(2)); !errors.Is(err, state.ErrLayer) {
		t.Errorf("a second time: got %v, want ErrLayer", err)
	}
	task.Retire(l)
	mustGet(t, b, "k", "1")
}

// failing is a database whose disk has a bad day.
type failing struct {
	state.Database
	err error
}

func (f *failing) Get(state.StoreID, []byte) ([]byte, bool, error) { return nil, false, f.err }

func (f *failing) Apply(state.Positions, state.Positions, iter.Seq[state.Write]) error { return f.err }

func (f *failing) Scan(state.StoreID, state.Range) iter.Seq2[state.Entry, error] {
	return func(yield func(state.Entry, error) bool) {
		_ = yield(state.Entry{Key: []byte("b"), Value: []byte("1")}, nil) && yield(state.Entry{}, f.err)
	}
}

func TestErrorsOfTheDatabaseSurface(t *testing.T) {
	disk := errors.New("disk")
	task, err := state.NewTask(&failing{memstore.New(), disk}, state.KeyValues("s"))
	if err != nil {
		t.Fatal(err)
	}
	b := task.Store("s")
	mustPut(t, b, "a", "1")
	mustPut(t, b, "z", "1")
	mustGet(t, b, "a", "1") // no database needed
	if _, _, err := b.Get([]byte("b")); !errors.Is(err, disk) || !strings.Contains(err.Error(), "get from s") {
		t.Errorf("get: %v", err)
	}
	var keys []string
	var last error
	for e, err := range b.Scan(state.Range{}) {
		keys, last = append(keys, string(e.Key)), err
	}
	// z comes behind the error: a scan that left a part out must not go on.
	if !slices.Equal(keys, []string{"a", "b", ""}) || !errors.Is(last, disk) {
		t.Errorf("scan: %q, %v", keys, last)
	}
	l := task.Freeze()
	if err := task.Apply(l, at(0), at(1)); !errors.Is(err, disk) {
		t.Errorf("apply: %v", err)
	}
	mustGet(t, b, "a", "1")
	task.Drop()
	if err := task.Close(); err != nil {
		t.Error(err)
	}
}

func TestClosedTaskRefuses(t *testing.T) {
	task := newTask(t, "s")
	b := task.Store("s")
	mustPut(t, b, "a", "1")
	if err := errors.Join(task.Close(), task.Close()); err != nil {
		t.Fatal(err)
	}
	_, _, getErr := b.Get([]byte("a"))
	for op, err := range map[string]error{
		"get": getErr, "put": b.Put([]byte("a"), []byte("2")), "delete": b.Delete([]byte("a")),
	} {
		if !errors.Is(err, state.ErrClosed) {
			t.Errorf("%s: got %v, want ErrClosed", op, err)
		}
	}
}

func TestPrefix(t *testing.T) {
	for prefix, want := range map[string]state.Range{
		"":         {From: []byte{}},
		"a":        {From: []byte("a"), To: []byte("b")},
		"a\xff":    {From: []byte("a\xff"), To: []byte("b")},
		"\xff\xff": {From: []byte("\xff\xff")},
	} {
		got := state.Prefix([]byte(prefix))
		if string(got.From) != string(want.From) || string(got.To) != string(want.To) ||
			(got.To == nil) != (want.To == nil) {
			t.Errorf("%q: got %v, want %v", prefix, got, want)
		}
		if !got.Contains([]byte(prefix)) || !got.Contains([]byte(prefix+"\xff")) {
			t.Errorf("%q: the range does not contain its prefix", prefix)
		}
	}
}

// TestRoundsDroppedAboveAFrozenOne: a round that waits for its commit stays as it is, however many
// rounds above it are dropped, and the rounds after it too.
func TestRoundsDroppedAboveAFrozenOne(t *testing.T) {
	for dropped := range 24 {
		task, err := state.NewTask(memstore.New(), state.KeyValues("s"))
		if err != nil {
			t.Fatal(err)
		}
		store, want := task.Store("s"), map[string]string{}
		put := func(key, value string) {
			t.Helper()
			if err := store.Put([]byte(key), []byte(value)); err != nil {
				t.Fatal(err)
			}
		}
		check := func(when string) {
			t.Helper()
			for key, value := range want {
				if got, _, err := store.Get([]byte(key)); err != nil || string(got) != value {
					t.Fatalf("%d rounds dropped, %s: %s is %q (%v), want %q", dropped, when, key, got, err, value)
				}
			}
		}
		task.Mark()
		put("a", "0")
		put("b", "0")
		want["a"], want["b"] = "0", "0"
		layer := task.Freeze()
		for n := range dropped {
			put("a", fmt.Sprint("dropped ", n))
			put(fmt.Sprint("c", n), "dropped")
			task.DropOpen()
			check("after a drop")
		}
		for round := range 24 {
			if err := task.Apply(layer, at(int64(round)), at(int64(round+1))); err != nil {
				t.Fatal(err)
			}
			task.Retire(layer)
			check("after a round")
			task.Mark()
			put("b", fmt.Sprint(round))
			put("d", "reverted")
			task.Revert()
			check("after a revert")
			put("b", fmt.Sprint(round))
			want["b"] = fmt.Sprint(round)
			layer = task.Freeze()
			check("after a freeze")
		}
		if err := task.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
