package state

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// check compares the overlay with what it must hold and looks at its invariants.
func (o *overlay) check(want map[string][]byte, hash func(key []byte) uint32) error {
	if len(o.entries) != len(want) {
		return fmt.Errorf("%d entries, want %d", len(o.entries), len(want))
	}
	if 2*len(o.entries) > len(o.index.slots) {
		return fmt.Errorf("%d entries in %d slots", len(o.entries), len(o.index.slots))
	}
	used := 0
	for _, s := range o.index.slots {
		if s.ref != 0 {
			used++
		}
	}
	values := 0
	for i, e := range o.entries {
		if _, got := o.index.find(hash(e.key), 0, e.key); got != &o.entries[i] {
			return fmt.Errorf("entry %d is found as %v", i, got)
		}
		w, ok := want[string(e.key)]
		if !ok || !bytes.Equal(e.value, w) || (e.value == nil) != (w == nil) {
			return fmt.Errorf("entry %q is %q, want %q", e.key, e.value, w)
		}
		values += len(e.value)
	}
	if used != len(o.entries) || used != o.index.used || values != o.values {
		return fmt.Errorf("%d slots for %d entries, %d bytes counted of %d", used, len(o.entries), o.values, values)
	}
	return nil
}

// TestOverlayIsAMapWithSavepoints compares an overlay with a map, under a hash with many
// collisions, so that runs of slots grow long and wrap around.
func TestOverlayIsAMapWithSavepoints(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		buckets := rapid.SampledFrom([]uint32{1, 7, 1 << 31}).Draw(t, "buckets")
		// Near the end of the number space, where masked hashes wrap around.
		hash := func(key []byte) uint32 { return crc32.ChecksumIEEE(key)%buckets - 3 }
		o := newOverlay(new(index), rapid.SampledFrom([]int{0, 8, 100}).Draw(t, "hint"))
		model, saved := map[string][]byte{}, map[string][]byte(nil)
		type point struct {
			overlayPoint
			model map[string][]byte
		}
		var inner []point // those inside the last mark, the outermost first
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			switch rapid.IntRange(0, 13).Draw(t, "step") {
			case 0:
				o.mark()
				saved, inner = maps.Clone(model), nil
			case 1:
				o.revert()
				if saved != nil {
					model, inner = maps.Clone(saved), nil
				}
			case 2:
				if saved != nil {
					inner = append(inner, point{o.savepoint(), maps.Clone(model)})
				}
			case 3, 4:
				if len(inner) > 0 {
					i := rapid.IntRange(0, len(inner)-1).Draw(t, "point")
					o.undoTo(inner[i].overlayPoint)
					model, inner = maps.Clone(inner[i].model), inner[:i+1]
				}
			default:
				key := fmt.Appendf(nil, "k%d", rapid.IntRange(0, 60).Draw(t, "key"))
				value := rapid.SampledFrom([][]byte{nil, {}, []byte("1"), []byte("22")}).Draw(t, "value")
				o.put(hash(key), 0, key, value)
				model[string(key)] = value
			}
		}
		if err := o.check(model, hash); err != nil {
			t.Fatal(err)
		}
	})
}

// TestOrderFollowsWritesAndReverts compares the order of a scanned store with a sort of its keys.
func TestOrderFollowsWritesAndReverts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := newOverlay(new(index), 0)
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0:
				o.mark()
			case 1:
				o.revert()
			case 2, 3:
				store := rapid.Uint32Range(0, 1).Draw(t, "store")
				var want []string
				for _, e := range o.entries {
					if e.store == store {
						want = append(want, string(e.key))
					}
				}
				slices.Sort(want)
				var got []string
				for _, i := range o.order(store) {
					if o.entries[i].store != store {
						t.Fatalf("entry %d is of another store", i)
					}
					got = append(got, string(o.entries[i].key))
				}
				if !slices.Equal(got, want) {
					t.Fatalf("the order is %q, want %q", got, want)
				}
			default:
				for range rapid.IntRange(1, 20).Draw(t, "writes") {
					key := fmt.Appendf(nil, "%d", rapid.IntRange(0, 500).Draw(t, "key"))
					store := rapid.Uint32Range(0, 1).Draw(t, "store")
					o.put(crc32.ChecksumIEEE(key)+store, store, key, []byte("v"))
				}
			}
		}
	})
}

// TestRevertCostsOnlyTheRecord holds the promise of O(writes since the mark) by counting the undo
// entries.
func TestRevertCostsOnlyTheRecord(t *testing.T) {
	o := newOverlay(new(index), 0)
	key := func(i int) []byte { return fmt.Appendf(nil, "%d", i) }
	for i := range 10_000 {
		o.put(uint32(i), 0, key(i), []byte("v"))
	}
	o.mark()
	for range 5 { // one entry, however often it is written
		o.put(3, 0, key(3), []byte("w"))
	}
	if len(o.undo) != 1 {
		t.Errorf("%d undo entries for one key", len(o.undo))
	}
	o.put(20_000, 0, key(20_000), []byte("new"))
	if len(o.undo) != 1 {
		t.Errorf("%d undo entries: a new key needs none", len(o.undo))
	}
	o.revert()
	if v, found := o.get(3, 0, key(3)); !found || string(v) != "v" {
		t.Errorf("key 3 is %q", v)
	}
	if _, found := o.get(20_000, 0, key(20_000)); found {
		t.Error("a reverted key is there")
	}
	// The savepoint is still there.
	o.put(3, 0, key(3), nil)
	o.revert()
	if v, _ := o.get(3, 0, key(3)); string(v) != "v" {
		t.Errorf("after the second revert key 3 is %q", v)
	}
}

func TestArenaCopies(t *testing.T) {
	var a arena
	var copies [][]byte
	var want []string
	for i := range 2000 {
		key := bytes.Repeat([]byte{byte(i)}, i%97)
		if i%500 == 499 {
			key = bytes.Repeat([]byte{byte(i)}, arenaKeyMax+1)
		}
		c := a.copy(key)
		if c == nil || cap(c) != len(c) && len(c) <= arenaKeyMax {
			t.Fatalf("copy %d: nil %t, length %d, capacity %d", i, c == nil, len(c), cap(c))
		}
		copies = append(copies, c)
		want = append(want, string(key))
		clear(key)
	}
	for i, c := range copies {
		if string(c) != want[i] {
			t.Fatalf("copy %d was overwritten", i)
		}
	}
}

func TestAnIdleOverlayCostsNothing(t *testing.T) {
	db := noDatabase{}
	task, err := NewTask(db, KeyValues("s"))
	if err != nil {
		t.Fatal(err)
	}
	// A layer and an overlay, and the list that has the layer.
	if n := testing.AllocsPerRun(100, func() {
		l := task.Freeze()
		l.applied.Store(true)
		task.Retire(l)
	}); n > 3 {
		t.Errorf("an empty round makes %v allocations", n)
	}
}

// noDatabase is the part of a database that NewTask needs.
type noDatabase struct{ Database }

func (noDatabase) Declare(...Declaration) error { return nil }
func (noDatabase) Positions() Positions         { return Positions{} }
