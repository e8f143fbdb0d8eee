package statetest

import (
	"encoding/binary"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/state"
)

// Opener returns a function that opens one database: the first time a new and empty one, then,
// after it was closed, what is left of it.
type Opener func(t *testing.T) func() (state.Database, error)

// StoreKinds are the kinds that RunStores checks: all but the plain key-value store, of which Run
// checks the bytes.
var StoreKinds = []state.Kind{
	state.TimestampedKind, state.WindowKind, state.SessionKind, state.VersionedKind, state.DedupeKind,
	state.SeriesKind,
}

// RunStores checks the typed views over the databases that open makes: random programs against
// plain maps. They have savepoints, failing rounds, rounds in flight, removal of expired rows,
// views, reopening, and restores from a compacted changelog.
func RunStores(t *testing.T, open Opener) {
	t.Helper()
	for _, kind := range StoreKinds {
		t.Run(kind.String(), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				if err := CheckStore(kind, open(t), StorePrograms(300).Draw(rt, "program"), StoreFaults{}); err != nil {
					rt.Fatal(err)
				}
			})
		})
	}
}

// StoreFaults take mechanisms out, for controls: a check with any of them has to find a difference.
type StoreFaults struct {
	// Layout is what the typed view takes the store's layout for.
	Layout func(l state.Layout) state.Layout
	// Bytes stands between the typed view and the store.
	Bytes func(b state.Bytes) state.Bytes
}

// storeKind is what an operation on a typed store does.
type storeKind int

const (
	storeWrite   storeKind = iota // Put or PutIfAbsent
	storeReplace                  // PutIfAbsent or Update, where there are such
	storeDelete
	storeRead
	storeScan
	storeMark
	storeRevert
	storeFreeze
	storeApply // with Expire, as a rule
	storeRetire
	storeDrop
	storeDropOpen
	storeReopen
	storeRestore
	storeKinds
)

var storeWeights = [storeKinds]int{
	storeWrite: 30, storeReplace: 6, storeDelete: 8, storeRead: 8, storeScan: 6, storeMark: 8, storeRevert: 4,
	storeFreeze: 8, storeApply: 8, storeRetire: 8, storeDrop: 1, storeDropOpen: 1, storeReopen: 1, storeRestore: 2,
}

var storeKindNames = [storeKinds]string{
	storeWrite: "write", storeReplace: "replace", storeDelete: "delete", storeRead: "read", storeScan: "scan",
	storeMark: "mark", storeRevert: "revert", storeFreeze: "freeze", storeApply: "apply", storeRetire: "retire",
	storeDrop: "drop", storeDropOpen: "drop the open round", storeReopen: "reopen", storeRestore: "restore",
}

// StoreOp is one operation of a StoreProgram.
type StoreOp struct {
	kind       storeKind
	key, value string
	// at and to are times: that of a write, and those between which is read.
	at, to int64
	// length is that of a session.
	length  int64
	reverse bool
	span    state.Range
	// A scan ends after breakAt entries, 0 is never, and writes to the store meanwhile.
	breakAt int
	writes  bool
	// cut is how much of the changelog is compacted, in sixteenths.
	cut int
}

// String describes the operation for a failing test.
func (o StoreOp) String() string {
	s := storeKindNames[o.kind]
	switch o.kind {
	case storeWrite, storeReplace, storeDelete, storeRead:
		s += fmt.Sprintf(" %q %.10q at %d..%d length %d reverse %t", o.key, o.value, o.at, o.to, o.length, o.reverse)
	case storeScan:
		s += fmt.Sprintf(" %s at %d..%d break at %d writes %t", rangeString(o.span), o.at, o.to, o.breakAt, o.writes)
	case storeRestore:
		s += fmt.Sprintf(" with %d/16 compacted", o.cut)
	default: // has no operands
	}
	return s
}

// StoreProgram is a sequence of operations on one typed store of a task. As with Program, an
// operation that makes no sense at its place does nothing.
type StoreProgram struct {
	// retention is the retention of the store, if its kind has one.
	retention int64
	ops       []StoreOp
}

// storeUnit is the step in which the time of a program moves on, in milliseconds. It makes half of
// the usual retention longer than the shortest segment.
const storeUnit = 4000

// storeKeys are keys of which some are others with bytes behind them that look like a time, like
// the rest of a window's or session's row, or like a segment.
var storeKeys = []string{
	"", "a", "a\x00", "ab", "b", "a\xff",
	timeKey("a", 10), timeKey("a", 10) + "\x00", timeKey("", 5),
	timeKey("a", 20) + "\x00\x00\x00\x00", timeKey(timeKey("a", 30), 20), timeKey(timeKey("", 40), 1) + "x",
	"\x00\x00\x00\x01",
}

func timeKey(head string, units uint64) string {
	return string(binary.BigEndian.AppendUint64([]byte(head), units*storeUnit))
}

// StorePrograms generates programs of up to lengthMax operations. Time moves on with the program,
// and lags behind by up to more than the retention.
func StorePrograms(lengthMax int) *rapid.Generator[StoreProgram] {
	var draw []storeKind
	for k, weight := range storeWeights {
		for range weight {
			draw = append(draw, storeKind(k))
		}
	}
	return rapid.Custom(func(t *rapid.T) StoreProgram {
		const usual = 40 * storeUnit
		// Segments of half of it, or of a minute.
		p := StoreProgram{retention: rapid.SampledFrom([]int64{usual, usual, usual, 90_000, 121_001, 1}).Draw(t, "retention")}
		begin := rapid.SampledFrom([]int64{0, 0, 59_999, 1_000_000}).Draw(t, "begin")
		p.ops = rapid.SliceOfN(storeOps(draw, p.retention), lengthMax/4, lengthMax).Draw(t, "operations")
		for i := range p.ops {
			now := begin + int64(i)*3/4*storeUnit
			p.ops[i].at, p.ops[i].to = max(now+p.ops[i].at, 0), max(now+p.ops[i].to, 0)
		}
		return p
	})
}

// storeOps generates operations with times that are relative to now.
func storeOps(kinds []storeKind, retention int64) *rapid.Generator[StoreOp] {
	lags := []int64{-5, 0, 0, 0, 1, 2, 5, 10, 20, 30, 38, 60}
	for i := range lags {
		lags[i] *= storeUnit
	}
	lags = append(lags, 1, retention-1, retention, retention+1)
	bound := rapid.Custom(func(t *rapid.T) []byte {
		i := rapid.IntRange(-1, len(storeKeys)-1).Draw(t, "bound")
		if i < 0 {
			return nil
		}
		return []byte(storeKeys[i])
	})
	return rapid.Custom(func(t *rapid.T) StoreOp {
		o := StoreOp{kind: rapid.SampledFrom(kinds).Draw(t, "kind")}
		switch o.kind {
		case storeWrite, storeReplace, storeDelete, storeRead:
			o.key = rapid.SampledFrom(storeKeys).Draw(t, "key")
			o.value = rapid.SampledFrom(values).Draw(t, "value")
			o.length = rapid.SampledFrom([]int64{0, 0, 1, 5, 30}).Draw(t, "length") * storeUnit
			o.reverse = rapid.Bool().Draw(t, "reverse")
		case storeScan:
			o.span = state.Range{From: bound.Draw(t, "from"), To: bound.Draw(t, "to"), Reverse: rapid.Bool().Draw(t, "reverse")}
			o.breakAt = rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "break")
			o.writes = rapid.IntRange(0, 3).Draw(t, "writes") == 0
		case storeRestore:
			o.cut = rapid.IntRange(0, 16).Draw(t, "cut")
			return o
		default: // has no operands
			return o
		}
		o.at = -rapid.SampledFrom(lags).Draw(t, "lag")
		o.to = -rapid.SampledFrom(lags).Draw(t, "lag of the end")
		return o
	})
}
