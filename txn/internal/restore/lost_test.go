package restore

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/state"
)

// TestLostRowsStopTheTask: a task stops when a store could still read what the brokers may have
// deleted of its changelog, and only then. With AcceptLostRows that is logged.
func TestLostRowsStopTheTask(t *testing.T) {
	layout := state.Layout{Kind: state.DedupeKind, Retention: time.Hour.Milliseconds()}
	now := time.UnixMilli(1_800_000_000_000)
	changelog := Changelog{Store: "ids", Topic: "app-ids-changelog", LogStart: 10, Deletes: true, Retention: 25 * time.Hour, Layout: layout}
	for name, tc := range map[string]struct {
		streamTime time.Time
		change     func(*Replay)
		scanned    int64
		lost       bool
	}{
		"the clock and the stream time go together": {streamTime: now},
		"old input":                               {streamTime: now.Add(-30 * 24 * time.Hour), lost: true},
		"old input, and all of it is here":        {streamTime: now.Add(-30 * 24 * time.Hour), scanned: 10},
		"old input, and a store restored in full": {streamTime: now.Add(-30 * 24 * time.Hour), scanned: 10, lost: true, change: func(r *Replay) { r.Full = Expired }},
		"old input, and nothing is missing":       {streamTime: now.Add(-30 * 24 * time.Hour), scanned: 9, change: func(r *Replay) { r.Target = 9 }},
		"nothing was deleted":                     {streamTime: now.Add(-30 * 24 * time.Hour), change: func(r *Replay) { r.LogStart = 0 }},
		"only the owner deletes":                  {streamTime: now.Add(-30 * 24 * time.Hour), change: func(r *Replay) { r.Retention = 0 }},
		"nothing was ever in it":                  {streamTime: now.Add(-30 * 24 * time.Hour), change: func(r *Replay) { r.Target = 0 }},
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
		found := Found{Task: o.req.Task, Changelogs: []Changelog{r.Changelog}, Now: now}
		err := o.checkLost(found, []Replay{r})
		if errors.Is(err, ErrLostRows) != tc.lost || tc.lost && !strings.Contains(err.Error(), "app-ids-changelog[1], which begins at offset 10") ||
			tc.lost && !strings.Contains(err.Error(), "--accept-lost-rows") || log.Len() > 0 {
			t.Errorf("%s: %v, and it was logged %q", name, err, log.String())
		}
		o.r.AcceptLostRows = true
		if err := o.checkLost(found, []Replay{r}); err != nil || strings.Contains(log.String(), "app-ids-changelog") != tc.lost {
			t.Errorf("%s, and accepted: %v, %q", name, err, log.String())
		}
	}
}
