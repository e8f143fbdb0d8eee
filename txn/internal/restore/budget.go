package restore

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// budget is the memory of all restores of the process together, in pages, and the order of waiters.
//
// A changelog that is read needs a seat, which is the room for two answers, and then a page after
// the other for its chunk. A seat is given back while there is nothing to read (an open transaction
// holds the changelog): others go on.
//
// No chunk waits for ever. A chunk that cannot grow waits only while another chunk is on its way to
// a database, because the pages of that one come back. Otherwise it goes to the database itself,
// smaller than it could be. A restore that waits for its first page holds none.
type budget struct {
	mu      sync.Mutex
	seats   int       // free ones
	pages   int       // free ones; negative while a single record is larger than the budget
	loading int       // chunks on their way to a database
	waiters []*waiter // in the order of their ranks

	pagesMax, seatsMax int
	// spare and spareIndexes are unused memory for pages and for the indexes of chunks. They are
	// kept while a restore has a seat, and are never more than the free pages. Without them the
	// garbage collector would have to collect this memory again and again.
	spare        [][]byte
	spareIndexes [][]entry
}

// rank orders the waiters: active tasks before standbys, then by the time at which each would have
// finished if it had started on arrival. So short restores go first, and the delay of a long one is
// bounded.
type rank struct {
	standby bool
	done    time.Time
}

// rankRate is the records a second that rank supposes. It only has to be about right.
const rankRate = 1_000_000

func newRank(standby bool, came time.Time, records int64) rank {
	return rank{standby, came.Add(time.Duration(float64(records) / rankRate * float64(time.Second)))}
}

func (r rank) compare(o rank) int {
	if r.standby != o.standby {
		if r.standby {
			return 1
		}
		return -1
	}
	return r.done.Compare(o.done)
}

// waiter waits for a seat, or for pages.
type waiter struct {
	rank  rank
	seat  bool
	pages int
	// holds says that the waiter has a chunk that it can send to its database instead.
	holds bool
	given chan bool // of one: false is a refusal
}

const (
	// fetchBytes bounds an answer; a larger single batch still comes whole. A seat is two of them:
	// one is decoded while the other comes.
	fetchBytes = 1 << 20
	seatPages  = 2 * fetchBytes / pageSize
	// pagesMin is what a restore can work with.
	pagesMin = 8
)

// newBudget divides bytes between seats, at most as many as are asked for, and pages.
func newBudget(bytes int64, seats int) *budget {
	pages := max(int(bytes/pageSize), pagesMin)
	seats = max(1, min(seats, pages/(4*seatPages)))
	pages -= seats * seatPages
	return &budget{seats: seats, pages: pages, pagesMax: pages, seatsMax: seats}
}

// chunkPages is the most that a chunk takes: while one goes to its database the next one can be
// filled. Its entries cannot name more pages than chunkPagesMax.
func (b *budget) chunkPages() int { return min(b.pagesMax/2, chunkPagesMax) }

// memory returns the bytes in use and in total. Seats count as if their answers were full.
func (b *budget) memory() (used, all int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	used = int64(b.pagesMax - b.pages + (b.seatsMax-b.seats)*seatPages)
	return used * pageSize, int64(b.pagesMax+b.seatsMax*seatPages) * pageSize
}

// sit waits for a seat.
func (b *budget) sit(ctx context.Context, r rank) error {
	_, err := b.wait(ctx, &waiter{rank: r, seat: true})
	return err
}

// activeWaits reports whether a restore of a task that is to work waits for a seat or for pages.
func (b *budget) activeWaits() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.ContainsFunc(b.waiters, func(w *waiter) bool { return !w.rank.standby })
}

// stand gives a seat back.
func (b *budget) stand() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seats++
	b.next()
	b.trim()
}

// trim releases the spare memory when no restore needs it. The caller holds the lock.
func (b *budget) trim() {
	if b.seats == b.seatsMax && b.pages == b.pagesMax {
		b.spare, b.spareIndexes = nil, nil
	}
}

// take waits for pages. It returns false if there are none and holds says that there is a chunk
// which can go to its database instead.
func (b *budget) take(ctx context.Context, r rank, pages int, holds bool) (bool, error) {
	return b.wait(ctx, &waiter{rank: r, pages: pages, holds: holds})
}

func (b *budget) wait(ctx context.Context, w *waiter) (bool, error) {
	w.given = make(chan bool, 1)
	b.mu.Lock()
	at, _ := slices.BinarySearchFunc(b.waiters, w, func(a, w *waiter) int {
		return cmp.Or(a.rank.compare(w.rank), -1) // behind its equals
	})
	b.waiters = slices.Insert(b.waiters, at, w)
	b.next()
	b.mu.Unlock()
	select {
	case given := <-w.given:
		return given, nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiters = slices.DeleteFunc(b.waiters, func(o *waiter) bool { return o == w })
	select {
	case given := <-w.given: // at the same time
		if given {
			b.put(w)
		}
	default:
	}
	b.next()
	return false, ctx.Err()
}

// put takes back what a waiter was given.
func (b *budget) put(w *waiter) {
	b.pages += w.pages
	if w.seat {
		b.seats++
	}
}

// release gives pages back.
func (b *budget) release(pages int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pages += pages
	b.next()
	b.trim()
}

// load counts a chunk that is on its way to a database. The function that is returned ends that.
func (b *budget) load() (done func()) {
	b.add(1)
	return func() { b.add(-1) }
}

func (b *budget) add(loading int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.loading += loading
	b.next()
}

// next gives free seats and pages to the waiters in their order. A later waiter gets no pages while
// an earlier one needs more than are free. The caller holds the lock.
func (b *budget) next() {
	short := false
	b.waiters = slices.DeleteFunc(b.waiters, func(w *waiter) bool {
		switch {
		case w.seat && b.seats > 0:
			b.seats--
		case w.seat:
			return false
		case !short && (w.pages <= b.pages || b.pages == b.pagesMax):
			b.pages -= w.pages
		case w.holds && b.loading == 0:
			w.given <- false
			return true
		default:
			short = true
			return false
		}
		w.given <- true
		return true
	})
}

// page returns memory for a page that was taken.
func (b *budget) page() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := len(b.spare); n > 0 {
		page := b.spare[n-1]
		b.spare = b.spare[:n-1]
		return page
	}
	b.drop()
	return make([]byte, pageSize)
}

// index returns memory for entries of pages that were taken.
func (b *budget) index(pages int) []entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, index := range b.spareIndexes {
		if cap(index) == pages*entriesPerPage {
			b.spareIndexes = slices.Delete(b.spareIndexes, i, i+1)
			return index[:0]
		}
	}
	b.drop()
	return make([]entry, 0, pages*entriesPerPage)
}

// drop releases spare memory until it is no more than the free pages, because new memory takes its
// place. The caller holds the lock.
func (b *budget) drop() {
	all := len(b.spare)
	for _, index := range b.spareIndexes {
		all += cap(index) / entriesPerPage
	}
	for ; all > b.pages && len(b.spareIndexes) > 0; b.spareIndexes = b.spareIndexes[1:] {
		all -= cap(b.spareIndexes[0]) / entriesPerPage
	}
	if over := min(all-b.pages, len(b.spare)); over > 0 {
		b.spare = slices.Delete(b.spare, 0, over)
	}
}

// keep takes back the memory of a chunk for later chunks. The caller releases the pages of the
// chunk separately.
func (b *budget) keep(c *chunk) {
	pages, index := c.reset()
	b.keepIndex(index)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, page := range pages {
		if len(page) == pageSize {
			b.spare = append(b.spare, page)
		}
	}
}

// keepIndex takes back the memory of an index.
func (b *budget) keepIndex(index []entry) {
	if cap(index) == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spareIndexes = append(b.spareIndexes, index)
}
