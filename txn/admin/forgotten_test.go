package admin

import (
	"testing"

	"github.com/onceward/onceward/state"
)

// TestForgottenWindow: a window is out of sight by its start, however late its last value was.
func TestForgottenWindow(t *testing.T) {
	const minute = 60_000
	layout := state.Layout{Kind: state.WindowKind, Retention: 10 * minute}
	key := []byte("k\x00\x00\x00\x00\x00\x00\xea\x60\x00\x00\x00\x00") // the window of the first minute
	row, err := layout.Row(state.ChangelogRecord{Key: key, Value: []byte("v"), Timestamp: 9 * minute})
	if err != nil {
		t.Fatal(err)
	}
	for streamTime, want := range map[int64]bool{10 * minute: false, 12 * minute: true} {
		r := &replay{outcome: &Verification{Store: "w", Layout: layout}}
		r.outcome.Positions.Changelogs = []state.Changelog{{Store: "w", StreamTime: streamTime}}
		if got := r.forgotten(&Difference{Key: row.Key, Local: row.Value}); got != want {
			t.Errorf("at %d: %t", streamTime, got)
		}
	}
}
