package statetest

import (
	"fmt"
	"strings"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/state"
)

// storeNames are the stores of every program. Their ids are not in the order of their names, so
// that code that confuses the two is found out.
var storeNames = []string{"balances", "inbox", "windows", "zero"}

// keys is small, so that programs meet the same key again and again, and has the awkward ones:
// empty, prefixes of each other, the largest byte, zero bytes.
var keys = []string{
	"", "\x00", "\x00\x00", "a", "a\x00", "ab", "abc", "b", "b\xff", "c", "\xfe", "\xff", "\xff\xff",
	strings.Repeat("long", 64),
}

var values = []string{"", "0", "1", "2", "value", strings.Repeat("x", 300)}

// kind is what an operation does.
type kind int

const (
	put kind = iota
	del
	get
	scan
	scanWriting // writes to the store while it scans it
	mark
	revert
	freeze
	apply
	applyWrongBase
	applyWrongLayer
	retire
	drop
	openView
	readView
	closeView
	flush
	remove
	load
	loadUnsorted
	kinds
)

// weights say how often each kind is drawn: writes and reads dominate, Drop is rare enough for
// rounds to come to an end.
var weights = [kinds]int{
	put: 22, del: 8, get: 10, scan: 6, scanWriting: 2, mark: 10, revert: 6, freeze: 6, apply: 7,
	applyWrongBase: 2, applyWrongLayer: 2, retire: 7, drop: 1, openView: 2, readView: 4, closeView: 1, flush: 2,
	remove: 3, load: 4, loadUnsorted: 1,
}

var kindNames = [kinds]string{
	put: "put", del: "delete", get: "get", scan: "scan", scanWriting: "scan while writing", mark: "mark",
	revert: "revert", freeze: "freeze", apply: "apply", applyWrongBase: "apply at a wrong base",
	applyWrongLayer: "apply the wrong layer", retire: "retire", drop: "drop", openView: "open view",
	readView: "read view", closeView: "close view", flush: "flush",
	remove: "remove", load: "load", loadUnsorted: "load out of order",
}

// Op is one operation of a Program.
type Op struct {
	kind    kind
	store   string
	key     string
	value   string
	span    state.Range
	breakAt int    // a scan ends after so many entries; 0 is never
	some    uint32 // the keys that a load writes, a bit for each
}

// String describes the operation for a failing test.
func (o Op) String() string {
	switch o.kind {
	case put:
		return fmt.Sprintf("%s %s %q %.10q", kindNames[o.kind], o.store, o.key, o.value)
	case del, get:
		return fmt.Sprintf("%s %s %q", kindNames[o.kind], o.store, o.key)
	case remove:
		return fmt.Sprintf("%s %s %s", kindNames[o.kind], o.store, rangeString(o.span))
	case load, loadUnsorted:
		return fmt.Sprintf("%s %s keys %b %.10q", kindNames[o.kind], o.store, o.some, o.value)
	case scan, scanWriting, readView:
		return fmt.Sprintf("%s %s %s break at %d", kindNames[o.kind], o.store, rangeString(o.span), o.breakAt)
	default:
		return kindNames[o.kind]
	}
}

func rangeString(r state.Range) string {
	bound := func(b []byte) string {
		if b == nil {
			return "open"
		}
		return fmt.Sprintf("%.10q", b)
	}
	return fmt.Sprintf("[%s, %s) reverse %t", bound(r.From), bound(r.To), r.Reverse)
}

// Program is a sequence of operations on a task. An operation that makes no sense at its place (a
// Retire without a layer) does nothing, so that every part of a program is a program too and
// failing ones shrink.
type Program []Op

// Programs generates programs of up to lengthMax operations.
func Programs(lengthMax int) *rapid.Generator[Program] {
	var draw []kind
	for k, weight := range weights {
		for range weight {
			draw = append(draw, kind(k))
		}
	}
	bound := rapid.Custom(func(t *rapid.T) []byte {
		i := rapid.IntRange(-1, len(keys)-1).Draw(t, "bound")
		if i < 0 {
			return nil
		}
		return []byte(keys[i])
	})
	op := rapid.Custom(func(t *rapid.T) Op {
		o := Op{kind: rapid.SampledFrom(draw).Draw(t, "kind")}
		switch o.kind {
		case put:
			o.value = rapid.SampledFrom(values).Draw(t, "value")
			fallthrough
		case del, get:
			o.store = rapid.SampledFrom(storeNames).Draw(t, "store")
			o.key = rapid.SampledFrom(keys).Draw(t, "key")
		case scan, scanWriting, readView:
			o.store = rapid.SampledFrom(storeNames).Draw(t, "store")
			o.key = rapid.SampledFrom(keys).Draw(t, "key")
			o.span = state.Range{From: bound.Draw(t, "from"), To: bound.Draw(t, "to")}
			o.span.Reverse = rapid.Bool().Draw(t, "reverse")
			o.breakAt = rapid.SampledFrom([]int{0, 0, 1, 3}).Draw(t, "break")
		case remove:
			o.store = rapid.SampledFrom(storeNames).Draw(t, "store")
			o.span = state.Range{From: bound.Draw(t, "from"), To: bound.Draw(t, "to")}
		case load, loadUnsorted:
			o.store = rapid.SampledFrom(storeNames).Draw(t, "store")
			o.value = rapid.SampledFrom(values).Draw(t, "value")
			o.some = rapid.Uint32Range(0, 1<<len(keys)-1).Draw(t, "keys")
		default: // has no operands
		}
		return o
	})
	return rapid.Map(rapid.SliceOfN(op, lengthMax/4, lengthMax), func(ops []Op) Program { return ops })
}
