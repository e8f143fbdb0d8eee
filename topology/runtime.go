package topology

import (
	"strconv"
	"time"

	"github.com/onceward/onceward/state"
)

// TaskID names a task: one partition of one subtopology. Both parts are stable names, never positions in a
// builder.
type TaskID struct {
	Subtopology string
	Partition   int32
}

// String returns the subtopology and the partition with an underscore between them, such as "payments_3".
// The last underscore is the separator, because names may contain underscores too.
func (id TaskID) String() string {
	return id.Subtopology + "_" + strconv.Itoa(int(id.Partition))
}

// TimestampType says whose clock a record's timestamp comes from. The values are those of Kafka's record
// batches.
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

// Input is one record as fetched, before any codec has seen it. A nil Key or Value is a null; an empty one
// is not. The graph and user code keep parts of Key, Value and Headers, so their bytes are never reused.
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
	// StreamTime is the stream time of the task including this record, in milliseconds since the epoch. The
	// runtime owns it, because a record that fails must not move it and an aborted round must move it back. For a
	// source with an [EventTime] the graph finds it itself, of StreamTimeBefore.
	StreamTime int64
	// StreamTimeBefore is the stream time of the task before this record, [state.NoTime] if there was none.
	// What is between the two fires the schedules on stream time.
	StreamTimeBefore int64
	Key              []byte
	Value            []byte
	Headers          []Header
	// Attempt counts from 1. It is above 1 when the runtime gives the record again after a Retry verdict.
	Attempt int
	// FirstFailure is the wall clock of the first failed attempt, zero on the first one.
	FirstFailure time.Time
}

// Output is one record to produce in the transaction that moves past the input. A nil Key or Value is a null.
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

// Action is what the runtime has to do with the record, or the punctuation, that a Verdict is about.
type Action uint8

// The actions, from harmless to fatal.
const (
	// Accept: outputs and state writes join the round; the position moves past the record.
	Accept Action = iota
	// DeadLetter: the state is as if the record had never been seen; the only output is the dead letter; the
	// position moves.
	DeadLetter
	// Retry: no trace at all; the record is given again after Backoff with Attempt+1. The position does not
	// move.
	Retry
	// Stop: no trace at all; the task stops and says why. The position does not move.
	Stop
	// Park: the record is kept in the state, and nothing else of it is there; the position moves. The stream time
	// does not: the record has yet to be processed.
	Park
	// Delay: the only output is the record itself, for a delayed retry topic of its source; the position moves. The
	// stream time does not: the record has yet to be processed.
	Delay
)

// String returns the action in lower case: accept, dead-letter, retry, stop, park or
// delay.
func (a Action) String() string {
	switch a {
	case Accept:
		return "accept"
	case DeadLetter:
		return "dead-letter"
	case Retry:
		return "retry"
	case Stop:
		return "stop"
	case Park:
		return "park"
	case Delay:
		return "delay"
	}
	return "action(" + strconv.Itoa(int(a)) + ")"
}

// Verdict is the outcome of one record, with the punctuations that it fired, or of one punctuation by the wall
// clock.
type Verdict struct {
	Action Action
	// Wrote says that a store was written, what is parked included. Retry and Stop verdicts never have it.
	Wrote bool
	// EventTime is the time of the record, in milliseconds since the epoch: its timestamp, unless its source has an
	// [EventTime]. The runtime raises the stream time to it with an Accept verdict, and keeps it for later records;
	// [state.NoTime] raises nothing. In a verdict on a punctuation it means nothing, unless Released is set.
	EventTime int64
	// Outputs is valid until the next call of Process or Punctuate: the caller copies the structs (not the
	// bytes, which are never reused).
	Outputs []Output
	// Counts are the outcomes that nodes counted for this record. Those of Retry and Stop verdicts are none. Valid until the next
	// call of Process or Punctuate.
	Counts []Tally
	// Failure is nil for Accept, and for the Park verdict of a record that did not fail but has to wait.
	Failure *Failure
	// Released is the source topic, by its name on the cluster, of a record that was parked or delayed and has been
	// processed now; empty for every other. With an Accept verdict EventTime moves the stream time as if the record
	// had just been read there.
	Released string
	// Backoff is set for Retry, for Delay, and for the Park of a record that failed.
	Backoff time.Duration
}

// Tally is one outcome counted by a node, published when the round that contains it is applied.
type Tally struct {
	Node    string
	Outcome string
	N       int64
}

// State is the task's state as the graph needs it. *state.Task implements it.
type State interface {
	// Store returns the store of that name; the graph asks only for stores that its subtopology declares.
	Store(name string) state.Bytes
	// Mark begins a savepoint, Revert undoes every write since it. Marks do not nest.
	Mark()
	Revert()
	// Savepoint begins one inside that of the last Mark, and returns what undoes every write since; see [Context.Try].
	Savepoint() (undo func())
}
