package admin

import (
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/txn/internal/broker"
)

// TestExpiredWindow: a window is out of sight by its start, however late its last value was.
func TestExpiredWindow(t *testing.T) {
	const minute = 60_000
	layout := state.Layout{Kind: state.WindowKind, Retention: 10 * minute}
	key := []byte("k\x00\x00\x00\x00\x00\x00\xea\x60\x00\x00\x00\x00") // the window of the first minute
	row, err := layout.Row(state.ChangelogRecord{Key: key, Value: []byte("v"), Timestamp: 9 * minute})
	if err != nil {
		t.Fatal(err)
	}
	for streamTime, want := range map[int64]bool{10 * minute: false, 12 * minute: true} {
		r := &replay{intake: intake{outcome: &Verification{Store: "w", Layout: layout}}}
		r.outcome.Positions.Changelogs = []state.Changelog{{Store: "w", StreamTime: streamTime}}
		if got := r.expired(&Difference{Key: row.Key, Local: row.Value}); got != want {
			t.Errorf("at %d: %t", streamTime, got)
		}
	}
}

// TestLostBefore: what a history may have lost to compaction is older than its topic's lag, and
// nothing is known without the settings.
func TestLostBefore(t *testing.T) {
	const lag = 7_200_000
	now := time.UnixMilli(1_800_000_000_000)
	r := &replay{intake: intake{verifier: &verifier{topics: map[string]broker.TopicInfo{}}, outcome: &Verification{
		Changelog: "log", Layout: state.Layout{Kind: state.VersionedKind, Retention: 60_000},
	}}}
	if got := r.lostBefore(now); got != math.MaxInt64 {
		t.Errorf("without settings: %d", got)
	}
	r.topics["log"] = broker.TopicInfo{Settings: map[string]broker.Setting{"min.compaction.lag.ms": {Value: strconv.Itoa(lag)}}}
	if got, want := r.lostBefore(now), now.Add(clockMargin).UnixMilli()-lag; got != want {
		t.Errorf("before %d, want %d", got, want)
	}
	r.outcome.Layout = state.Layout{}
	if got := r.lostBefore(now); got != math.MinInt64 {
		t.Errorf("a key-value store: %d", got)
	}
}
