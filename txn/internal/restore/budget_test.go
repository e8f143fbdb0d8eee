package restore

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestBudgetDivides(t *testing.T) {
	for _, tc := range []struct {
		bytes        int64
		asked        int
		seats, pages int
	}{
		{0, 4, 1, pagesMin - seatPages}, {64 << 20, 4, 4, 64 - 4*seatPages}, {16 << 20, 8, 2, 16 - 2*seatPages}, {64 << 20, 0, 1, 64 - seatPages},
	} {
		b := newBudget(tc.bytes, tc.asked)
		if b.seats != tc.seats || b.pages != tc.pages {
			t.Errorf("%d bytes for %d: %d seats and %d pages, want %d and %d", tc.bytes, tc.asked, b.seats, b.pages, tc.seats, tc.pages)
		}
	}
}

// TestBudgetChunkFitsItsEntries: with much memory a chunk would have more pages than its entries
// can name, and writes would take each other's place.
func TestBudgetChunkFitsItsEntries(t *testing.T) {
	pages := newBudget(64<<30, 2).chunkPages()
	last := entry{at: uint32(pages-1) << pageBits}
	if int(last.at>>pageBits) != pages-1 {
		t.Errorf("a chunk has up to %d pages, and an entry in its last one names page %d", pages, last.at>>pageBits)
	}
}

// TestBudgetOrder: seats go to active tasks before standbys, to the short before the long, and to
// the long before the short that came later by more than the difference.
func TestBudgetOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(0, 1)
		now := time.Now()
		if err := b.sit(t.Context(), rank{}); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var got []string
		var all sync.WaitGroup
		for _, w := range []struct {
			name string
			rank rank
		}{
			{"standby", newRank(true, now.Add(-time.Hour), 0)},
			{"long", newRank(false, now, 5*rankRate)},
			{"short", newRank(false, now, 10)},
			{"short and later", newRank(false, now.Add(3*time.Second), 10)},
			{"short and too late", newRank(false, now.Add(6*time.Second), 10)},
		} {
			all.Go(func() {
				if err := b.sit(t.Context(), w.rank); err != nil {
					t.Error(err)
				}
				mu.Lock()
				got = append(got, w.name)
				mu.Unlock()
				b.stand()
			})
		}
		synctest.Wait()
		b.stand()
		all.Wait()
		if want := []string{"short", "short and later", "long", "short and too late", "standby"}; !slices.Equal(got, want) {
			t.Errorf("the order is %q, want %q", got, want)
		}
		if b.seats != 1 || b.pages != b.pagesMax {
			t.Errorf("%d seats and %d of %d pages are left", b.seats, b.pages, b.pagesMax)
		}
	})
}

// TestBudgetNeverStuck: a chunk that cannot grow waits while another one is loaded, and is sent
// away when none is.
func TestBudgetNeverStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(0, 1)
		all := b.pagesMax
		if ok, err := b.take(t.Context(), rank{}, all, false); !ok || err != nil {
			t.Fatal(ok, err)
		}
		if ok, err := b.take(t.Context(), rank{}, 1, true); ok || err != nil {
			t.Fatalf("a chunk was made to wait for pages that no chunk gives back: %t, %v", ok, err)
		}
		loaded := b.load()
		got := make(chan bool, 2)
		ask := func() {
			ok, err := b.take(t.Context(), rank{}, 1, true)
			if err != nil {
				t.Error(err)
			}
			got <- ok
		}
		go ask()
		go ask()
		synctest.Wait()
		if len(got) != 0 {
			t.Fatal("no waiter waits for the chunk that is loaded")
		}
		b.release(1)
		loaded()
		if a, b := <-got, <-got; a == b {
			t.Errorf("one page for two chunks: both got %t", a)
		}
		b.release(all) // one was taken again
		if b.pages != all {
			t.Errorf("%d pages, want %d", b.pages, all)
		}
	})
}

// TestBudgetFirstPageWaits: a restore without a page waits behind the earlier ones, and a large
// record is taken when everything is free.
func TestBudgetFirstPageWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(0, 1)
		all := b.pagesMax
		if _, err := b.take(t.Context(), rank{}, 1, false); err != nil {
			t.Fatal(err)
		}
		order := make(chan int, 2)
		for i, pages := range []int{all + 5, 1} {
			go func() {
				if ok, err := b.take(t.Context(), rank{done: time.Unix(int64(i), 0)}, pages, false); !ok || err != nil {
					t.Error(ok, err)
				}
				order <- pages
				b.release(pages)
			}()
			synctest.Wait()
		}
		if len(order) != 0 {
			t.Error("a later one has overtaken a larger one: that one could wait for ever")
		}
		b.release(1)
		if first := <-order; first != all+5 {
			t.Errorf("the first one has %d pages", first)
		}
		<-order
	})
}

// TestBudgetCancelled: who gives up while waiting leaves nothing behind, also when it was given
// something at that moment.
func TestBudgetCancelled(t *testing.T) {
	for range 200 {
		b := newBudget(0, 1)
		if err := b.sit(t.Context(), rank{}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			switch err := b.sit(ctx, rank{}); {
			case err == nil:
				b.stand()
			case !errors.Is(err, context.Canceled):
				t.Error(err)
			}
		})
		all.Go(cancel)
		all.Go(b.stand)
		all.Wait()
		if used, _ := b.memory(); used != 0 || b.seats != 1 || len(b.waiters) != 0 {
			t.Fatalf("%d seats, %d bytes in use, %d waiters", b.seats, used, len(b.waiters))
		}
	}
}
