package failpoint_test

import (
	"slices"
	"testing"

	"github.com/onceward/onceward/txn/internal/failpoint"
)

func TestPointsAreNamedOnce(t *testing.T) {
	seen := map[failpoint.Point]bool{}
	for _, p := range slices.Concat(failpoint.Points, failpoint.DeadLetterPoints) {
		if seen[p] {
			t.Errorf("point %s is named twice", p)
		}
		seen[p] = true
	}
}

// TestZeroSet: it does nothing in any build.
func TestZeroSet(t *testing.T) {
	var s failpoint.Set
	if err := s.Hit(t.Context(), failpoint.EndAfter); err != nil || s.Armed() || s.Check() != nil {
		t.Errorf("hit: %v, armed: %t, check: %v", err, s.Armed(), s.Check())
	}
}
