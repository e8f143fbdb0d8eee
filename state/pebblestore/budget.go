package pebblestore

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

const (
	// writesShare is the part of the budget that is divided among the databases for what they
	// applied and did not flush: one half. The other one is left to the block cache, without which
	// reading, compacting and restoring would crawl.
	writesShare = 2
	// flushShare is the part of the budget that one flush of one database may be at most.
	flushShare = 16
	// memTablesShare is the part of the budget that the memtables of all databases may be, full or
	// not: one half. memTablesOfOne is how many each database has.
	memTablesShare = 2
	memTablesOfOne = 2
	// reserveStep is the unit in which buffers and loads take memory out of the block cache. Less
	// than one is not counted, for the sake of many idle databases.
	reserveStep = 64 << 10
)

// Shared is shared by all databases of a process: one budget of memory, and one cache of open
// files, which bounds the file descriptors.
//
// The budget is the size of the block cache. All other memory is reserved in that cache: memtables,
// the buffers above them, the tables that loads build, filters and rows for lookups, and
// reservations of callers. The cache evicts blocks for a reservation at once. So a reservation
// never waits, and no deadlock is possible.
//
// Backpressure bounds the reservations:
//   - The share of a database is half of the budget divided by the number of databases. It may
//     always have that much in writes that are not on the disk.
//   - It may have more while all databases together have less than a quarter of the budget. Above
//     that, Apply waits in it, for its own flush or for memory that another database frees.
//   - At three quarters of that quarter, every database flushes that has more than half of its
//     share, idle ones too.
//
// Nothing bounds the tables of stores in memory. They are reserved like the rest, so that the cache
// has what they leave. A budget that is smaller than they are leaves it nothing.
//
// So all databases together have at most three quarters of the budget, and a round each. No
// database waits for another one alone: one with more than its share continues at least at the
// speed of its own disk, and one with less never waits for memory.
//
// Memtables are reserved in the cache at their full size, however full they are. Pebble keeps two
// for each database: one takes rounds, one is being flushed or waits for its turn. So their size
// must be bounded. It is set when the database is opened, by the number of databases (Expect), so
// that all memtables fit into half of the budget. Otherwise a small budget or many databases would
// leave no memory for the cache, and a lookup in Pebble would read the filter and the index of each
// table from the disk.
//
// All methods may be called by any number of goroutines.
type Shared struct {
	blocks *pebble.Cache
	files  *pebble.FileCache

	budget int64
	// unbound ends what boundMemory does for the budget.
	unbound func()
	// unflushed is what all databases hold that is not on the disk, buffers and loads what they
	// have reserved.
	unflushed, buffers, loads atomic.Int64
	// filters and rows are what is reserved for lookups. filling is set while a filter is made: one
	// at a time, for the sake of the block cache.
	filters, rows atomic.Int64
	filling       atomic.Bool
	// inMemory is what is reserved for the tables of stores in memory.
	inMemory atomic.Int64
	// iterators is the number of iterators that databases cache, at most iteratorsMax.
	iterators    atomic.Int64
	iteratorsMax int64
	// databases is len(mu.open), expected what Expect was told.
	databases, expected atomic.Int64
	// turns has a token for each flush that others wait for, see takeTurn.
	turns chan struct{}

	// mu is a leaf: nothing is called and nothing else is locked while it is held.
	mu struct {
		sync.Mutex
		open map[*database]struct{}
		// held has the databases in which a caller waits because the budget is used up.
		held map[*flusher]struct{}
	}
}

// NewShared makes the caches of a process for a budget in bytes. It should be some times
// Options.FlushBytes: the databases of a smaller one flush sooner than they would. Values below
// BudgetMin and 64 files are raised to these.
func NewShared(budget int64, maxOpenFiles int) *Shared {
	s := &Shared{budget: max(budget, BudgetMin), turns: make(chan struct{}, flushTurns())}
	s.iteratorsMax = int64(max(maxOpenFiles, openFilesMin) / iteratorsShare)
	s.blocks = pebble.NewCache(s.budget)
	s.files = pebble.NewFileCache(runtime.GOMAXPROCS(0), max(maxOpenFiles, openFilesMin))
	s.mu.open = make(map[*database]struct{})
	s.mu.held = make(map[*flusher]struct{})
	s.unbound = boundMemory(s.held)
	return s
}

// Close gives the caches up. Databases that still use them keep them alive.
func (s *Shared) Close() {
	s.unbound()
	s.files.Unref()
	s.blocks.Unref()
}

// held is an estimate of the used part of the budget. Counting memtables would need a request to
// every database. So it assumes that they use as much as the rest, which is too much while both are
// small.
func (s *Shared) held() int64 {
	return min(2*(s.blocks.Metrics().Size+s.buffers.Load()+s.loads.Load()+s.kept()+s.inMemory.Load()), s.budget)
}

// Expect sets how many databases will be open at the same time. Databases that are opened later
// have memtables for that number, or for the number of open ones if that is larger. Without it the
// first databases take the memory of the last ones. An open database keeps the size of its
// memtables. So if the number of databases doubles, the cache has less until they are opened again:
// a quarter of the budget instead of half, and nothing if they were opened one at a time.
func (s *Shared) Expect(databases int) {
	if s != nil {
		s.expected.Store(int64(databases))
	}
}

// flushMax is how much a database that is opened now may flush together, for its memtables.
func (s *Shared) flushMax() int64 {
	if s == nil {
		return math.MaxInt64
	}
	n := max(s.expected.Load(), s.databases.Load()+1)
	return max(s.budget/memTablesShare/memTablesOfOne/n, memTableBytesMin) / memTableFactor
}

// Reserve takes memory of a caller out of the budget until release is called, once and before
// Close. For example, the sort buffer of a restore counts as a load. It does not wait.
func (s *Shared) Reserve(bytes int64) (release func()) { return s.reserve(&s.loads, bytes) }

func (s *Shared) reserve(use *atomic.Int64, bytes int64) (release func()) {
	use.Add(bytes)
	give := s.blocks.Reserve(int(bytes))
	return func() {
		use.Add(-bytes)
		give()
	}
}

// Spent is what the budget of the process is spent on, in bytes.
type Spent struct {
	// Budget is all there is.
	Budget int64
	// Blocks is the block cache, with what it has room for and has not read yet. MemTables and
	// Buffers are what was applied and is not in tables, in Pebble and above it. Loads are the
	// tables that are being built, and what callers reserved. Kept is what spares lookups the way
	// into Pebble: filters of keys, and rows. InMemory are the tables of stores in memory. The six
	// are about the budget. They are more while rounds are large beside it, and where the stores in
	// memory are.
	Blocks, MemTables, Buffers, Loads, Kept, InMemory int64
	// Unflushed is what all databases applied that is not on the disk. From UnflushedMax on those
	// hold back that have Share of it or more.
	Unflushed, UnflushedMax, Share int64
	// Databases are open, Held are those of them that hold back now.
	Databases, Held int
}

// Spent returns what the budget is spent on now. It takes some microseconds for each open database,
// waits for one that is being closed, and may be called at any time, after Close too.
func (s *Shared) Spent() Spent {
	spent := Spent{
		Budget: s.budget, Buffers: s.buffers.Load(), Loads: s.loads.Load(), Kept: s.kept(), InMemory: s.inMemory.Load(),
		Unflushed: s.unflushed.Load(), UnflushedMax: s.holdAt(), Share: s.share(),
	}
	s.mu.Lock()
	spent.Held = len(s.mu.held)
	open := make([]*database, 0, len(s.mu.open))
	for d := range s.mu.open {
		open = append(open, d)
	}
	s.mu.Unlock()
	spent.Databases = len(open)
	for _, d := range open {
		if m, ok := MetricsOf(d); ok {
			spent.MemTables += int64(m.MemTableBytes)
		}
	}
	spent.Blocks = max(s.budget-spent.MemTables-spent.Buffers-spent.Loads-spent.Kept-spent.InMemory, 0)
	return spent
}

// add and all that follow do nothing for a database without a Shared, where s is nil.

// join counts a database in, leave out again. The cache lives in between.
func (s *Shared) join(d *database) {
	if s == nil {
		return
	}
	s.blocks.Ref()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.open[d] = struct{}{}
	s.databases.Store(int64(len(s.mu.open)))
}

func (s *Shared) leave(d *database) {
	if s == nil {
		return
	}
	s.mu.Lock()
	delete(s.mu.open, d)
	s.databases.Store(int64(len(s.mu.open)))
	s.wakeHeld() // shares are larger now
	s.mu.Unlock()
	s.blocks.Unref()
}

// share is what one database may always hold.
func (s *Shared) share() int64 { return s.budget / writesShare / max(s.databases.Load(), 1) }

// holdAt is how much all of them hold when those that have their share hold back, flushAt when
// those that have half of it flush.
func (s *Shared) holdAt() int64 { return s.budget / writesShare / 2 }

func (s *Shared) flushAt() int64 { return s.holdAt() / 4 * 3 }

// pressed reports whether databases should flush early.
func (s *Shared) pressed() bool { return s != nil && s.unflushed.Load() >= s.flushAt() }

// full reports whether a database with that backlog has to hold back.
func (s *Shared) full(backlog int64) bool {
	return s != nil && s.unflushed.Load() >= s.holdAt() && backlog >= s.share()
}

// add counts applied bytes of a database, or, if negative, flushed bytes. It wakes the databases
// that wait.
func (s *Shared) add(bytes int64) {
	if s == nil {
		return
	}
	after, mark := s.unflushed.Add(bytes), s.flushAt()
	pressed := after >= mark && after-bytes < mark
	if bytes > 0 && !pressed {
		return // nearly always
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if bytes < 0 {
		s.wakeHeld()
	} else {
		for d := range s.mu.open {
			token(d.flusher.work)
		}
	}
}

// wakeHeld lets everyone who waits look again. The caller holds mu.
func (s *Shared) wakeHeld() {
	for f := range s.mu.held {
		token(f.room)
	}
}

// hold notes that a caller of f begins to wait for room, let that the wait has ended.
func (s *Shared) hold(f *flusher) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.held[f] = struct{}{}
}

func (s *Shared) let(f *flusher) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.held, f)
}

// keepSeeker reports whether one more iterator may be kept for the next lookup, and counts it;
// unkeepSeeker counts it out.
func (s *Shared) keepSeeker() bool {
	if s == nil {
		return true
	}
	if s.iterators.Add(1) <= s.iteratorsMax {
		return true
	}
	s.iterators.Add(-1)
	return false
}

func (s *Shared) unkeepSeeker() {
	if s != nil {
		s.iterators.Add(-1)
	}
}

// kept is what is reserved for lookups.
func (s *Shared) kept() int64 { return s.filters.Load() + s.rows.Load() }

// filtersMayGrow reports whether a filter may take to bytes instead of from, if all filters
// together use 1/of of their memory. Two concurrent calls may both get the last part.
func (s *Shared) filtersMayGrow(from, to, of int64) bool {
	if s == nil {
		return to <= filtersAlone/of
	}
	return s.filters.Load()+to-from <= s.budget/filterShare/of
}

// rowsMax is the memory that the rows of one database may take: the part that filters leave of the
// common memory, and a minimum in any case.
func (s *Shared) rowsMax() int64 {
	if s == nil {
		return rowsAlone
	}
	all := max(s.budget/keptOf*keptShare-s.filters.Load(), s.budget/rowsShare)
	return max(all/max(s.databases.Load(), 1), rowsMin)
}

// reservation is the memory of one buffer or load, which grows. The zero value with a nil Shared
// counts nothing.
type reservation struct {
	shared  *Shared
	use     *atomic.Int64
	bytes   int64
	release []func()
}

// grow makes the reservation cover so many bytes.
func (r *reservation) grow(to int64) {
	if r.shared == nil || to-r.bytes < reserveStep {
		return
	}
	r.release = append(r.release, r.shared.reserve(r.use, to-r.bytes))
	r.bytes = to
}

func (r *reservation) end() {
	for _, release := range r.release {
		release()
	}
	r.release, r.bytes = nil, 0
}
