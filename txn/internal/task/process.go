package task

import (
	"time"

	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/internal/broker"
)

// Process runs one entry through the graph. The verdict's outputs are valid until the next call.
func (t *Task) Process(e Entry) topology.Verdict {
	if e.Record == nil {
		return t.Graph.Punctuate(*e.Punctuation)
	}
	r := e.Record
	timestamp, before := r.Timestamp.UnixMilli(), t.streamTime()
	input := topology.Input{
		Topic: r.Topic, Partition: r.Partition, Offset: r.Offset,
		Timestamp: timestamp, TimestampType: topology.TimestampType(max(r.Attrs.TimestampType(), 0)),
		StreamTimeBefore: before, StreamTime: max(before, timestamp),
		Key: r.Key, Value: r.Value, Headers: headers(r.Headers),
		Attempt: 1,
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
	return t.Graph.EventTime(topology.Input{
		Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli(), StreamTimeBefore: t.streamTime(),
		Key: r.Key, Value: r.Value, Headers: headers(r.Headers),
	})
}

func headers(hs []broker.RecordHeader) []topology.Header {
	if len(hs) == 0 {
		return nil
	}
	out := make([]topology.Header, len(hs))
	for i, h := range hs {
		out[i] = topology.Header{Key: h.Key, Value: h.Value}
	}
	return out
}

// Punctuate makes the punctuations that are due the next entries, after what is to be run again. A punctuation that was taken stays with
// the task through retries and aborts; the next firing is planned at once. While some are waiting no others are planned: a task that may
// not work for a while would collect them.
func (t *Task) Punctuate(now time.Time) {
	if len(t.timers) > 0 {
		return
	}
	for {
		p, ok := t.Graph.Due(now)
		if !ok {
			return
		}
		t.timers = append(t.timers, Entry{Input: -1, Punctuation: &p})
	}
}

// NextPunctuation is when Punctuate has something to do next; ok is false when there are no schedules of the wall clock.
func (t *Task) NextPunctuation() (at time.Time, ok bool) { return t.Graph.NextDue() }

// Refuse sends a record to its error policy, instead of processing it, whenever it is its turn: its output was refused for good. why
// quotes nothing of the record.
func (t *Task) Refuse(e Entry, why string) {
	if t.refused == nil {
		t.refused = map[place]string{}
	}
	t.refused[e.place()] = why
}

// Refused reports whether the record is one that Refuse was called for.
func (t *Task) Refused(e Entry) bool {
	_, ok := t.refused[e.place()]
	return ok
}
