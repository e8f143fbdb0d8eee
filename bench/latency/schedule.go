package latency

import "time"

// Schedule says when each event is due. Events are numbered from 0.
type Schedule struct {
	Start time.Time
	// Rate is events per second.
	Rate int
}

// Due returns when an event should be sent.
func (s Schedule) Due(event uint64) time.Time { return s.Start.Add(s.offset(event)) }

// offset returns when an event should be sent, counted from the start.
func (s Schedule) offset(event uint64) time.Duration {
	return time.Duration(event) * time.Second / time.Duration(s.Rate)
}

// DueAt returns how many events are due at that time; it is also the number of the next one.
func (s Schedule) DueAt(at time.Time) uint64 {
	since := at.Sub(s.Start)
	if since < 0 {
		return 0
	}
	// In two parts, because nanoseconds times a rate would overflow within a quarter of an hour.
	seconds, rest := since/time.Second, since%time.Second
	return uint64(seconds)*uint64(s.Rate) + uint64(rest*time.Duration(s.Rate)/time.Second) + 1
}

// Event returns the event that is due at that time, in nanoseconds since the epoch. There is none
// for most times.
func (s Schedule) Event(clock int64) (event uint64, ok bool) {
	since := time.Duration(clock - s.Start.UnixNano())
	if since < 0 {
		return 0, false
	}
	// Due rounds down to nanoseconds, so the next whole number is the one.
	seconds, rest := since/time.Second, since%time.Second
	event = uint64(seconds)*uint64(s.Rate) + uint64((rest*time.Duration(s.Rate)+time.Second-1)/time.Second)
	return event, s.offset(event) == since
}
