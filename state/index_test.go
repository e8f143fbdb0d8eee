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

// layered is an index with its overlays, and beside each overlay the map that it has to be.
type layered struct {
	t       *rapid.T
	index   index
	buckets uint32
	// overlays and models are the oldest first; the last one is open.
	overlays []*overlay
	models   []map[string][]byte
	// saved is what the open one was at its mark, nil without one.
	saved map[string][]byte
	// writes counts the writes, so that no two values are alike.
	writes int
}

func (l *layered) hash(key []byte) uint32 { return crc32.ChecksumIEEE(key)%l.buckets - 3 }

// open puts an overlay on top.
func (l *layered) open() {
	l.overlays = append(l.overlays, newOverlay(&l.index, rapid.SampledFrom([]int{0, 8, 100}).Draw(l.t, "hint")))
	l.models, l.saved = append(l.models, map[string][]byte{}), nil
}

func (l *layered) top() (*overlay, map[string][]byte) {
	return l.overlays[len(l.overlays)-1], l.models[len(l.models)-1]
}

// step does one of the things that a task does.
func (l *layered) step() {
	o, model := l.top()
	switch rapid.IntRange(0, 20).Draw(l.t, "step") {
	case 0:
		o.mark()
		l.saved = maps.Clone(model)
	case 1, 2:
		o.revert()
		if l.saved != nil {
			l.models[len(l.models)-1] = maps.Clone(l.saved)
		}
	case 3:
		if l.saved == nil {
			return
		}
		point, before := o.savepoint(), maps.Clone(model)
		for range rapid.IntRange(0, 9).Draw(l.t, "writes") {
			l.put()
		}
		if rapid.Bool().Draw(l.t, "undo") {
			o.undoTo(point)
			l.models[len(l.models)-1] = before
		}
	case 4, 5: // freeze
		if len(l.overlays) <= frozenMax {
			l.open()
		}
	case 6, 7: // retire
		if len(l.overlays) > 1 {
			l.index.end(l.overlays[0])
			l.overlays, l.models = slices.Delete(l.overlays, 0, 1), slices.Delete(l.models, 0, 1)
		}
	case 8: // drop the open one
		for range rapid.SampledFrom([]int{1, 2, rebuildEvery, rings}).Draw(l.t, "times") {
			l.index.replace(o)
			l.overlays, l.models = l.overlays[:len(l.overlays)-1], l.models[:len(l.models)-1]
			l.open()
			l.index.rebuild(0)
			l.put()
			o, _ = l.top()
		}
	case 9: // drop all
		if rapid.IntRange(0, 3).Draw(l.t, "all") > 0 {
			return
		}
		l.index.reset()
		l.overlays, l.models = nil, nil
		l.open()
	default:
		for range rapid.IntRange(1, 12).Draw(l.t, "writes") {
			l.put()
		}
	}
}

func (l *layered) put() {
	o, model := l.top()
	key := fmt.Appendf(nil, "k%d", rapid.IntRange(0, 60).Draw(l.t, "key"))
	value := []byte(nil)
	if l.writes++; l.writes%5 > 0 {
		value = fmt.Appendf(nil, "v%d", l.writes)
	}
	o.put(l.hash(key), 0, key, value)
	model[string(key)] = value
}

// check compares each key with the newest model that has it.
func (l *layered) check() error {
	o, _ := l.top()
	for i := range 61 {
		key := fmt.Appendf(nil, "k%d", i)
		var want []byte
		written := false
		for at := len(l.models) - 1; at >= 0 && !written; at-- {
			want, written = l.models[at][string(key)]
		}
		got, found := o.get(l.hash(key), 0, key)
		if found != written || !bytes.Equal(got, want) || (got == nil) != (want == nil) {
			return fmt.Errorf("%q is %q, %t; want %q, %t", key, got, found, want, written)
		}
	}
	used := 0
	for _, s := range l.index.slots {
		if s.ref != 0 {
			used++
		}
	}
	if used != l.index.used || 2*used > len(l.index.slots) {
		return fmt.Errorf("%d slots of %d are used, counted as %d", used, len(l.index.slots), l.index.used)
	}
	return nil
}

// TestIndexFindsTheNewestWrite walks through rounds as a task has them, under a hash with many
// collisions. Each key is found as the newest layer has it, however writes were undone, and layers
// retired or dropped.
func TestIndexFindsTheNewestWrite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &layered{t: t, buckets: rapid.SampledFrom([]uint32{1, 7, 1 << 31}).Draw(t, "buckets")}
		l.open()
		for range rapid.IntRange(1, 150).Draw(t, "steps") {
			l.step()
			if err := l.check(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestIndexRefusesTooManyLayers: a ring number is never given twice.
func TestIndexRefusesTooManyLayers(t *testing.T) {
	var x index
	for range rings {
		newOverlay(&x, 0)
	}
	defer func() {
		if recover() == nil {
			t.Error("a layer has the number of another one")
		}
	}()
	newOverlay(&x, 0)
}

// TestIndexIsSmallAgain: after a burst the index has the size of what is there.
func TestIndexIsSmallAgain(t *testing.T) {
	var x index
	burst := newOverlay(&x, 0)
	for i := range 10_000 {
		key := fmt.Appendf(nil, "%d", i)
		burst.put(crc32.ChecksumIEEE(key), 0, key, []byte("v"))
	}
	large := len(x.slots)
	before := burst
	for range rebuildEvery + 1 {
		o := newOverlay(&x, 0)
		x.end(before)
		o.put(7, 0, []byte("key"), []byte("v"))
		before = o
	}
	if large < 20_000 || len(x.slots) > 64 {
		t.Errorf("the index has %d slots after a burst, and then %d", large, len(x.slots))
	}
}
