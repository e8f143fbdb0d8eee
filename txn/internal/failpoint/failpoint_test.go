package failpoint_test

import (
	"testing"

	"github.com/onceward/onceward/txn/internal/failpoint"
)

func TestPointsAreNamedOnce(t *testing.T) {
	seen := map[failpoint.Point]bool{}
	for _, p := range failpoint.Points {
		if seen[p] || !failpoint.Known(p) {
			t.Errorf("point %s is named twice, or not known", p)
		}
		seen[p] = true
	}
}
