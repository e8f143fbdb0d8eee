package statetest

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/state"
)

// RunStores checks the typed views of the kinds timestamped, versioned and dedupe over the databases that open
// makes: random programs against plain maps, with savepoints, rounds that fail, forgetting, reopening, and
// restores from what is left of the changelog. What open returns opens one database: the first time a new and
// empty one, then, after it was closed, what is left of it.
func RunStores(t *testing.T, open func(t *testing.T) func() (state.Database, error)) {
	t.Helper()
	for _, kind := range []state.Kind{state.TimestampedKind, state.VersionedKind, state.DedupeKind} {
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
	// Retention of the store is so many times what it should be; 0 is once.
	Retention int64
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
	storeApply // with Forget
	storeRetire
	storeDrop
	storeDropOpen
	storeReopen
	storeRestore
	storeKinds
)

var storeWeights = [storeKinds]int{
	storeWrite: 30, storeReplace: 6, storeDelete: 8, storeRead: 8, storeScan: 4, storeMark: 8, storeRevert: 4,
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
	// at is a time in units of a kind, lag already taken off; to is where a range of times ends.
	at, to  int64
	reverse bool
	span    state.Range
	// cut is how much of the changelog is compacted, in sixteenths.
	cut int
}

// String describes the operation for a failing test.
func (o StoreOp) String() string {
	switch o.kind {
	case storeWrite, storeReplace, storeDelete, storeRead:
		return fmt.Sprintf("%s %q %.10q at %d..%d reverse %t", storeKindNames[o.kind], o.key, o.value, o.at, o.to, o.reverse)
	case storeScan:
		return fmt.Sprintf("scan %s", rangeString(o.span))
	case storeRestore:
		return fmt.Sprintf("restore with %d/16 compacted", o.cut)
	default:
		return storeKindNames[o.kind]
	}
}

// StoreProgram is a sequence of operations on one typed store of a task. As with Program, an operation that
// makes no sense at its place does nothing.
type StoreProgram []StoreOp

// storeKeys are keys of which some are others with bytes behind them that look like a time or like a segment.
var storeKeys = []string{
	"", "a", "a\x00", "ab", "b", "a\x00\x00\x00\x00\x00\x00\x00\x10", "a\x00\x00\x00\x00\x00\x00\x00\x10\x00",
	"\x00\x00\x00\x00\x00\x00\x00\x08", "\x00\x00\x00\x01", "a\xff",
}

// storeRetention is that of every store that forgets, in units of time. Programs go on for some times of it.
const storeRetention = 40

// StorePrograms generates programs of up to lengthMax operations. Time moves on with the program, and lags
// behind by up to more than the retention.
func StorePrograms(lengthMax int) *rapid.Generator[StoreProgram] {
	var draw []storeKind
	for k, weight := range storeWeights {
		for range weight {
			draw = append(draw, storeKind(k))
		}
	}
	lags := []int64{-5, 0, 0, 0, 1, 2, 5, 10, 20, 30, 38, 39, 40, 41, 60}
	bound := rapid.Custom(func(t *rapid.T) []byte {
		i := rapid.IntRange(-1, len(storeKeys)-1).Draw(t, "bound")
		if i < 0 {
			return nil
		}
		return []byte(storeKeys[i])
	})
	op := rapid.Custom(func(t *rapid.T) StoreOp {
		o := StoreOp{kind: rapid.SampledFrom(draw).Draw(t, "kind")}
		switch o.kind {
		case storeWrite, storeReplace, storeDelete, storeRead:
			o.key = rapid.SampledFrom(storeKeys).Draw(t, "key")
			o.value = rapid.SampledFrom(values).Draw(t, "value")
			o.at = -rapid.SampledFrom(lags).Draw(t, "lag")
			o.to = -rapid.SampledFrom(lags).Draw(t, "lag of the end")
			o.reverse = rapid.Bool().Draw(t, "reverse")
		case storeScan:
			o.span = state.Range{From: bound.Draw(t, "from"), To: bound.Draw(t, "to"), Reverse: rapid.Bool().Draw(t, "reverse")}
		case storeRestore:
			o.cut = rapid.IntRange(0, 16).Draw(t, "cut")
		default: // has no operands
		}
		return o
	})
	return rapid.Map(rapid.SliceOfN(op, lengthMax/4, lengthMax), func(ops []StoreOp) StoreProgram {
		for i := range ops {
			now := int64(i) * 3 / 4
			ops[i].at, ops[i].to = max(now+ops[i].at, 0), max(now+ops[i].to, 0)
		}
		return ops
	})
}
