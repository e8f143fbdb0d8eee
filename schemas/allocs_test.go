//go:build !race

package schemas_test

import (
	"testing"

	"github.com/onceward/onceward/schemas"
)

// TestHashJSONAllocations keeps the per-record path free of allocations. It is not
// for the race detector, under which sync.Pool drops items at random.
func TestHashJSONAllocations(t *testing.T) {
	src := []byte(payment)
	allocs := testing.AllocsPerRun(200, func() {
		if _, err := schemas.HashJSON(src); err != nil {
			t.Fatal(err)
		}
	})
	if allocs >= 1 {
		t.Errorf("%v allocations per hash", allocs)
	}
}
