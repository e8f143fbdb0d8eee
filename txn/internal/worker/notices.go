package worker

import (
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"
)

// noticeEvery is how often one reason is logged, at most.
const noticeEvery = time.Minute

// notices are the log lines about single records. A reason (what happened, at which node, for which
// class of failure) is logged when it first happens, with the record. Within noticeEvery further
// ones are counted only; then one line has their number. A record that is run again is counted
// again. It belongs to the compute goroutine.
type notices struct {
	log  *slog.Logger
	open map[reason]*counted
}

// reason is what lines of the log have in common.
type reason struct{ what, node, detail string }

type counted struct {
	until time.Time
	more  int64
}

func newNotices(log *slog.Logger) notices { return notices{log, map[reason]*counted{}} }

// tell logs that something has happened n times, or counts it.
func (s *notices) tell(now time.Time, r reason, n int64, attrs ...any) {
	if c := s.open[r]; c != nil {
		c.more += n
		return
	}
	s.open[r] = &counted{until: now.Add(noticeEvery)}
	s.log.Warn(r.what, attrs...)
}

// flush logs what was counted until now.
func (s *notices) flush(now time.Time) {
	for _, r := range slices.SortedFunc(maps.Keys(s.open), func(a, b reason) int {
		return strings.Compare(a.what+a.node+a.detail, b.what+b.node+b.detail)
	}) {
		c := s.open[r]
		switch {
		case now.Before(c.until):
		case c.more == 0:
			delete(s.open, r)
		default:
			s.log.Warn(r.what, "node", r.node, "why", r.detail, "more", c.more)
			c.until, c.more = now.Add(noticeEvery), 0
		}
	}
}

// end logs what was counted and not logged yet.
func (s *notices) end() {
	for _, c := range s.open {
		c.until = time.Time{}
	}
	s.flush(time.Now())
}
