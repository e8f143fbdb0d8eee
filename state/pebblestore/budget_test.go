package pebblestore

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/onceward/onceward/state"
)

// crowd is some databases with one budget, each on a disk of its own.
type crowd struct {
	shared *Shared
	disks  []*slowDisk
	dbs    []*database
	// applied has the rounds of each; done is closed when its writer has ended.
	applied []int64
	done    []chan struct{}
	errs    []error
}

func newCrowd(t *testing.T, n int) *crowd {
	t.Helper()
	c := &crowd{
		shared: NewShared(1<<20, 64), applied: make([]int64, n), done: make([]chan struct{}, n), errs: make([]error, n),
	}
	for range n {
		disk := &slowDisk{FS: vfs.NewMem()}
		c.disks = append(c.disks, disk)
		c.dbs = append(c.dbs, openForTest(t, Options{FS: disk, Shared: c.shared, FlushInterval: 24 * time.Hour}))
	}
	return c
}

// write starts a writer that applies rounds of 8 KiB until it has made so many.
func (c *crowd) write(i int, rounds int64) {
	c.done[i] = make(chan struct{})
	to := c.applied[i] + rounds
	go func() {
		defer close(c.done[i])
		for c.applied[i] < to {
			if c.errs[i] = applyBytes(c.dbs[i], c.applied[i], 8<<10); c.errs[i] != nil {
				return
			}
			c.applied[i]++
		}
	}()
}

func (c *crowd) waits(i int) bool {
	select {
	case <-c.done[i]:
		return false
	default:
		return true
	}
}

func (c *crowd) close(t *testing.T) {
	t.Helper()
	for i, db := range c.dbs {
		if c.done[i] != nil {
			<-c.done[i]
		}
		if err := errors.Join(c.errs[i], db.Close()); err != nil {
			t.Error(err)
		}
	}
	if spent := c.shared.Spent(); spent != (Spent{Budget: 1 << 20, Blocks: 1 << 20, UnflushedMax: 1 << 18, Share: 1 << 19}) {
		t.Errorf("everything is closed and the budget is spent on %+v", spent)
	}
	c.shared.Close()
}

// TestTheBudgetHoldsBack: four databases on disks that stand still fill the budget, no more. A
// fifth one, which has nothing yet, may have its share. The first whose disk moves gets on by
// itself; all do in the end.
func TestTheBudgetHoldsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, 5)
		for i := range 4 {
			c.disks[i].hold()
			c.write(i, 100)
		}
		c.disks[4].hold()
		synctest.Wait()
		spent := c.shared.Spent()
		if spent.Unflushed < spent.UnflushedMax || spent.Unflushed > spent.Budget/4*3+4*(9<<10) {
			t.Errorf("%d bytes are not on the disk, the budget is %d", spent.Unflushed, spent.Budget)
		}
		if spent.Databases != 5 || spent.Held != 4 {
			t.Errorf("of %d databases %d are held back", spent.Databases, spent.Held)
		}
		least, most := c.applied[0], c.applied[0]
		for _, n := range c.applied[:4] {
			least, most = min(least, n), max(most, n)
		}
		if least*(8<<10) < c.shared.share()-(16<<10) {
			t.Errorf("a database was held back at %d rounds, another one at %d; a share is %d bytes", least, most, c.shared.share())
		}
		// The small one.
		c.write(4, 100)
		synctest.Wait()
		if size := c.applied[4] * (8 << 10); size < c.shared.share()-(16<<10) || size > c.shared.share()+(16<<10) || !c.waits(4) {
			t.Errorf("the fifth one got %d bytes, a share is %d", size, c.shared.share())
		}
		// One disk moves, the others stand still.
		c.disks[2].release()
		synctest.Wait()
		if c.waits(2) || c.errs[2] != nil {
			t.Errorf("the database whose disk moves is at %d rounds, %v", c.applied[2], c.errs[2])
		}
		for _, i := range []int{0, 1, 3, 4} {
			if !c.waits(i) {
				t.Errorf("database %d has ended on a disk that stands still", i)
			}
			c.disks[i].release()
		}
		synctest.Wait()
		if m, ok := MetricsOf(c.dbs[0]); !ok || m.Waits == 0 {
			t.Errorf("the metrics of a database that waited are %+v", m)
		}
		c.close(t)
	})
}

// TestMemTablesLeaveRoomForBlocks: however many databases there are, what Pebble takes for their
// memtables, which is the whole of each, leaves half of the budget. Without a block cache a lookup
// reads the index and the filter of every table that it looks at.
func TestMemTablesLeaveRoomForBlocks(t *testing.T) {
	const budget, databases, round = 64 << 20, 16, 100 << 10
	for name, expect := range map[string]func(*Shared){
		"expected":   func(s *Shared) { s.Expect(databases) },
		"unexpected": func(*Shared) {},
	} {
		t.Run(name, func(t *testing.T) {
			if RaceDetector && name == "expected" {
				t.Skip("makes the same calls as the other, 256 MB in one goroutine")
			}
			shared := NewShared(budget, 64)
			defer shared.Close()
			expect(shared)
			most := int64(budget / memTablesShare)
			if name == "unexpected" {
				most *= 3 // each as if it were the last one: 1 + 1/2 + ... + 1/16
			}
			dbs := make([]*database, databases)
			for i := range dbs {
				dbs[i] = openForTest(t, Options{FS: vfs.NewMem(), Shared: shared, FlushInterval: 24 * time.Hour})
			}
			for n := range int64(4 * budget / databases / round) { // memtables grow to their size in some flushes
				for _, db := range dbs {
					if err := applyBytes(db, n, round); err != nil {
						t.Fatal(err)
					}
				}
			}
			for _, db := range dbs {
				if err := db.Flush(); err != nil {
					t.Fatal(err)
				}
			}
			spent := shared.Spent()
			// Pebble gives up a memtable that was flushed when its last reader has, which can be one
			// of its own goroutines.
			for deadline := time.Now().Add(time.Minute); spent.MemTables > most && time.Now().Before(deadline); spent = shared.Spent() {
				runtime.Gosched()
			}
			if spent.MemTables > most || spent.MemTables < budget/8 {
				t.Errorf("of %d bytes memtables take %d, want %d at most", int64(budget), spent.MemTables, most)
			}
			for _, db := range dbs {
				closeForTest(t, db)
			}
		})
	}
}

// TestSmallTablesWait: where there are so many databases that each flushes little together, L0
// takes more tables before they are compacted.
func TestSmallTablesWait(t *testing.T) {
	for databases, want := range map[int]int{1: 16, 4: 16, 16: 16, 32: 16, 40: 20, 64: 24, 1000: 24} {
		shared := NewShared(256<<20, 64)
		shared.Expect(databases)
		o := Options{Shared: shared}
		o.setDefaults()
		if o.compactionTables != want {
			t.Errorf("with %d databases %d tables of %d bytes are compacted together, want %d", databases, o.compactionTables, o.flushAt, want)
		}
		shared.Close()
	}
}

// TestPressureFlushesIdleDatabases: what an idle database holds goes down when others need the
// room.
func TestPressureFlushesIdleDatabases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, 8) // a share is 64 KiB
		c.write(0, 5)       // the first one, whose memtable is for few databases
		synctest.Wait()
		if n := c.dbs[0].flusher.backlog(); n < 40<<10 {
			t.Fatalf("%d bytes are waiting for the interval", n)
		}
		for i := 1; i < 8; i++ {
			c.disks[i].hold()
			c.write(i, 100)
		}
		synctest.Wait()
		if n := c.dbs[0].flusher.backlog(); n != 0 {
			t.Errorf("the idle database still holds %d bytes, with %+v", n, c.shared.Spent())
		}
		for i := 1; i < 8; i++ {
			c.disks[i].release()
		}
		c.close(t)
	})
}

// TestAHeldBackDatabaseCanBeClosed, and one that is held back hears of the end of a neighbour,
// which leaves it a larger share.
func TestAHeldBackDatabaseCanBeClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, 4)
		for i := range 4 {
			c.disks[i].hold()
		}
		for i, rounds := range []int64{16, 16, 20, 20} { // the first two are enough for the others to hold back
			c.write(i, rounds)
			synctest.Wait()
			if c.waits(i) != (i >= 2) {
				t.Fatalf("database %d is held back: %t, with %+v", i, c.waits(i), c.shared.Spent())
			}
		}
		c.dbs[2].fault.stop(errors.New("broken"))
		<-c.done[2]
		if !errors.Is(c.errs[2], state.ErrFailed) {
			t.Errorf("got %v, want ErrFailed", c.errs[2])
		}
		if !c.waits(3) {
			t.Error("the fault of a neighbour that still has its share set a database free")
		}
		c.disks[2].release()
		if err := c.dbs[2].Close(); !errors.Is(err, state.ErrFailed) {
			t.Errorf("close: %v", err)
		}
		c.errs[2] = nil
		synctest.Wait()
		if c.waits(3) || c.errs[3] != nil {
			t.Errorf("the last one is still held back after %d rounds, %v: %+v", c.applied[3], c.errs[3], c.shared.Spent())
		}
		for _, i := range []int{0, 1, 3} {
			c.disks[i].release()
		}
		c.close(t)
	})
}

// TestSpent: buffers and reservations come out of the block cache.
func TestSpent(t *testing.T) {
	shared := NewShared(64<<20, 64)
	db := openForTest(t, Options{FS: vfs.NewMem(), Shared: shared})
	before := shared.Spent()
	for n := range int64(100) {
		applyTo(t, db, n, fmt.Sprint(n), string(make([]byte, 10_000)))
	}
	release := shared.Reserve(5 << 20)
	spent := shared.Spent()
	if spent.Buffers < 1_000_000 || spent.Buffers > 3_000_000 {
		t.Errorf("a million bytes are buffered, counted are %d", spent.Buffers)
	}
	if spent.Loads != 5<<20 || spent.Unflushed < 1_000_000 || spent.Databases != 1 || spent.Held != 0 {
		t.Errorf("spent is %+v", spent)
	}
	if sum := spent.Blocks + spent.MemTables + spent.Buffers + spent.Loads; sum != 64<<20 {
		t.Errorf("the parts of %+v are %d", spent, sum)
	}
	if spent.Blocks >= before.Blocks {
		t.Errorf("the block cache has grown from %d to %d", before.Blocks, spent.Blocks)
	}
	release()
	if err := db.Flush(); err != nil {
		t.Fatal(err)
	}
	if spent := shared.Spent(); spent.Buffers > 1_000_000 || spent.Loads != 0 || spent.Unflushed != 0 {
		t.Errorf("after a flush spent is %+v", spent)
	}
	var during Spent
	watched := func(yield func(state.Write) bool) {
		n := 0
		for w := range ascending(100_000, "v") {
			if n++; n == 99_000 {
				during = shared.Spent()
			}
			if !yield(w) {
				return
			}
		}
	}
	if err := db.Load(at(100), at(101), state.IDOf("s"), watched); err != nil {
		t.Fatal(err)
	}
	if during.Loads < loadBytesMin || shared.Spent().Loads != 0 {
		t.Errorf("a load takes %d bytes while it runs, and %d afterwards", during.Loads, shared.Spent().Loads)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	shared.Close()
}
