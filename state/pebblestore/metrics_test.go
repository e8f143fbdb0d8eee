package pebblestore_test

import (
	"slices"
	"testing"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/memstore"
	"github.com/onceward/onceward/state/pebblestore"
)

// TestMetricsOf compares a database before and after a batch, a flush and its end.
func TestMetricsOf(t *testing.T) {
	shared := pebblestore.NewShared(8<<20, 64)
	defer shared.Close()
	db, err := pebblestore.Open(t.TempDir(), pebblestore.Options{Shared: shared})
	if err != nil {
		t.Fatal(err)
	}
	before, ok := pebblestore.MetricsOf(db)
	if !ok {
		t.Fatal("an open database has no metrics")
	}
	const size = 1 << 16
	id := state.IDOf("s")
	next := db.Positions()
	next.Round.ProducerID = 1
	if err := db.Apply(db.Positions(), next, slices.Values([]state.Write{{Store: id, Key: []byte("k"), Value: make([]byte, size)}})); err != nil {
		t.Fatal(err)
	}
	applied, _ := pebblestore.MetricsOf(db)
	if got := applied.UnflushedBytes - before.UnflushedBytes; got < size || got > 2*size {
		t.Errorf("a batch of %d bytes leaves %d more unflushed", size, got)
	}
	if err := db.Flush(); err != nil {
		t.Fatal(err)
	}
	flushed, _ := pebblestore.MetricsOf(db)
	if flushed.UnflushedBytes != 0 {
		t.Errorf("%d bytes are unflushed after Flush", flushed.UnflushedBytes)
	}
	emptied := flushed.L0Sublevels < 1 && flushed.Compactions == before.Compactions // a compaction may be that quick
	if flushed.Flushes != before.Flushes+1 || emptied || flushed.DiskBytes <= before.DiskBytes {
		t.Errorf("one flush later: %+v, before: %+v", flushed, before)
	}
	cold := shared.Metrics()
	for range 2 {
		if _, ok, err := db.Get(id, []byte("k")); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	if warm := shared.Metrics(); warm.Hits <= cold.Hits || warm.Bytes <= 0 {
		t.Errorf("two reads of a table move the cache from %+v to %+v", cold, warm)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, ok := pebblestore.MetricsOf(db); ok {
		t.Error("a closed database has metrics")
	}
	if _, ok := pebblestore.MetricsOf(memstore.New()); ok {
		t.Error("a database of another package has metrics")
	}
}
