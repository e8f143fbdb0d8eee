package pebblestore

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/onceward/onceward/state"
)

// slowDisk is a file system on which the sync of a table waits while the disk is held.
type slowDisk struct {
	vfs.FS
	// only restricts it to tables that are written for one reason; empty is all.
	only vfs.DiskWriteCategory
	mu   sync.Mutex
	held chan struct{} // nil when the disk is not held
}

func (d *slowDisk) hold() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held = make(chan struct{})
}

func (d *slowDisk) release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	close(d.held)
	d.held = nil
}

func (d *slowDisk) wait() {
	d.mu.Lock()
	held := d.held
	d.mu.Unlock()
	if held != nil {
		<-held
	}
}

func (d *slowDisk) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.Create(name, c)
	if err != nil || !strings.HasSuffix(name, ".sst") || d.only != "" && d.only != c {
		return f, err
	}
	return slowFile{f, d}, nil
}

type slowFile struct {
	vfs.File
	disk *slowDisk
}

func (f slowFile) Sync() error {
	f.disk.wait()
	return f.File.Sync()
}

func (f slowFile) SyncData() error {
	f.disk.wait()
	return f.File.SyncData()
}

func openForTest(t *testing.T, o Options) *database {
	t.Helper()
	db, err := Open("task", o)
	if err != nil {
		t.Fatal(err)
	}
	return db.(*database)
}

func at(n int64) state.Positions {
	if n == 0 {
		return state.Positions{}
	}
	return state.Positions{Inputs: []state.Input{{Topic: "in", Offset: n}}}
}

// applyBytes applies one batch with a value of the given size, under a key of its own.
func applyBytes(db state.Database, from int64, size int) error {
	return db.Apply(at(from), at(from+1), slices.Values([]state.Write{
		{Store: state.IDOf("s"), Key: fmt.Append(nil, from), Value: make([]byte, size)},
	}))
}

// durable opens what a power loss would leave now.
func durable(t *testing.T, fs *vfs.MemFS) state.Positions {
	t.Helper()
	db := openForTest(t, Options{FS: fs.CrashClone(vfs.CrashCloneCfg{})})
	p := db.Positions()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestFlushAfterTheInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewCrashableMem()
		db := openForTest(t, Options{FS: fs, FlushInterval: time.Minute})
		time.Sleep(10 * time.Minute) // idle: nothing to flush, and no timer that has run down
		for n := range int64(3) {
			if err := applyBytes(db, n, 10); err != nil {
				t.Fatal(err)
			}
			time.Sleep(59 * time.Second)
			synctest.Wait()
			if p := durable(t, fs); !p.Equal(at(n)) {
				t.Errorf("59 s after batch %d: durable is %v", n+1, p)
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if p := durable(t, fs); !p.Equal(at(n + 1)) {
				t.Errorf("61 s after batch %d: durable is %v", n+1, p)
			}
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestFlushAfterTheBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewCrashableMem()
		db := openForTest(t, Options{FS: fs, FlushBytes: 10_000, FlushInterval: time.Hour})
		for n := range int64(9) {
			if err := applyBytes(db, n, 1000); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if p := durable(t, fs); !p.Equal(at(0)) {
			t.Errorf("below the limit: durable is %v", p)
		}
		if err := applyBytes(db, 9, 1000); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if p := durable(t, fs); !p.Equal(at(10)) {
			t.Errorf("above the limit: durable is %v", p)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestApplyWaitsForASlowDisk: what is in memory only stays bounded, and the wait ends with the
// disk, a fault or Close.
func TestApplyWaitsForASlowDisk(t *testing.T) {
	ends := map[string]struct {
		end  func(db *database, disk *slowDisk)
		want error
	}{
		"the disk":  {func(_ *database, disk *slowDisk) { disk.release() }, nil},
		"a fault":   {func(db *database, _ *slowDisk) { db.fault.stop(errors.New("broken")) }, state.ErrFailed},
		"the close": {func(db *database, _ *slowDisk) { go func() { _ = db.Close() }() }, state.ErrClosed},
	}
	for name, c := range ends {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk := &slowDisk{FS: vfs.NewMem()}
				db := openForTest(t, Options{FS: disk, FlushBytes: 10_000})
				disk.hold()
				applied, last := int64(0), error(nil)
				done := make(chan struct{})
				go func() {
					defer close(done)
					for applied < 100 && last == nil {
						if last = applyBytes(db, applied, 1000); last == nil {
							applied++
						}
					}
				}()
				synctest.Wait()
				select {
				case <-done:
					t.Fatal("nothing waited")
				default:
				}
				if n := db.flusher.backlog(); n < 30_000 || n > 32_000 {
					t.Errorf("the wait began with %d bytes in memory only", n)
				}
				if _, ok, err := db.Get(state.IDOf("s"), []byte("0")); !ok || err != nil {
					t.Errorf("a read while Apply waits: %t, %v", ok, err)
				}
				time.Sleep(10 * time.Second) // in the bubble
				if m, ok := MetricsOf(db); !ok || m.Waits != 1 || m.WaitTime != 10*time.Second {
					t.Errorf("ten seconds later there are %d waits of %s, %t", m.Waits, m.WaitTime, ok)
				}
				c.end(db, disk)
				<-done
				if !errors.Is(last, c.want) || c.want == nil && applied != 100 {
					t.Errorf("%d batches, %v; want %v", applied, last, c.want)
				}
				if c.want != nil {
					disk.release()
				}
				if err := db.Close(); err != nil && !errors.Is(err, c.want) {
					t.Error(err)
				}
			})
		})
	}
}

// TestApplyWaitsForCompactions: tables that overlap in L0 make every read slower, so their number
// is bounded too.
func TestApplyWaitsForCompactions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &slowDisk{FS: vfs.NewMem(), only: "pebble-compaction"}
		db := openForTest(t, Options{FS: disk, FlushBytes: 1000})
		disk.hold()
		results := make(chan error)
		applied := int64(0)
		// One batch at a time, so that each gets a flush and a table that overlaps all others.
		for waits := false; !waits; applied++ {
			if applied == 100 {
				t.Fatal("nothing waited")
			}
			go func() { results <- applyBytes(db, applied, 1000) }()
			synctest.Wait()
			select {
			case err := <-results:
				if err != nil {
					t.Fatal(err)
				}
			default:
				waits = true
			}
		}
		if n := db.sublevels(); n <= sublevelsMax || n > sublevelsMax+5 {
			t.Errorf("the wait began with %d sublevels", n)
		}
		disk.release()
		if err := <-results; err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if n := db.sublevels(); n > sublevelsMax {
			t.Errorf("%d sublevels are left", n)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
}
