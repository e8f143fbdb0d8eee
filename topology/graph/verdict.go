package graph

import (
	"strconv"
	"time"
)

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
	// topology.EventTime. The runtime raises the stream time to it with an Accept verdict, and keeps it for later records;
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
