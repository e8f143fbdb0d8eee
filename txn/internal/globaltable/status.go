package globaltable

import (
	"fmt"
	"sync"
	"time"

	"github.com/onceward/onceward/state"
)

// State is what a table is doing.
type State string

// The states.
const (
	// Restoring: it is read to the ends of its topic, and nothing is processed yet.
	Restoring State = "restoring"
	Running   State = "running"
	// Rebuilding: it is read again beside the rows that serve.
	Rebuilding State = "rebuilding"
)

// The kinds of problems.
const (
	Behind     = "global_table_behind"
	Unreadable = "global_table_unreadable"
)

// problemAfter is for how long something is wrong before it is a problem.
const problemAfter = 30 * time.Second

// Problem is something that is wrong with a table for long.
type Problem struct {
	// Kind is Behind or Unreadable.
	Kind  string
	Text  string
	Since time.Time
}

// Status is a picture of a table.
type Status struct {
	Store, Topic string
	State        State
	// Cause is why it is read from the start, empty if it is not.
	Cause Cause
	// Records and Skipped count since the process started.
	Records, Skipped int64
	// Remaining is how many offsets are left of a restore, Lag how many from the position to the
	// stable ends that were listed last.
	Remaining, Lag int64
	Problem        *Problem
}

// Status returns a picture of each table, in the order of their stores.
func (ts *Tables) Status() []Status {
	if ts == nil {
		return nil
	}
	var out []Status
	for _, t := range ts.tables {
		out = append(out, t.status(time.Now()))
	}
	return out
}

// told is what a table tells of itself.
type told struct {
	mu               sync.Mutex
	state            State
	cause            Cause
	records, skipped int64
	// reading and targets are those of a restore or rebuild, nil while there is none.
	reading *reading
	targets map[int32]int64
	// ends are those that were listed last.
	ends map[int32]int64
	lag  int64
	// failed is the last failure since one look at the topic went well, and failedSince when the
	// first one was.
	failed      error
	failedSince time.Time
	// lateSince is since when the table does not reach what was listed before, zero if it does.
	lateSince time.Time
	// problem is the kind of the problem that was logged, empty if there is none.
	problem string
}

func (s *told) begin(now State, cause Cause, r *reading, targets map[int32]int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state, s.cause, s.reading, s.targets, s.ends = now, cause, r, targets, nil
	if now == Rebuilding && s.lateSince.IsZero() {
		s.lateSince = time.Now()
	}
}

func (s *told) serve() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state, s.cause, s.reading, s.targets, s.lateSince = Running, "", nil, nil, time.Time{}
}

func (s *told) read(records, skipped int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records += records
	s.skipped += skipped
}

func (s *told) fail(err error, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = err
	if s.failedSince.IsZero() {
		s.failedSince = now
	}
}

func (s *told) succeed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed, s.failedSince = nil, time.Time{}
}

// listed takes the ends at a time, and reports whether something of them is missing.
func (s *told) listed(ends map[int32]int64, at state.Positions, topic string, now time.Time) (missing bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	late := false
	s.lag = 0
	for p, end := range ends {
		in, _ := at.Input(topic, p)
		s.lag += max(end-in.Offset, 0)
		late = late || in.Offset < s.ends[p] // which were there one look before
	}
	s.ends = ends
	switch {
	case !late:
		s.lateSince = time.Time{}
	case s.lateSince.IsZero():
		s.lateSince = now
	}
	return s.lag > 0
}

// status is a picture of the table.
func (t *table) status(now time.Time) Status {
	t.told.mu.Lock()
	defer t.told.mu.Unlock()
	s := &t.told
	out := Status{
		Store: t.info.Name, Topic: t.info.Topic(), State: s.state, Cause: s.cause, Records: s.records, Skipped: s.skipped, Lag: s.lag,
	}
	if out.State == "" {
		out.State = Restoring // nothing is open yet
	}
	if s.reading != nil {
		at := s.reading.db.Positions()
		for p, target := range s.targets {
			in, _ := at.Input(out.Topic, p)
			out.Remaining += max(target-in.Offset, 0)
		}
	}
	switch {
	case !s.failedSince.IsZero() && now.Sub(s.failedSince) >= problemAfter:
		out.Problem = &Problem{Unreadable, fmt.Sprintf("global table %s cannot be brought up to date with topic %s: %v", out.Store, out.Topic,
			s.failed), s.failedSince}
	case s.lateSince.IsZero() || now.Sub(s.lateSince) < problemAfter:
	case out.State == Rebuilding:
		out.Problem = &Problem{Behind, fmt.Sprintf("global table %s is rebuilt from topic %s (%s): %d offsets are left, and joins meet the rows "+
			"of before", out.Store, out.Topic, out.Cause, out.Remaining), s.lateSince}
	default:
		out.Problem = &Problem{Behind, fmt.Sprintf("global table %s is behind topic %s: %d offsets are left, and joins meet old rows",
			out.Store, out.Topic, out.Lag), s.lateSince}
	}
	return out
}

// tell logs that a problem has begun or is over.
func (t *table) tell() {
	s := t.status(time.Now())
	kind := ""
	if s.Problem != nil {
		kind = s.Problem.Kind
	}
	t.told.mu.Lock()
	before := t.told.problem
	t.told.problem = kind
	t.told.mu.Unlock()
	switch {
	case kind == before:
	case kind == "":
		t.log.Info("a global table is up to date again")
	default:
		t.log.Error("a global table is not up to date", "problem", kind, "error", s.Problem.Text)
	}
}
