package pebblestore

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestFlushesTakeTurns: databases that have enough at the same moment flush one after the other, unless they are in a hurry: when half as much again
// has come, when the process needs the memory, or when they have waited for long.
func TestFlushesTakeTurns(t *testing.T) {
	const flushAt = 40 << 10
	apply := func(t *testing.T, db *database, from int64, bytes int) int64 {
		t.Helper()
		const size = 4 << 10
		for range bytes / size {
			if err := applyBytes(db, from, size); err != nil {
				t.Fatal(err)
			}
			from++
		}
		return from
	}
	cases := map[string]struct {
		then    func(t *testing.T, waiting *database, disk *slowDisk, from int64)
		flushes bool
	}{
		"nothing more": {func(*testing.T, *database, *slowDisk, int64) {}, false},
		"the turn":     {func(_ *testing.T, _ *database, disk *slowDisk, _ int64) { disk.release() }, true},
		"a little more": {func(t *testing.T, waiting *database, _ *slowDisk, from int64) {
			apply(t, waiting, from, flushAt/4)
		}, false},
		"half as much again": {func(t *testing.T, waiting *database, _ *slowDisk, from int64) {
			apply(t, waiting, from, flushAt/2)
		}, true},
		"memory runs short": {func(_ *testing.T, waiting *database, _ *slowDisk, _ int64) {
			waiting.flusher.shared.add(waiting.flusher.shared.flushAt())
		}, true},
		"not long": {func(*testing.T, *database, *slowDisk, int64) { time.Sleep(flushTurnMax - time.Millisecond) }, false},
		"long":     {func(*testing.T, *database, *slowDisk, int64) { time.Sleep(flushTurnMax + time.Millisecond) }, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				shared := NewShared(16<<20, 0)
				shared.turns = make(chan struct{}, 1)
				disk := &slowDisk{FS: vfs.NewMem()}
				options := Options{FlushBytes: flushAt, FlushInterval: time.Hour, Shared: shared}
				options.FS = disk
				first := openForTest(t, options)
				options.FS = vfs.NewMem()
				second := openForTest(t, options)
				disk.hold()
				apply(t, first, 0, flushAt+flushAt/4)
				synctest.Wait()
				from := apply(t, second, 0, flushAt+flushAt/8)
				synctest.Wait()
				if n := second.flusher.backlog(); n < flushAt {
					t.Fatalf("the second one has flushed beside the first: %d bytes wait", n)
				}
				c.then(t, second, disk, from)
				synctest.Wait()
				// What comes while it flushes waits for the next one.
				if n := second.flusher.backlog(); (n < flushAt) != c.flushes {
					t.Errorf("%d bytes wait; flushed should be %t", n, c.flushes)
				}
				if disk.held != nil {
					disk.release()
				}
				synctest.Wait()
				if a, b := first.flusher.backlog(), second.flusher.backlog(); a >= flushAt || b >= flushAt {
					t.Errorf("in the end %d and %d bytes wait", a, b)
				}
				if n := len(shared.turns); n != 0 {
					t.Errorf("%d turns were not given back", n)
				}
				for _, db := range []*database{first, second} {
					if err := db.Close(); err != nil {
						t.Error(err)
					}
				}
				shared.Close()
			})
		})
	}
}

// TestAWaitForATurnEnds with the close of the database, and with a fault.
func TestAWaitForATurnEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := NewShared(16<<20, 0)
		shared.turns = make(chan struct{}, 1)
		shared.turns <- struct{}{} // of somebody who does not give it back
		db := openForTest(t, Options{FS: vfs.NewMem(), FlushBytes: 40 << 10, Shared: shared})
		if err := applyBytes(db, 0, 50<<10); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		began := time.Now()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took >= flushTurnMax {
			t.Errorf("the close has waited %s for a turn", took)
		}
		<-shared.turns
		shared.Close()
	})
}
