package restore

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/state"
)

// TestTellLost: it is said when a store could still read what the brokers have deleted of its changelog, and only then.
func TestTellLost(t *testing.T) {
	layout := state.Layout{Kind: state.DedupeKind, Retention: time.Hour.Milliseconds()}
	now := time.UnixMilli(1_800_000_000_000)
	changelog := Changelog{Store: "ids", Topic: "app-ids-changelog", LogStart: 10, Deletes: true, Retention: 25 * time.Hour, Layout: layout}
	for name, tc := range map[string]struct {
		streamTime time.Time
		change     func(*Replay)
		scanned    int64
		told       bool
	}{
		"the clock and the stream time go together": {streamTime: now},
		"old input":                               {streamTime: now.Add(-30 * 24 * time.Hour), told: true},
		"old input, and all of it is here":        {streamTime: now.Add(-30 * 24 * time.Hour), scanned: 10},
		"old input, and a store restored in full": {streamTime: now.Add(-30 * 24 * time.Hour), scanned: 10, told: true, change: func(r *Replay) { r.Full = Expired }},
		"nothing was deleted":                     {streamTime: now.Add(-30 * 24 * time.Hour), change: func(r *Replay) { r.LogStart = 0 }},
		"a topic that keeps everything":           {streamTime: now.Add(-30 * 24 * time.Hour), change: func(r *Replay) { r.Retention = 0 }},
	} {
		var log bytes.Buffer
		o := newBench(t, 0, 1, nil).opening(Store{Name: "ids", Layout: layout})
		o.log = slog.New(slog.NewTextHandler(&log, nil))
		if tc.scanned > 0 {
			at := state.Positions{Changelogs: []state.Changelog{{Store: "ids", Applied: tc.scanned, Scanned: tc.scanned}}}
			if err := o.db.Apply(state.Positions{}, at, func(func(state.Write) bool) {}); err != nil {
				t.Fatal(err)
			}
		}
		r := Replay{Changelog: changelog, Target: 20, StreamTime: tc.streamTime.UnixMilli()}
		if tc.change != nil {
			tc.change(&r)
		}
		if o.tellLost([]Replay{r}, now); strings.Contains(log.String(), "app-ids-changelog") != tc.told {
			t.Errorf("%s: %q", name, log.String())
		}
	}
}
