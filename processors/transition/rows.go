package transition

import (
	"encoding/binary"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/onceward/onceward/processors/internal/identity"
	"github.com/onceward/onceward/processors/internal/pairkey"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
)

// Aggregate is where an aggregate is.
type Aggregate[S ~string] struct {
	State S `json:"state"`
	// Version is that of the transition that was accepted last.
	Version int64 `json:"version"`
	// Timestamp is that of its record, in milliseconds since the epoch.
	Timestamp int64 `json:"timestamp"`
	// First is the version of the transition that created the aggregate, 1 without [Versioned]. All
	// versions from it to Version have been accepted.
	First int64 `json:"first"`
	// Before are the other states that the aggregate was in, sorted; nil if there are none.
	Before []S `json:"before,omitzero"`
}

// enter returns the aggregate after a transition.
func (a Aggregate[S]) enter(f Fact[S]) Aggregate[S] {
	before := a.Before
	if i, found := slices.BinarySearch(before, a.State); a.State != "" && !found {
		before = slices.Insert(slices.Clone(before), i, a.State)
	}
	if i, found := slices.BinarySearch(before, f.To); found {
		before = slices.Delete(slices.Clone(before), i, i+1)
	}
	if len(before) == 0 {
		before = nil
	}
	first := a.First
	if a.State == "" {
		first = f.Version
	}
	return Aggregate[S]{State: f.To, Version: f.Version, Timestamp: f.Timestamp, First: first, Before: before}
}

// Fact is a transition that was accepted. It has a JSON form, so that schemas.JSON[Fact[S]] is a
// codec for Facts.
type Fact[S ~string] struct {
	ID string `json:"id"`
	// From is "" where the transition has created the aggregate.
	From S `json:"from"`
	To   S `json:"to"`
	// Version is that of the aggregate after the transition: the source's with [Versioned], and
	// otherwise the number of transitions so far.
	Version int64 `json:"version"`
	// Timestamp is that of the record, in milliseconds since the epoch.
	Timestamp int64 `json:"timestamp"`
}

// FactKey is the key of a fact in the store.
type FactKey[K any] struct {
	Aggregate K      `json:"aggregate"`
	ID        string `json:"id"`
}

// storesOf returns the stores of a guard. The codecs of their keys are nil if keys is. A fact in
// the store has no ID, which is in its key.
func storesOf[K any, S ~string](name string, keys schemas.Codec[K], versioned bool) (
	aggregates topology.Store[state.KeyValue[K, Aggregate[S]]], facts topology.Store[state.KeyValue[FactKey[K], Fact[S]]],
) {
	var factKeys schemas.Codec[FactKey[K]]
	if keys != nil {
		factKeys = keyCodec[K]{keys}
	}
	aggregates = topology.KeyValueStore(name+aggregatesSuffix, keys, schemas.Codec[Aggregate[S]](aggregateCodec[S]{versioned}))
	facts = topology.KeyValueStore(name+factsSuffix, factKeys, schemas.Codec[Fact[S]](factCodec[S]{}))
	return aggregates, facts
}

// The names of the stores end so.
const (
	aggregatesSuffix = "-aggregates"
	factsSuffix      = "-transitions"
)

// FactRow returns the store and the key of an accepted transition, for tools that know a guard by
// its evidence. aggregates is the store of its aggregates, and row the key of the aggregate in it.
// ok is false if aggregates is not the store of a guard.
func FactRow(aggregates string, row []byte, id string) (store string, key []byte, ok bool) {
	name, ok := strings.CutSuffix(aggregates, aggregatesSuffix)
	if !ok {
		return "", nil, false
	}
	return name + factsSuffix, append(pairkey.Seal(slices.Clone(row), 0), id...), true
}

type keyCodec[K any] struct{ aggregate schemas.Codec[K] }

func (c keyCodec[K]) Name() string { return "transition-key-1:" + c.aggregate.Name() }

func (c keyCodec[K]) Append(dst []byte, k FactKey[K]) ([]byte, error) {
	if !isID(k.ID) {
		return dst, codecError(c.Name(), schemas.OpAppend, -1, "not the id of a transition")
	}
	b, err := c.aggregate.Append(dst, k.Aggregate)
	if err != nil {
		return dst, codecError(c.Name(), schemas.OpAppend, -1, "the key of the aggregate: "+schemas.ReasonOf(err))
	}
	return append(pairkey.Seal(b, len(dst)), k.ID...), nil
}

func (c keyCodec[K]) Decode(b []byte) (FactKey[K], error) {
	aggregate, id, ok := pairkey.Split(b)
	if !ok || !isID(string(id)) {
		return FactKey[K]{}, codecError(c.Name(), schemas.OpDecode, len(b), "the key is not that of a transition")
	}
	key, err := c.aggregate.Decode(aggregate)
	if err != nil {
		return FactKey[K]{}, codecError(c.Name(), schemas.OpDecode, 0,
			"the key of the aggregate: "+schemas.ReasonOf(err))
	}
	return FactKey[K]{Aggregate: key, ID: string(id)}, nil
}

func isID(id string) bool { return identity.CheckID(id) == nil }

// The stored form is described in the package documentation.
const (
	rowFormat      = 1
	rowHeaderBytes = 17
	// versionedFormat is that of the aggregates of a guard that is Versioned.
	versionedFormat = 2
)

// firstBytes are those of the first version, in the row of a guard that is Versioned.
const firstBytes = 8

const (
	errState  = "not a state"
	errFirst  = "the first version is behind the version"
	errBefore = "the states before are not a sorted set of others"
)

// aggregateCodec reads no row of a guard that means another thing by the version.
type aggregateCodec[S ~string] struct{ versioned bool }

func (c aggregateCodec[S]) Name() string {
	if c.versioned {
		return "transition-aggregate-2"
	}
	return "transition-aggregate-1"
}

func (c aggregateCodec[S]) format() byte {
	if c.versioned {
		return versionedFormat
	}
	return rowFormat
}

const (
	errVersioned = "the guard was written with Versioned and the program declares it without, so that the versions would " +
		"mean something else; declare Versioned, or give the guard another name"
	errUnversioned = "the guard was written without Versioned and the program declares it, so that the versions would " +
		"mean something else; leave Versioned out, or give the guard another name"
)

func (c aggregateCodec[S]) Append(dst []byte, a Aggregate[S]) ([]byte, error) {
	if !isState(a.State) {
		return dst, codecError(c.Name(), schemas.OpAppend, -1, errState)
	}
	b := appendHeader(dst, c.format(), a.Version, a.Timestamp)
	if c.versioned {
		if a.First > a.Version {
			return dst, codecError(c.Name(), schemas.OpAppend, -1, errFirst)
		}
		b = binary.BigEndian.AppendUint64(b, uint64(a.First))
	}
	b = appendState(append(b, byte(1+len(a.Before))), a.State)
	for i, s := range a.Before {
		switch {
		case !isState(s):
			return dst, codecError(c.Name(), schemas.OpAppend, -1, errState)
		case s == a.State || i > 0 && s <= a.Before[i-1] || i+1 >= statesMax:
			return dst, codecError(c.Name(), schemas.OpAppend, -1, errBefore)
		}
		b = appendState(b, s)
	}
	return b, nil
}

func (c aggregateCodec[S]) Decode(b []byte) (Aggregate[S], error) {
	version, timestamp, rest, reason := decodeHeader(b, c.format())
	a := Aggregate[S]{Version: version, Timestamp: timestamp, First: 1}
	switch {
	case c.versioned && len(b) > 0 && b[0] == rowFormat:
		reason = errUnversioned
	case !c.versioned && len(b) > 0 && b[0] == versionedFormat:
		reason = errVersioned
	case reason == "" && c.versioned:
		reason, rest = a.cutFirst(rest)
	}
	if reason == "" && (len(rest) == 0 || rest[0] == 0) {
		reason = "the row has no state"
	}
	if reason != "" {
		return Aggregate[S]{}, codecError(c.Name(), schemas.OpDecode, len(b)-len(rest), reason)
	}
	n := int(rest[0])
	rest = rest[1:]
	for i := range n {
		s, after, ok := cutState[S](rest)
		switch {
		case !ok || s == "":
			reason = errState
		case i == 0:
			a.State = s
		case s == a.State || i > 1 && s <= a.Before[i-2]:
			reason = errBefore
		default:
			a.Before = append(a.Before, s)
		}
		if reason != "" {
			return Aggregate[S]{}, codecError(c.Name(), schemas.OpDecode, len(b)-len(rest), reason)
		}
		rest = after
	}
	if len(rest) > 0 {
		return Aggregate[S]{}, codecError(c.Name(), schemas.OpDecode, len(b)-len(rest), "the row is too long")
	}
	return a, nil
}

// cutFirst reads the first version from the beginning of b. The reason is empty if it can be one.
func (a *Aggregate[S]) cutFirst(b []byte) (reason string, rest []byte) {
	if len(b) < firstBytes {
		return "the row is too short", b
	}
	if a.First = int64(binary.BigEndian.Uint64(b)); a.First > a.Version {
		return errFirst, b
	}
	return "", b[firstBytes:]
}

type factCodec[S ~string] struct{}

func (factCodec[S]) Name() string { return "transition-fact-1" }

func (c factCodec[S]) Append(dst []byte, f Fact[S]) ([]byte, error) {
	if f.From != "" && !isState(f.From) || !isState(f.To) {
		return dst, codecError(c.Name(), schemas.OpAppend, -1, errState)
	}
	return appendState(appendState(appendHeader(dst, rowFormat, f.Version, f.Timestamp), f.From), f.To), nil
}

func (c factCodec[S]) Decode(b []byte) (Fact[S], error) {
	version, timestamp, rest, reason := decodeHeader(b, rowFormat)
	f := Fact[S]{Version: version, Timestamp: timestamp}
	if reason == "" {
		var fromOK, toOK bool
		f.From, rest, fromOK = cutState[S](rest)
		f.To, rest, toOK = cutState[S](rest)
		switch {
		case !fromOK || !toOK || f.To == "":
			reason = errState
		case len(rest) > 0:
			reason = "the row is too long"
		}
	}
	if reason != "" {
		return Fact[S]{}, codecError(c.Name(), schemas.OpDecode, len(b)-len(rest), reason)
	}
	return f, nil
}

func isState[S ~string](s S) bool {
	return s != "" && len(s) <= stateBytesMax && utf8.ValidString(string(s))
}

// appendHeader appends what both kinds of rows begin with.
func appendHeader(dst []byte, format byte, version, timestamp int64) []byte {
	dst = append(dst, format)
	dst = binary.BigEndian.AppendUint64(dst, uint64(version))
	return binary.BigEndian.AppendUint64(dst, uint64(timestamp))
}

// decodeHeader reads what appendHeader has written. The reason is empty if b is well formed.
func decodeHeader(b []byte, format byte) (version, timestamp int64, rest []byte, reason string) {
	switch {
	case len(b) > 0 && b[0] != format:
		return 0, 0, b, "the row has a format that this build does not read"
	case len(b) < rowHeaderBytes:
		return 0, 0, nil, "the row is too short"
	}
	version = int64(binary.BigEndian.Uint64(b[1:9]))
	timestamp = int64(binary.BigEndian.Uint64(b[9:rowHeaderBytes]))
	return version, timestamp, b[rowHeaderBytes:], ""
}

func appendState[S ~string](dst []byte, s S) []byte { return append(append(dst, byte(len(s))), s...) }

// cutState reads a state, or "".
func cutState[S ~string](b []byte) (s S, rest []byte, ok bool) {
	if len(b) == 0 || len(b) < 1+int(b[0]) {
		return "", b, false
	}
	n := 1 + int(b[0])
	if !utf8.Valid(b[1:n]) {
		return "", b, false
	}
	return S(b[1:n]), b[n:], true
}

func codecError(codec, op string, offset int, reason string) error {
	return &schemas.Error{Codec: codec, Op: op, Offset: int64(offset), Reason: reason}
}
