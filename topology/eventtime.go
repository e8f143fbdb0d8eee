package topology

import (
	"fmt"
	"reflect"
	"strconv"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
)

// EventTime makes f return when the event of a record happened. f finds the timestamp that the
// record has in its topic in Timestamp. The returned time replaces it everywhere: in windows, in
// stream time, in the order of the records of several topics, and in the timestamps of outputs. If
// f returns an error the record fails with the class of the error. f must return the same time for
// the same record.
//
// The types of f are those of the source; of a [TableFrom] they are K and Option[V], because f gets
// deletes too. Other types are a mistake that Build reports.
func EventTime[K, V any](f func(r Record[K, V]) (time.Time, error)) SourceOption {
	return sourceOption(func(s *sourceSettings) { s.eventTime, s.noEventTime = f, f == nil })
}

// InvalidTimestamp is the reaction to a record whose timestamp or [EventTime] is before the epoch.
// No topic and no window has such times.
type InvalidTimestamp uint8

// The reactions to invalid timestamps.
const (
	// RefuseInvalid makes it a Validation failure of the record: by default a dead letter.
	RefuseInvalid InvalidTimestamp = iota
	// SkipInvalid leaves the record out, and counts it as "invalid-timestamp" of the source.
	SkipInvalid
	// StreamTimeForInvalid gives the record the stream time of its task. A record that comes before
	// any other is refused.
	StreamTimeForInvalid
)

// String returns "refuse", "skip" or "stream time".
func (i InvalidTimestamp) String() string {
	switch i {
	case RefuseInvalid:
		return "refuse"
	case SkipInvalid:
		return "skip"
	case StreamTimeForInvalid:
		return "stream time"
	}
	return "invalid timestamp(" + strconv.Itoa(int(i)) + ")"
}

// OnInvalidTimestamp sets the reaction to records whose timestamp is before the epoch. The default
// is RefuseInvalid.
func OnInvalidTimestamp(what InvalidTimestamp) SourceOption {
	return sourceOption(func(s *sourceSettings) { s.invalid = what })
}

// eventTimeOf returns the function given to EventTime, nil if there is none.
func eventTimeOf[K, V any](s *sourceSettings) (f func(r Record[K, V]) (time.Time, error), err error) {
	switch {
	case s.invalid > StreamTimeForInvalid:
		return nil, fmt.Errorf("OnInvalidTimestamp: %s is no reaction", s.invalid)
	case s.noEventTime:
		return nil, fmt.Errorf("EventTime: %w", errNilFunc)
	case s.eventTime == nil:
		return nil, nil
	}
	f, ok := s.eventTime.(func(r Record[K, V]) (time.Time, error))
	if !ok {
		return nil, fmt.Errorf("EventTime: the function is a %T, and the records of the source are %s",
			s.eventTime, reflect.TypeFor[Record[K, V]]())
	}
	return f, nil
}

// clock finds the event time of the records of a source, in a graph.
type clock[K, V any] struct {
	graph     *Graph
	eventTime func(r Record[K, V]) (time.Time, error)
	invalid   InvalidTimestamp
	skipped   *Counter
}

func (x *clock[K, V]) isSet() bool { return x.eventTime != nil || x.invalid != RefuseInvalid }

// stamp sets the timestamp of r. keep is false for a record that is left out. The caller refuses a
// timestamp that stamp cannot correct.
func (x *clock[K, V]) stamp(r *Record[K, V]) (keep bool, err error) {
	before := x.graph.in.StreamTimeBefore
	if x.eventTime != nil {
		r.origin.streamTime = before // what the function can know; the record does not count yet
		at, err := x.eventTime(*r)
		if err != nil {
			return false, err
		}
		r.Timestamp = at.UnixMilli()
	}
	if r.Timestamp < 0 {
		switch x.invalid {
		case RefuseInvalid:
			// The caller does.
		case SkipInvalid:
			x.skipped.Inc()
			x.graph.setEventTime(state.NoTime)
			return false, nil
		case StreamTimeForInvalid:
			r.Timestamp = max(r.Timestamp, before)
		}
	}
	x.graph.setEventTime(r.Timestamp)
	r.origin.streamTime = x.graph.in.StreamTime
	return true, nil
}

// setEventTime replaces the timestamp by which the record at work moves the stream time.
func (g *Graph) setEventTime(ms int64) {
	g.eventTime = ms
	g.in.StreamTime = max(g.in.StreamTimeBefore, ms)
}

// EventTime returns the time that orders a record among those of the other inputs of the task, in
// milliseconds since the epoch. This is the result of the function that the [EventTime] of its
// source has. Without such a function, or if it fails, it is the timestamp. A runtime asks for the
// first record of each input. With such a function, EventTime costs the decoding of the record.
func (g *Graph) EventTime(in graph.Input) (ms int64) {
	for i := range g.sources {
		if s := &g.sources[i]; s.topic == in.Topic && s.eventTime != nil {
			return s.eventTime(&in)
		}
	}
	return in.Timestamp
}

// HasEventTime reports whether the source of a topic has an [EventTime], so that EventTime returns
// another time than the timestamp.
func (g *Graph) HasEventTime(topic string) bool {
	for i := range g.sources {
		if s := &g.sources[i]; s.topic == topic {
			return s.eventTime != nil
		}
	}
	return false
}

// peek returns the EventTime of a source. A panic counts as a failure: the record has it again when
// it is processed.
func (x *intake[K, V]) peek(in *graph.Input) (ms int64) {
	defer func() {
		if recover() != nil {
			ms = in.Timestamp
		}
	}()
	o := &origin{topic: in.Topic, partition: in.Partition, offset: in.Offset, streamTime: in.StreamTimeBefore}
	var r Record[K, V]
	if err := x.record(in, o, &r); err != nil {
		return in.Timestamp
	}
	at, err := x.clock.eventTime(r)
	if err != nil {
		return in.Timestamp
	}
	return at.UnixMilli()
}
