package protocol

import "fmt"

// Phase is where a round is on its way.
type Phase uint8

// The phases. None to Asking belong to the front round, Idle to Streaming to the back round;
// Aborting and Settling occur in both.
const (
	// None: there is no front round.
	None Phase = iota
	// Flushing: the round's records are on their way; every one of them must be acknowledged.
	Flushing
	// Offsets: the input offsets are being added to the transaction.
	Offsets
	// Ending: the commit was sent.
	Ending
	// Applying: the commit is known; the round's writes go to the store.
	Applying
	// Aborting: the transaction is being aborted. For a front round the abort is sent once the back
	// round is clear.
	Aborting
	// Settling: the producer is replaced; the round's commit was never sent, so settled means
	// aborted.
	Settling
	// Doubting: the producer is replaced; the round's commit was sent, so settled means that the
	// log can be asked.
	Doubting
	// Asking: the stable offsets are read to learn what became of the round.
	Asking
	// Idle: the back round holds nothing.
	Idle
	// Open: the back round holds work and has sent nothing.
	Open
	// Streaming: the back round holds work and has sent a part of its records: its transaction is
	// open.
	Streaming
	// Broken: an invariant does not hold, the store failed, or the tasks are somebody else's. The
	// worker stops; opening the tasks anew decides from the log.
	Broken
)

var phaseNames = [...]string{
	"None", "Flushing", "Offsets", "Ending", "Applying", "Aborting", "Settling", "Doubting", "Asking", "Idle", "Open", "Streaming",
	"Broken",
}

func (p Phase) String() string {
	if int(p) < len(phaseNames) {
		return phaseNames[p]
	}
	return fmt.Sprintf("Phase(%d)", uint8(p))
}

// EventKind is what happened.
type EventKind uint8

// The events. The worker reports Joined to Dropped, the producers' goroutines the rest.
const (
	// Joined: a record, a punctuation or a timer joined the back round.
	Joined EventKind = iota
	// Full: the back round's output passed the streaming threshold.
	Full
	// Due: the back round is to be committed.
	Due
	// Dropped: a task with work in the back round was given up: the back round is to be aborted and
	// the rest of it run again.
	Dropped
	// Flushed: every record is acknowledged and the producer is still the one that began.
	Flushed
	// FlushFailed: a record failed; the transaction can be aborted by its producer.
	FlushFailed
	// OffsetsAccepted: every partition of the offset commit was accepted.
	OffsetsAccepted
	// OffsetsRefused: some partition was refused, or ownership was lost before the request was
	// sent.
	OffsetsRefused
	// ProducerLost: while flushing or sending offsets, the producer became unusable or did not
	// answer (fenced, changed identity, deadline). For an abort the same is AbortUnknown.
	ProducerLost
	// Committed: the commit was answered with success.
	Committed
	// CommitUnknown: the commit was answered with anything else, or not at all.
	CommitUnknown
	// Aborted: the abort was answered with success.
	Aborted
	// AbortUnknown: the abort was answered with anything else, or not at all.
	AbortUnknown
	// Settled: the producer was replaced and initialised: its old transaction is over and late
	// requests are fenced.
	Settled
	// FoundOurs: the stable offsets carry the round's id: it is committed.
	FoundOurs
	// FoundPrevious: the stable offsets carry what they carried before the round: it is aborted.
	FoundPrevious
	// FoundOther: the stable offsets carry something else: somebody else owns the tasks.
	FoundOther
	// FoundMixed: some tasks carry the round's id, others the previous one. Never possible unless
	// the log lies.
	FoundMixed
	// Applied: the store contains the round.
	Applied
	// ApplyFailed: the store did not take the round.
	ApplyFailed
)

var eventNames = [...]string{
	"joined", "full", "due", "dropped", "flushed", "flush-failed", "offsets-accepted", "offsets-refused", "producer-lost",
	"committed", "commit-unknown", "aborted", "abort-unknown", "settled", "found-ours", "found-previous", "found-other",
	"found-mixed", "applied", "apply-failed",
}

func (k EventKind) String() string {
	if int(k) < len(eventNames) {
		return eventNames[k]
	}
	return fmt.Sprintf("EventKind(%d)", uint8(k))
}

// ParseEvent returns the event of that name.
func ParseEvent(name string) (EventKind, error) {
	for i, n := range eventNames {
		if n == name {
			return EventKind(i), nil
		}
	}
	return 0, fmt.Errorf("no event %q", name)
}

// Event is something that happened to a round. Round is ignored for the worker's own events, which
// are always about the back round.
type Event struct {
	Kind  EventKind
	Round uint64
}

// EffectKind is what the worker has to do.
type EffectKind uint8

// The effects, each about one round. Those that talk to a broker or to the store are answered by
// exactly one event.
const (
	// Stream: begin the transaction if it has not begun, and produce what the round holds so far.
	// Not answered: a failure shows when the round is flushed.
	Stream EffectKind = iota
	// Flush: begin if needed, produce the rest and the changelog, wait for every acknowledgement.
	Flush
	// SendOffsets: compare ownership, then send the offset commit, once.
	SendOffsets
	// End: send the commit.
	End
	// Abort: send an abort.
	Abort
	// Settle: throw the producer client away, make a new one with the same transactional id,
	// initialise it. Retried until it is answered.
	Settle
	// Ask: read the stable offsets of the round's tasks and compare round ids. Retried until every
	// partition is stable.
	Ask
	// Apply: write the round's layers to the store.
	Apply
	// Retire: the round is in the store and committed: publish its counts, free its journal.
	Retire
	// Rerun: drop the round's layers and put its journal back before everything that is newer.
	Rerun
	// Reopen: the tasks' ownership is gone: close them all and open them again from the log.
	Reopen
	// Fail: stop, with the reason. Nothing more is applied.
	Fail
)

var effectNames = [...]string{
	"stream", "flush", "send-offsets", "end", "abort", "settle", "ask", "apply", "retire", "rerun", "reopen", "fail",
}

func (k EffectKind) String() string {
	if int(k) < len(effectNames) {
		return effectNames[k]
	}
	return fmt.Sprintf("EffectKind(%d)", uint8(k))
}

// Effect is one thing to do, in the order given.
type Effect struct {
	Kind  EffectKind
	Round uint64
	// Reason is set for Fail.
	Reason string
}

func (e Effect) String() string {
	if e.Reason != "" {
		return fmt.Sprintf("%s %d: %s", e.Kind, e.Round, e.Reason)
	}
	return fmt.Sprintf("%s %d", e.Kind, e.Round)
}

// State is the product of the two rounds. The zero value is not valid, use [New].
type State struct {
	// Front and Back are the phases of the two rounds.
	Front, Back Phase
	// FrontRound and BackRound number the rounds; a round's producer is its number modulo 2.
	// FrontRound is only meaningful while Front is not None.
	FrontRound, BackRound uint64
	// CommitDue remembers a Due that came while there was a front round.
	CommitDue bool
	// WantStream remembers a Full that came before the front round was flushed.
	WantStream bool
}

// New returns the state of a worker that has done nothing: its first round is number first.
func New(first uint64) State { return State{Front: None, Back: Idle, BackRound: first} }

func (s State) String() string {
	out := "front="
	if s.Front == None || s.Front == Broken {
		out += s.Front.String()
	} else {
		out += fmt.Sprintf("%d:%s", s.FrontRound, s.Front)
	}
	out += fmt.Sprintf(" back=%d:%s", s.BackRound, s.Back)
	if s.CommitDue {
		out += " due"
	}
	if s.WantStream {
		out += " full"
	}
	return out
}

// CanCompute reports whether records may join the back round: not while what they would be computed
// upon is uncertain.
func (s State) CanCompute() bool {
	switch s.Front {
	case None, Flushing, Offsets, Ending, Applying:
	default:
		return false
	}
	return s.Back == Idle || s.Back == Open || s.Back == Streaming
}

// Quiet reports whether nothing is in flight and nothing is open.
func (s State) Quiet() bool { return s.Front == None && s.Back == Idle }

// maySend reports whether the back round may produce: the front round's flush has returned clean,
// or there is none.
func (s State) maySend() bool {
	switch s.Front {
	case None, Offsets, Ending, Applying:
		return true
	default:
		return false
	}
}

// clear reports whether the back round has no transaction at the broker.
func (s State) clear() bool { return s.Back == Idle || s.Back == Open }
