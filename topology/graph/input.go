package graph

import (
	"bytes"
	"slices"
	"time"
)

// Header is a record header. Keys may repeat; order is kept.
type Header struct {
	Key   string
	Value []byte
}

// TimestampType says which clock a record's timestamp comes from. The values are those of Kafka's
// record batches.
type TimestampType int8

// The timestamp types.
const (
	// CreateTime is the producer's clock, or whatever event time the producer has set.
	CreateTime TimestampType = 0
	// LogAppendTime is the broker's clock.
	LogAppendTime TimestampType = 1
)

// String returns Kafka's name of the type: CreateTime or LogAppendTime.
func (t TimestampType) String() string {
	if t == LogAppendTime {
		return "LogAppendTime"
	}
	return "CreateTime"
}

// Input is one record as fetched, before a codec reads it. A nil Key or Value is a null; an empty
// one is not. The graph and user code keep parts of Key, Value and Headers, so their bytes are
// never reused.
type Input struct {
	// Topic is the name on the cluster.
	Topic string
	// Partition is the task's partition.
	Partition int32
	// Offset is the record's offset in the partition.
	Offset int64
	// Timestamp is the event time in milliseconds since the epoch.
	Timestamp int64
	// TimestampType goes into dead letters.
	TimestampType TimestampType
	// StreamTime is the stream time of the task including this record, in milliseconds since the
	// epoch. The runtime owns it: a record that fails must not move it, and an aborted round must
	// move it back. For a source with a topology.EventTime the graph computes it from
	// StreamTimeBefore.
	StreamTime int64
	// StreamTimeBefore is the stream time of the task before this record, or state.NoTime.
	// Schedules on stream time fire if they are due between the two.
	StreamTimeBefore int64
	Key              []byte
	Value            []byte
	Headers          []Header
	// Attempt counts from 1. After a verdict Retry the runtime gives the record again with the next
	// one.
	Attempt int
	// FirstFailure is the wall clock of the first failed attempt, zero on the first one.
	FirstFailure time.Time
}

// Output is one record to produce in the transaction that moves past the input. A nil Key or Value
// is a null.
type Output struct {
	// Topic is the name on the cluster (internal topics already carry the application id).
	Topic string
	// Partition is always resolved by the graph.
	Partition int32
	// Timestamp is in milliseconds since the epoch.
	Timestamp int64
	Key       []byte
	Value     []byte
	// Headers may be shared with other outputs and with the input. It is read-only.
	Headers []Header
}

// Clone returns a copy that shares nothing with o and stays valid.
func (o *Output) Clone() Output {
	c := *o
	c.Key, c.Value, c.Headers = bytes.Clone(o.Key), bytes.Clone(o.Value), slices.Clone(o.Headers)
	for i := range c.Headers {
		c.Headers[i].Value = bytes.Clone(c.Headers[i].Value)
	}
	return c
}
