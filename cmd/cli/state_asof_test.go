package cli

import (
	"bytes"
	"testing"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/memstore"
	"github.com/onceward/onceward/txn/admin"
)

// TestAsOfIsThatOfTheStore: the command finds in the rows of a key what the store itself finds, at
// every time and while the stream time moves on.
func TestAsOfIsThatOfTheStore(t *testing.T) {
	layout := state.Layout{Kind: state.VersionedKind, Retention: 20}
	task, err := state.NewTask(memstore.New(), []state.Declaration{{Name: "s", Layout: layout}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := task.Close(); err != nil {
			t.Error(err)
		}
	}()
	bytesOf := task.Store("s")
	store := state.NewVersioned(bytesOf, schemas.String(), schemas.String(), layout)
	compared := 0
	for i, at := range []int64{3, 0, 10, 7, 12, 30, 25, 31, 60, 61} {
		if i%4 == 3 {
			_, err = store.Delete("a", at)
		} else {
			_, err = store.Put("a", string(rune('A'+i)), at)
		}
		if err != nil {
			t.Fatal(err)
		}
		var versions []state.Entry
		for e, err := range bytesOf.Scan(state.Range{}) {
			if err != nil {
				t.Fatal(err)
			}
			versions = append(versions, state.Entry{Key: bytes.Clone(e.Key), Value: bytes.Clone(e.Value)})
		}
		positions := state.Positions{Changelogs: []state.Changelog{{Store: "s", StreamTime: bytesOf.StreamTime()}}}
		for ms := int64(-1); ms < 70; ms++ {
			want, from, ok, err := store.GetAsOf("a", ms)
			if err != nil {
				t.Fatal(err)
			}
			got := asOfIn("s", layout, time.UnixMilli(ms), admin.At{Positions: positions}).find(versions)
			if len(got) == 0 != !ok {
				t.Fatalf("after version %d, as of %d: found %d rows, and the store says %t", i, ms, len(got), ok)
			}
			if !ok {
				continue
			}
			compared++
			p, err := layout.Parts(got[0].Key, got[0].Value)
			if err != nil || string(p.Value) != want || p.ValidFrom != from {
				t.Errorf("after version %d, as of %d: %s since %d, %v; the store has %s since %d", i, ms, p.Value, p.ValidFrom, err, want, from)
			}
		}
	}
	if compared == 0 {
		t.Error("no time had a value")
	}
}
