package topology

import (
	"fmt"
	"time"
)

// JoinWindows say which records of two streams meet: those of one key whose timestamps are near
// each other. They are made with [Within], and are a value.
type JoinWindows struct{ before, after, grace time.Duration }

// Within has records meet whose timestamps are at most d apart.
func Within(d time.Duration) JoinWindows { return JoinWindows{before: d, after: d} }

// Before returns w with another limit for the past: a record of the left stream meets records of
// the right one that are at most d older. A negative d is how much younger they have to be at
// least.
func (w JoinWindows) Before(d time.Duration) JoinWindows {
	w.before = d
	return w
}

// After returns w with another limit for the future: a record of the left stream meets records of
// the right one that are at most d younger. A negative d is how much older they have to be at
// least.
func (w JoinWindows) After(d time.Duration) JoinWindows {
	w.after = d
	return w
}

// Grace returns w with time for late records: a record waits for a partner until the stream time of
// the join is that long behind the end of its window. The default is none.
func (w JoinWindows) Grace(grace time.Duration) JoinWindows {
	w.grace = grace
	return w
}

// String returns all limits; two values of the same string are the same.
func (w JoinWindows) String() string {
	return fmt.Sprintf("from %s before to %s after, grace %s", w.before, w.after, w.grace)
}

func (w JoinWindows) check() error {
	whole := func(d time.Duration) bool { return d%time.Millisecond == 0 }
	limit := func(d time.Duration) bool { return -windowsMax <= d && d <= windowsMax && whole(d) }
	switch {
	case !limit(w.before) || !limit(w.after):
		return fmt.Errorf("the limits of a join are whole milliseconds, at most 100 years, not %s before and %s after",
			w.before, w.after)
	case w.before+w.after < 0:
		return fmt.Errorf("a join from %s before to %s after ends before it begins", w.before, w.after)
	case w.grace < 0 || w.grace > windowsMax || !whole(w.grace):
		return fmt.Errorf("the grace of a join is whole milliseconds, from 0 to 100 years, not %s", w.grace)
	}
	return nil
}

// retention is how long the stores of such a join keep a record. It is what Kafka Streams has, the
// width of the window and the grace, and a millisecond more where a record would go before the last
// moment at which it can find a partner.
func (w JoinWindows) retention() time.Duration {
	return max(w.before+w.after, w.before+time.Millisecond, w.after+time.Millisecond) + w.grace
}
