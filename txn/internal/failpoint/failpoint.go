// Package failpoint names the points of the runtime at which tests make it fail: before and after
// everything that it asks a broker or the disk to do. It also names the points of the writer to
// dead-letter topics, and the mechanisms that negative controls break.
//
// A [Set] has the faults of one application, or of one client of package txn/admin. Its zero value
// does nothing. Without the build tag onceward_failpoints there is no other value: Set is empty,
// its methods are inlined away, and no name is in the binary. A test of the release binary proves
// it. With the tag, tests make one by Config.WithFailpoints of package txn or by WithFailpoints of
// package txn/admin.
//
// A Set is safe for concurrent use if the function in it is.
package failpoint

import "errors"

// Point is a place in the runtime, or in the writer to dead-letter topics.
type Point string

// The points of the runtime, in the order of a life. "Before" is the moment before a request is
// sent (or a file is touched), "after" the one after its answer has come and before anything is
// made of it.
const (
	InitBefore Point = "init-before"
	InitAfter  Point = "init-after"
	JoinBefore Point = "join-before"
	// Assigned is inside the group's callback.
	Assigned      Point = "assigned"
	StableBefore  Point = "stable-before"
	StableAfter   Point = "stable-after"
	OpenBefore    Point = "open-before"
	RestoreBatch  Point = "restore-batch"
	RestoreAfter  Point = "restore-after"
	AdoptAfter    Point = "adopt-after"
	ProcessBefore Point = "process-before"
	ProcessAfter  Point = "process-after"
	BeginBefore   Point = "begin-before"
	BeginAfter    Point = "begin-after"
	StreamAfter   Point = "stream-after"
	FlushBefore   Point = "flush-before"
	FlushAfter    Point = "flush-after"
	OffsetsBefore Point = "offsets-before"
	OffsetsAfter  Point = "offsets-after"
	EndBefore     Point = "end-before"
	EndAfter      Point = "end-after"
	ApplyBefore   Point = "apply-before"
	ApplyAfter    Point = "apply-after"
	RetireBefore  Point = "retire-before"
	AbortBefore   Point = "abort-before"
	AbortAfter    Point = "abort-after"
	SettleBefore  Point = "settle-before"
	SettleAfter   Point = "settle-after"
	AskBefore     Point = "ask-before"
	AskAfter      Point = "ask-after"
	RerunBefore   Point = "rerun-before"
	RevokedBefore Point = "revoked-before"
	RevokedAfter  Point = "revoked-after"
	// LostBefore is inside the callback of a member that the group has given up.
	LostBefore    Point = "lost-before"
	ReleaseBefore Point = "release-before"
	PurgeBefore   Point = "purge-before"
	// PositionsWrite is hit before the positions of all tasks are written, and again after that.
	PositionsWrite Point = "positions-write"
	LeaveBefore    Point = "leave-before"
	LeaveAfter     Point = "leave-after"
)

// The points of the writer to dead-letter topics, in the order of a batch. Each is behind what it
// names. A writer that is armed waits for the acknowledgement of the records before it sends the
// marks, so that there is a moment between the two.
const (
	DeadLettersSettled Point = "dead-letters-settled"
	DeadLettersBegun   Point = "dead-letters-begun"
	DeadLettersRecords Point = "dead-letters-records"
	DeadLettersMarks   Point = "dead-letters-marks"
	DeadLettersEnded   Point = "dead-letters-ended"
)

// Points are all of the runtime's.
var Points = []Point{
	InitBefore, InitAfter, JoinBefore, Assigned, StableBefore, StableAfter, OpenBefore, RestoreBatch, RestoreAfter, AdoptAfter,
	ProcessBefore, ProcessAfter, BeginBefore, BeginAfter, StreamAfter, FlushBefore, FlushAfter, OffsetsBefore, OffsetsAfter,
	EndBefore, EndAfter, ApplyBefore, ApplyAfter, RetireBefore, AbortBefore, AbortAfter, SettleBefore, SettleAfter, AskBefore, AskAfter,
	RerunBefore, RevokedBefore, RevokedAfter, LostBefore, ReleaseBefore, PurgeBefore, PositionsWrite, LeaveBefore, LeaveAfter,
}

// DeadLetterPoints are all of those of dead letters.
var DeadLetterPoints = []Point{DeadLettersSettled, DeadLettersBegun, DeadLettersRecords, DeadLettersMarks, DeadLettersEnded}

// ErrInjected is what a point returns after which the outcome of the request is not known.
var ErrInjected = errors.New("injected by a failpoint")

// ErrRefused is ErrInjected with a known outcome: the broker refused. It needs no code that runs at
// start, which would keep its text in binaries that do not use it.
var ErrRefused error = refused{}

type refused struct{}

func (refused) Error() string { return "refused" }

// Is makes it an ErrInjected.
func (refused) Is(target error) bool { return target == ErrInjected }
