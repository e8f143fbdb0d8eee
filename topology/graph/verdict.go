package graph

import (
	"strconv"
	"time"
)

// Action is what the runtime has to do with the record, or the punctuation, that a Verdict is
// about.
type Action uint8

// The actions, from harmless to fatal.
const (
	// Accept: outputs and state writes join the round. The position moves past the record.
	Accept Action = iota
	// DeadLetter: the record leaves nothing in the state. The only output is the dead letter. The
	// position moves.
	DeadLetter
	// Retry: the record leaves nothing. It is given again after Backoff with Attempt+1. The
	// position does not move.
	Retry
	// Stop: the record leaves nothing. The task stops and says why. The position does not move.
	Stop
	// Park: the state keeps the record, and nothing else. The position moves. The stream time does
	// not, because the record has yet to be processed.
	Park
	// Delay: the only output is the record itself, for a delayed retry topic of its source. The
	// position moves. The stream time does not, because the record has yet to be processed.
	Delay
)

// String returns the action in lower case: accept, dead-letter, retry, stop, park or delay.
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

// Verdict is the outcome of one record with the punctuations that it fired, or of one punctuation
// by the wall clock.
type Verdict struct {
	Action Action
	// Wrote says that a store was written, also that of parked records. It is never set for Retry
	// and Stop.
	Wrote bool
	// EventTime is the time of the record in milliseconds since the epoch. It is the timestamp, or
	// the result of a topology.EventTime of the source. A verdict Accept raises the stream time to
	// EventTime; state.NoTime raises nothing. For a punctuation it counts only if Released is set.
	EventTime int64
	// Outputs and their bytes are valid until the next call of Process or Punctuate. A caller that
	// keeps one makes an [Output.Clone].
	Outputs []Output
	// Counts are the outcomes that nodes counted for this record, none for Retry and Stop. It is
	// valid until the next call of Process or Punctuate.
	Counts []OutcomeCount
	// Failure is nil for Accept, and for Park if the record did not fail but waits behind another
	// one.
	Failure *Failure
	// Released is the source topic, by its name on the cluster, of a record that was parked or
	// delayed and is processed now. It is empty for other records. After a verdict Accept,
	// EventTime moves the stream time as if the record had just been read there.
	Released string
	// Backoff is set for Retry, for Delay, and for the Park of a record that failed.
	Backoff time.Duration
}

// OutcomeCount is one outcome that a node counted. It is published when its round is applied.
type OutcomeCount struct {
	Node    string
	Outcome string
	N       int64
}
