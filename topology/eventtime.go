package topology

import (
	"fmt"
	"reflect"
	"strconv"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
)

// EventTime makes f say when the event of a record happened, in place of the timestamp that the
// record has in its topic, which f finds in Timestamp. Everything goes by it from then on: windows,
// stream time, the order in which the records of several topics are taken, and the timestamps of
// what is made of the record. Where f returns an error the record fails, with the class that the
// error has. f has to return the same for the same record.
//
// The types of f are those of the source; of a [TableFrom] they are K and Option[V], because f gets
// deletes too. Other types are a mistake that Build reports.
func EventTime[K, V any](f func(r Record[K, V]) (time.Time, error)) SourceOption {
	return sourceOption(func(s *sourceSettings) { s.eventTime, s.noEventTime = f, f == nil })
}

// InvalidTimestamp says what becomes of a record whose timestamp, or whose [EventTime], is before
// the epoch: a time that no topic and no window has.
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

// OnInvalidTimestamp sets what becomes of records whose timestamp is before the epoch. The default
// is RefuseInvalid.
func OnInvalidTimestamp(what InvalidTimestamp) SourceOption {
	return sourceOption(func(s *sourceSettings) { s.invalid = what })
}

// eventTimeOf returns the function given to EventTime, nil if there is none.
func eventTimeOf[K, V any](s *sourceSettings) (f func(r Record[K, V]) (time.Time, error), err error) {
	switch {
	case s.invalid > StreamTimeForInvalid:
		return nil, fmt.Errorf("OnInvalidTimestamp: %s is none of the reactions", s.invalid)
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

// stamp sets the timestamp of r. keep is false for a record that is left out. What it cannot set
// right the caller refuses.
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

// EventTime returns the time by which a record takes its turn among those of the other inputs of
// the task, in milliseconds since the epoch: what the function given to the [EventTime] of its
// source returns, and its timestamp where there is none, or where the function fails. A runtime
// asks for the first record of each input. It costs the decoding of the record where there is such
// a function, and nothing otherwise.
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

// peek is what EventTime does for a source. A panic counts as a failure: the record has it again
// when it is processed.
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
