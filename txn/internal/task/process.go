package task

import (
	"time"

	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/broker"
)

// Process runs one entry through the graph. The verdict's outputs are valid until the next call.
func (t *Task) Process(e Entry) graph.Verdict {
	if e.Record == nil {
		return t.Graph.Punctuate(*e.Punctuation)
	}
	r := e.Record
	timestamp, before := r.Timestamp.UnixMilli(), t.streamTime()
	input := graph.Input{
		Topic: r.Topic, Partition: r.Partition, Offset: r.Offset,
		Timestamp: timestamp, TimestampType: graph.TimestampType(max(r.Attrs.TimestampType(), 0)),
		StreamTimeBefore: before, StreamTime: max(before, timestamp),
		Key: r.Key, Value: r.Value, Headers: t.headers.of(r.Headers),
		Attempt: 1,
	}
	if t.queue.inputs[e.Input].delay > 0 {
		input.StreamTime = before // the graph knows the record's own time
	}
	if t.retry.is(e) {
		input.Attempt, input.FirstFailure = t.retry.attempts+1, t.retry.firstFailure
	}
	if len(t.refused) > 0 {
		if why, ok := t.refused[e.place()]; ok {
			return t.Graph.Refuse(input, why)
		}
	}
	return t.Graph.Process(input)
}

// eventTime is the time by which a record takes its turn where its source has an EventTime.
func (t *Task) eventTime(r *broker.Record) int64 {
	return t.Graph.EventTime(graph.Input{
		Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli(), StreamTimeBefore: t.streamTime(),
		Key: r.Key, Value: r.Value, Headers: t.headers.of(r.Headers),
	})
}

// Punctuate makes the punctuations that are due the next entries, after what is to be run again. A
// punctuation that was taken stays with the task through retries and aborts; the next firing is
// planned at once. While some are waiting no others are planned: a task that may not work for a
// while would collect them.
func (t *Task) Punctuate(now time.Time) {
	if len(t.timers) > 0 {
		return
	}
	for {
		p, ok := t.Graph.Due(now)
		if !ok {
			break
		}
		t.timers = append(t.timers, Entry{Input: -1, Punctuation: &p})
	}
	for range releasesMax {
		p, ok := t.Graph.DueRelease()
		if !ok {
			return
		}
		t.timers = append(t.timers, Entry{Input: -1, Punctuation: &p})
	}
}

// releasesMax bounds how many parked records are taken at a time. With as many records to process,
// they take turns.
const releasesMax = 128

// yields reports whether the next release lets a record go first. Parked records come back in large
// numbers, and the other keys keep their speed.
func (t *Task) yields() bool {
	if !t.timers[0].isRelease() {
		return false
	}
	t.yielded = !t.yielded
	return t.yielded
}

// NextPunctuation is when Punctuate has something to do next; ok is false when there are no
// schedules of the wall clock, and nothing is parked.
func (t *Task) NextPunctuation() (at time.Time, ok bool) {
	at, ok = t.Graph.NextDue()
	if release, parked := t.Graph.NextRelease(); parked && (!ok || release.Before(at)) {
		return release, true
	}
	return at, ok
}

// NextDelayed is when the first record of a delayed retry topic is due; ok is false while none
// waits.
func (t *Task) NextDelayed() (at time.Time, ok bool) {
	for i := range t.queue.inputs {
		f := &t.queue.inputs[i]
		if f.delay > 0 && f.len() > 0 && (!ok || f.dueAt().Before(at)) {
			at, ok = f.dueAt(), true
		}
	}
	return at, ok
}

// MoveTime moves the stream time of an input up to eventTime, for a record of it that was parked or
// delayed and has been processed now.
func (t *Task) MoveTime(topic string, eventTime int64) {
	if i, ok := t.Input(topic); ok {
		t.inputs[i].StreamTime = max(t.inputs[i].StreamTime, eventTime)
	}
}

// Refuse makes a record go to its error policy instead of being processed, each time its turn
// comes: its output was refused for good. For a parked record the entry keeps this, and a search
// finds the record again after another pause. why quotes nothing of the record.
func (t *Task) Refuse(e Entry, why string) {
	if e.isRelease() {
		e.Punctuation.Refuse(why)
		return
	}
	if t.refused == nil {
		t.refused = map[place]string{}
	}
	t.refused[e.place()] = why
}

// Refused reports whether the record is one that Refuse was called for.
func (t *Task) Refused(e Entry) bool {
	if e.isRelease() {
		return e.Punctuation.Refused()
	}
	_, ok := t.refused[e.place()]
	return ok
}
