// Package failpoint names the points of the runtime at which the crash matrix makes it fail: before and after everything that a broker or
// the disk is asked to do. Those of who writes to dead-letter topics beside the applications are here too.
//
// Without the build tag onceward_failpoints [Hit] does nothing, is inlined away, and the names are not in the binary; a test of the
// release binary proves it. With the tag, the environment variable ONCEWARD_FAILPOINT arms points:
//
//	point=action[,skip=N][,times=N][;point=action...]
//
// where action is
//
//	kill             SIGKILL to the own process
//	freeze           SIGSTOP to the own process: whoever has armed it sends SIGCONT
//	error            what was to be done or was done has no known outcome
//	refuse           it has one: the broker refused. The same as error where the difference means nothing
//	delay:DURATION   the goroutine waits until DURATION is over or the context of the caller ends
//	stall:DURATION   the goroutine waits, whatever the context does
//
// skip lets the first N hits pass, times (default 1) ends the mischief after so many. A hit is told on standard error as
// "failpoint POINT ACTION", before it acts, so that a test can count what it has caused. The values "list" and "list-letters" print the
// names of the runtime's points, or of those of dead letters, on standard output and end the process.
//
// It is safe for concurrent use.
package failpoint

import (
	"errors"
	"slices"
)

// Point is a place in the runtime, or in what an operator does.
type Point string

// The points of the runtime, in the order of a life. "Before" is the moment before a request is sent (or a file is touched), "after" the one after its
// answer has come and before anything is made of it.
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
	LostBefore     Point = "lost-before"
	ReleaseBefore  Point = "release-before"
	PurgeBefore    Point = "purge-before"
	PositionsWrite Point = "positions-write"
	LeaveBefore    Point = "leave-before"
	LeaveAfter     Point = "leave-after"
)

// The points of who redrives or edits dead letters, in the order of a batch. Each is behind what it names. In a build with failpoints the
// records are acknowledged before the marks are sent, so that there is a moment between the two.
const (
	LettersSettled Point = "letters-settled"
	LettersBegun   Point = "letters-begun"
	LettersRecords Point = "letters-records"
	LettersMarks   Point = "letters-marks"
	LettersEnded   Point = "letters-ended"
)

// Points are all of the runtime's.
var Points = []Point{
	InitBefore, InitAfter, JoinBefore, Assigned, StableBefore, StableAfter, OpenBefore, RestoreBatch, RestoreAfter, AdoptAfter,
	ProcessBefore, ProcessAfter, BeginBefore, BeginAfter, StreamAfter, FlushBefore, FlushAfter, OffsetsBefore, OffsetsAfter,
	EndBefore, EndAfter, ApplyBefore, ApplyAfter, RetireBefore, AbortBefore, AbortAfter, SettleBefore, SettleAfter, AskBefore, AskAfter,
	RerunBefore, RevokedBefore, RevokedAfter, LostBefore, ReleaseBefore, PurgeBefore, PositionsWrite, LeaveBefore, LeaveAfter,
}

// LetterPoints are all of those of dead letters.
var LetterPoints = []Point{LettersSettled, LettersBegun, LettersRecords, LettersMarks, LettersEnded}

// ErrInjected is what an armed point returns for the actions error and refuse.
var ErrInjected = errors.New("injected by a failpoint")

// ErrRefused is ErrInjected with an outcome that is known, for the action refuse. It needs no code that runs at start, which would keep
// its text in binaries that do not use it.
var ErrRefused error = refused{}

type refused struct{}

func (refused) Error() string { return "refused" }

// Is makes it an ErrInjected.
func (refused) Is(target error) bool { return target == ErrInjected }

// Known reports whether p is one of Points or LetterPoints.
func Known(p Point) bool { return slices.Contains(Points, p) || slices.Contains(LetterPoints, p) }
