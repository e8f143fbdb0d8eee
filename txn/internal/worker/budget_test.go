package worker

import (
	"testing"
	"time"
)

// drive lets a worker that always has something commit whenever it may, and returns how many
// transactions of so many markers it had.
func drive(b *Budget, seconds, markers int, interval time.Duration) (commits int) {
	now := time.Unix(0, 0)
	end := now.Add(time.Duration(seconds) * time.Second)
	last := now
	for now.Before(end) {
		at := min(b.freeAt(now).Sub(last), interval) // never beyond the maximum
		now = last.Add(max(at, 5*time.Millisecond))
		b.spend(now, markers)
		last = now
		commits++
	}
	return commits
}

func TestBudget(t *testing.T) {
	for _, tc := range []struct {
		name            string
		perSecond       int
		markers         int
		least, most     int // commits in 10 s
		wantedOverspent bool
	}{
		{"far below: every 5 ms", 2000, 5, 1990, 2010, false},
		{"none", 0, 1000, 1990, 2010, false},
		{"stretched", 2000, 100, 200, 225, false}, // 20 commits a second, and a second's worth in advance
		{"never beyond the maximum", 2000, 1000, 100, 110, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			told := 0
			b := NewBudget(tc.perSecond, func() { told++ })
			commits := drive(b, 10, tc.markers, 100*time.Millisecond)
			if commits < tc.least || commits > tc.most {
				t.Errorf("%d commits, want %d to %d", commits, tc.least, tc.most)
			}
			if want := map[bool]int{true: 1}[tc.wantedOverspent]; told != want {
				t.Errorf("overspending was told %d times, want %d", told, want)
			}
			if got := b.Spent(); got != int64(commits*tc.markers) {
				t.Errorf("%d markers were counted, want %d", got, commits*tc.markers)
			}
		})
	}
}
