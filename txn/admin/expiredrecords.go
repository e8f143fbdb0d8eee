package admin

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/state"
)

// Rows expire by the stream time of their store. Brokers delete by the clock: they delete the
// beginning of the changelog of windows, sessions, series and ids, and compact that of a history.
// If the two times go together, the broker is a day behind. If they do not, because old input is
// processed or the input stands still, a changelog has lost rows that its store still has. Such
// rows are not reported as a difference, and cannot be reported as equal.

// clockMargin is how far the clocks of the brokers may be ahead of this one.
const clockMargin = time.Hour

// deletes reports whether the broker deletes the beginning of the changelog by itself.
func (r *replay) deletes() bool {
	policy, known := r.setting("cleanup.policy")
	return r.outcome.Layout.Segmented() && (!known || strings.Contains(policy, "delete"))
}

func (r *replay) setting(name string) (value string, known bool) {
	s, known := r.topics[r.outcome.Changelog].Settings[name]
	return s.Value, known
}

// lostBefore returns the time in milliseconds before which records may be gone without a later one
// that tells: all of them of a changelog that deletes, superseded ones of a history. It is
// math.MinInt64 where none may be, and math.MaxInt64 where any may be, or where that is not known
// because the configuration may not be seen.
func (r *replay) lostBefore(now time.Time) int64 {
	before := func(setting string) int64 {
		text, _ := r.setting(setting)
		switch ms, err := strconv.ParseInt(text, 10, 64); {
		case err != nil:
			return math.MaxInt64
		case ms < 0:
			return math.MinInt64 // never
		default:
			return now.Add(clockMargin).UnixMilli() - ms
		}
	}
	o := r.outcome
	switch {
	case o.Layout.Kind == state.VersionedKind:
		return before("min.compaction.lag.ms")
	case !r.deletes() || o.Start == 0: // nothing but its beginning is ever deleted
		return math.MinInt64
	case o.Start >= o.Position: // all that the state was made of
		return math.MaxInt64
	}
	if bytes, known := r.setting("retention.bytes"); known && bytes != "-1" {
		return math.MaxInt64
	}
	return before("retention.ms")
}

// lost reports whether the changelog may have lost the record of a row that only the state has.
func (r *replay) lost(d *Difference) bool {
	if d.Kind != Extra || r.before == math.MinInt64 {
		return false
	}
	record, err := r.outcome.Layout.Record(state.Write{Key: d.Key, Value: d.Local})
	return err == nil && record.Timestamp < r.before
}

// expired reports whether the row of a store in segments has expired: it may be there or not.
func (r *replay) expired(d *Difference) bool {
	l := r.outcome.Layout
	if !l.Segmented() {
		return false
	}
	ms, err := l.RowTime(state.Write{Key: d.Key, Value: d.row()})
	return err == nil && !l.Live(ms, r.streamTime())
}

func (r *replay) streamTime() int64 {
	at, _ := r.outcome.Positions.Changelog(r.outcome.Store)
	return at.StreamTime
}
