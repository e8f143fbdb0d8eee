package statetest

import (
	"encoding/binary"
	"fmt"

	"pgregory.net/rapid"
)

// timedKind is what an operation of a TimedProgram does.
type timedKind int

const (
	timedPut timedKind = iota
	timedPutIfAbsent
	timedDelete
	timedGet
	timedFetch
	timedScan
	timedMark
	timedRevert
	timedFreeze
	timedApply
	timedRetire
	timedDrop
	timedDropOpen
	timedExpire // rows that no read sees any more leave the database
	timedReopen
)

var timedKindNames = [...]string{
	"put", "put-if-absent", "delete", "get", "fetch", "scan", "mark", "revert", "freeze", "apply", "retire", "drop",
	"drop the open round", "expire", "reopen",
}

var timedWeights = [...]int{30, 4, 5, 8, 10, 8, 6, 3, 4, 4, 3, 1, 1, 2, 1}

// timedKey is a key. Its tail is made of a time, so that the key looks like a row of a shorter one.
type timedKey struct {
	head string
	tail int
	// ago is how far the time is behind the stream time.
	ago int64
}

// The tails of keys.
const (
	noTail = iota
	timeTail
	windowTail
	longTail
)

func (k timedKey) at(now int64) string {
	b := binary.BigEndian.AppendUint64([]byte(k.head), uint64(max(now-k.ago, 0)))
	switch k.tail {
	case noTail:
		return k.head
	case timeTail:
		return string(b)
	case windowTail:
		return string(append(b, 0, 0, 0, 0))
	default:
		return string(binary.BigEndian.AppendUint64(b, 1)) + "x"
	}
}

// TimedOp is one operation of a TimedProgram. Its times are relative to the stream time that the store has then: else
// nearly everything would have expired after a few operations.
type TimedOp struct {
	kind  timedKind
	key   timedKey
	value string
	// ago is how far the time of the row, or the last one of a scan, is behind the stream time; negative ones are ahead.
	ago int64
	// span is how long a session is, and how much time a scan looks at.
	span    int64
	from    *timedKey // bounds of a scan; nil is open
	to      *timedKey
	reverse bool
	// writes is what a scan writes after each entry.
	writes  bool
	breakAt int
}

// String describes the operation for a failing test.
func (o TimedOp) String() string {
	s := timedKindNames[o.kind]
	if o.kind <= timedScan {
		s += fmt.Sprintf(" %+v ago %d span %d", o.key, o.ago, o.span)
	}
	if o.kind == timedScan || o.kind == timedFetch {
		s += fmt.Sprintf(" %+v to %+v reverse %t writes %t break at %d", o.from, o.to, o.reverse, o.writes, o.breakAt)
	}
	return s
}

// TimedProgram is a sequence of operations on a store that forgets by time. As in a Program, what makes no sense at
// its place does nothing.
type TimedProgram struct {
	retention int64
	// begin is the stream time of the first write.
	begin int64
	ops   []TimedOp
}

// TimedPrograms generates programs of up to lengthMax operations.
func TimedPrograms(lengthMax int) *rapid.Generator[TimedProgram] {
	var kinds []timedKind
	for k, weight := range timedWeights {
		for range weight {
			kinds = append(kinds, timedKind(k))
		}
	}
	return rapid.Custom(func(t *rapid.T) TimedProgram {
		// Segments of a minute, with one to four of them alive.
		p := TimedProgram{retention: rapid.SampledFrom([]int64{1, 90_000, 120_000, 121_001, 200_000}).Draw(t, "retention")}
		p.begin = rapid.SampledFrom([]int64{0, 59_999, 1_000_000}).Draw(t, "begin")
		ago := rapid.OneOf(
			rapid.SampledFrom([]int64{0, 1, -1, 60_000, -60_000, p.retention - 1, p.retention, p.retention + 1}),
			rapid.Int64Range(-20_000, p.retention+1000),
		)
		key := rapid.Custom(func(t *rapid.T) timedKey {
			return timedKey{
				head: rapid.SampledFrom([]string{"", "a", "a", "a\x00", "b", "\xff"}).Draw(t, "head"),
				tail: rapid.SampledFrom([]int{noTail, noTail, timeTail, windowTail, longTail}).Draw(t, "tail"),
				ago:  ago.Draw(t, "time of the key"),
			}
		})
		op := rapid.Custom(func(t *rapid.T) TimedOp {
			o := TimedOp{kind: rapid.SampledFrom(kinds).Draw(t, "kind")}
			if o.kind > timedScan {
				return o
			}
			o.key, o.ago = key.Draw(t, "key"), ago.Draw(t, "ago")
			o.span = rapid.OneOf(rapid.SampledFrom([]int64{0, 1, 60_000}), rapid.Int64Range(0, 300_000)).Draw(t, "span")
			switch o.kind {
			case timedFetch, timedScan:
				o.reverse = rapid.Bool().Draw(t, "reverse")
				o.writes = rapid.IntRange(0, 3).Draw(t, "writes") == 0
				o.breakAt = rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "break")
				if o.kind == timedScan {
					o.from, o.to = rapid.Ptr(key, true).Draw(t, "from"), rapid.Ptr(key, true).Draw(t, "to")
				}
			default:
				o.value = rapid.SampledFrom(values).Draw(t, "value")
			}
			return o
		})
		p.ops = rapid.SliceOfN(op, lengthMax/4, lengthMax).Draw(t, "operations")
		return p
	})
}
