package failpoint_test

import (
	"slices"
	"testing"

	"github.com/onceward/onceward/txn/internal/failpoint"
)

func TestPointsAreNamedOnce(t *testing.T) {
	seen := map[failpoint.Point]bool{}
	for _, p := range slices.Concat(failpoint.Points, failpoint.LetterPoints) {
		if seen[p] || !failpoint.Known(p) {
			t.Errorf("point %s is named twice, or not known", p)
		}
		seen[p] = true
	}
}
