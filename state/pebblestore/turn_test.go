package pebblestore

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/onceward/onceward/state"
)

// TestFlushesTakeTurns: databases that have enough at the same moment flush one after the other,
// unless they are in a hurry: when half as much again has come, when the process needs the memory,
// or when they have waited for long.
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
		wait    time.Duration // after then
		flushes bool
	}{
		"nothing more": {func(*testing.T, *database, *slowDisk, int64) {}, 0, false},
		"the turn":     {func(_ *testing.T, _ *database, disk *slowDisk, _ int64) { disk.release() }, 0, true},
		"a little more": {func(t *testing.T, waiting *database, _ *slowDisk, from int64) {
			apply(t, waiting, from, flushAt/4)
		}, 0, false},
		"half as much again": {func(t *testing.T, waiting *database, _ *slowDisk, from int64) {
			apply(t, waiting, from, flushAt/2)
		}, 0, true},
		"memory runs short": {func(_ *testing.T, waiting *database, _ *slowDisk, _ int64) {
			waiting.flusher.shared.add(waiting.flusher.shared.flushAt())
		}, 0, true},
		"not long": {func(*testing.T, *database, *slowDisk, int64) {}, flushTurnMax - time.Millisecond, false},
		"long":     {func(*testing.T, *database, *slowDisk, int64) {}, flushTurnMax + time.Millisecond, true},
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
				time.Sleep(c.wait)
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

// TestAWaitForATurnEnds with the close of the database, with a fault, and when somebody waits for
// the levels to be looked at.
func TestAWaitForATurnEnds(t *testing.T) {
	cases := map[string]struct {
		end func(db *database) error
		// class is what Close says then.
		class error
	}{
		"the close": {(*database).Close, nil},
		"a fault":   {func(db *database) error { db.fault.stop(errors.New("broken")); return nil }, state.ErrFailed},
		"a load": {func(db *database) error {
			db.flusher.crowded.Store(true)
			token(db.flusher.work)
			return applyBytes(db, 1, 100)
		}, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
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
				if err := c.end(db); err != nil {
					t.Error(err)
				}
				synctest.Wait()
				if name != "a load" {
					<-db.flusher.stopped
				}
				if took := time.Since(began); took >= flushTurnMax {
					t.Errorf("it has waited %s for a turn", took)
				}
				if err := db.Close(); !errors.Is(err, c.class) {
					t.Errorf("close: %v, want %v", err, c.class)
				}
				<-shared.turns
				shared.Close()
			})
		})
	}
}

// TestATurnIsGivenBack by a database that is closed, or has a fault, while it flushes.
func TestATurnIsGivenBack(t *testing.T) {
	for name, end := range map[string]func(db *database){
		"the close": func(db *database) { go func() { _ = db.Close() }() },
		"a fault":   func(db *database) { db.fault.stop(errors.New("broken")) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				shared := NewShared(16<<20, 0)
				disk := &slowDisk{FS: vfs.NewMem()}
				db := openForTest(t, Options{FS: disk, FlushBytes: 40 << 10, Shared: shared})
				disk.hold()
				if err := applyBytes(db, 0, 50<<10); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if n := len(shared.turns); n != 1 {
					t.Fatalf("there are %d turns while it flushes", n)
				}
				end(db)
				<-db.flusher.stopped
				if n := len(shared.turns); n != 0 {
					t.Errorf("%d turns were not given back", n)
				}
				disk.release()
				synctest.Wait()
				_ = db.Close() // what it says is not what is tested
				shared.Close()
			})
		})
	}
}

// TestTheIntervalHasTheTurnInIt: what waits for a turn is on the disk within FlushInterval.
func TestTheIntervalHasTheTurnInIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := NewShared(16<<20, 0)
		shared.turns = make(chan struct{}, 1)
		shared.turns <- struct{}{}
		db := openForTest(t, Options{FS: vfs.NewMem(), FlushInterval: time.Minute, Shared: shared})
		if err := applyBytes(db, 0, 100); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute - time.Millisecond)
		synctest.Wait()
		if db.flusher.backlog() == 0 {
			t.Error("it did not wait for a turn")
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if n := db.flusher.backlog(); n != 0 {
			t.Errorf("after the interval %d bytes wait", n)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		<-shared.turns
		shared.Close()
	})
}
