package task

import (
	"slices"
	"testing"

	"github.com/onceward/onceward/topology/graph"
)

// TestCounts: every outcome has one sum, in whatever order records count them, and however many
// there are of one.
func TestCounts(t *testing.T) {
	var c Contribution
	units := [][]graph.OutcomeCount{
		{{Node: "inbox", Outcome: "accepted", N: 1}, {Node: "ledger", Outcome: "posted", N: 1}},
		{{Node: "inbox", Outcome: "accepted", N: 1}, {Node: "ledger", Outcome: "posted", N: 1}},
		{{Node: "inbox", Outcome: "duplicates", N: 1}},
		{},
		{{Node: "ledger", Outcome: "posted", N: 3}, {Node: "inbox", Outcome: "posted", N: 2}, {Node: "inbox", Outcome: "accepted", N: 5}},
	}
	for _, counts := range units {
		for i := range counts {
			c.count(&counts[i])
		}
	}
	want := []graph.OutcomeCount{
		{Node: "inbox", Outcome: "accepted", N: 7},
		{Node: "ledger", Outcome: "posted", N: 5},
		{Node: "inbox", Outcome: "duplicates", N: 1},
		{Node: "inbox", Outcome: "posted", N: 2},
	}
	if !slices.Equal(c.Counts, want) {
		t.Errorf("the sums are %v, want %v", c.Counts, want)
	}
}
