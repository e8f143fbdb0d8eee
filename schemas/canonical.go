package schemas

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
)

// MaxJSONDepth is how deep arrays and objects may be nested in a document that
// has a canonical form. It bounds the stack and the cost of ordering keys.
const MaxJSONDepth = 512

// canonicalName is the Codec of errors about canonical JSON.
const canonicalName = "canonical-json"

// The reasons of documents without a canonical form. The JSON codec shares some.
const (
	reasonEnd       = "unexpected end of the document"
	reasonTrailing  = "data after the document"
	reasonValue     = "not the beginning of a JSON value"
	reasonLiteral   = "unknown literal"
	reasonNumber    = "malformed number"
	reasonControl   = "control character in a string"
	reasonEscape    = "malformed escape sequence"
	reasonSurrogate = "lone surrogate in an escape sequence"
	reasonKey       = "expected an object key"
	reasonColon     = "expected a colon after an object key"
	reasonInObject  = "expected a comma or the end of the object"
	reasonInArray   = "expected a comma or the end of the array"
	reasonDuplicate = "duplicate object key"
)

// CanonicalJSON appends the canonical form of the JSON document src to dst. Two
// documents have one canonical form if and only if they differ in nothing but the
// order of object keys, white space, the escaping of strings and the spelling of
// numbers. The form is itself JSON, and its own canonical form:
//
//   - no white space outside strings;
//   - object keys in the order of their unescaped UTF-8 bytes;
//   - strings in UTF-8 with the escapes \" \\ \b \f \n \r \t and, for the other
//     control characters, \u00xx in lower case; nothing else is escaped;
//   - numbers as an integer without trailing zeros and, unless it is zero, a
//     decimal exponent: 1.50 is 15e-1, 100 is 1e2, -0 is 0. They are exact
//     whatever their size; no number passes through a float64, and an exponent
//     takes no more room than its digits.
//
// It is not the JSON Canonicalization Scheme of RFC 8785, which goes through
// float64 and so makes different amounts equal.
//
// Documents that readers could take for different things are malformed: duplicate
// keys (compared unescaped), invalid UTF-8, lone surrogates, data behind the
// document, nesting deeper than [MaxJSONDepth]. The error is an [*Error], and dst
// is returned as it was given. dst must not overlap src.
//
// Hashes of canonical forms are stored in state. The form never changes.
//
// The time is O(n log n) in the size of src, except that an object whose keys are
// not in order is copied once more per level of nesting.
func CanonicalJSON(dst, src []byte) ([]byte, error) {
	c := canonicalizers.Get().(*canonicalizer)
	defer c.release()
	c.src, c.out = src, dst
	if !c.document() {
		return dst, c.err()
	}
	return c.out, nil
}

// HashJSON returns the SHA-256 of the canonical form of the JSON document src: the
// identity of a payload, whatever its spelling. Errors are those of
// [CanonicalJSON]. It allocates nothing for documents of usual sizes.
func HashJSON(src []byte) ([32]byte, error) {
	c := canonicalizers.Get().(*canonicalizer)
	defer c.release()
	c.src, c.out = src, c.form[:0]
	if !c.document() {
		return [32]byte{}, c.err()
	}
	c.form = c.out
	return sha256.Sum256(c.out), nil
}

// A canonicalizer reads a document once and writes its canonical form on the way. It writes the
// members of an object in the order of the source and sorts them when the object closes, usually by
// a copy of a few hundred bytes. The alternative, a tree of the document, costs an allocation for
// each node.
type canonicalizer struct {
	src []byte
	pos int    // next byte of src to read
	out []byte // the canonical form, behind what the caller's slice held

	// members are those of all open objects, innermost last.
	members []member
	// unescaped holds the text of strings that had escapes. Keys of open
	// objects point into it, so it is cut back only as objects close.
	unescaped []byte
	// moved is room for the members of an object while they are put in order.
	moved []byte
	// form is HashJSON's buffer.
	form []byte

	// The first problem, and where it is in src.
	fault string
	at    int
}

// A member is one key and value of an object, as written to out.
type member struct {
	key   []byte // unescaped; points into src or unescaped
	at    int    // where the key is in src
	start int    // out[start:end] is "key":value
	end   int
}

// canonicalizers keeps buffers, so that hashing a record allocates nothing.
var canonicalizers = sync.Pool{New: func() any { return new(canonicalizer) }}

// retainMax is the capacity in bytes above which a buffer is not kept, so that one
// huge document does not hold its memory for ever.
const retainMax = 1 << 20

func (c *canonicalizer) release() {
	clear(c.members) // what a failure left open
	*c = canonicalizer{
		members:   retain(c.members, retainMax/64),
		unescaped: retain(c.unescaped, retainMax),
		moved:     retain(c.moved, retainMax),
		form:      retain(c.form, retainMax),
	}
	canonicalizers.Put(c)
}

// retain returns s emptied, or nil if its capacity is above limit.
func retain[E any](s []E, limit int) []E {
	if cap(s) > limit {
		return nil
	}
	return s[:0]
}

func (c *canonicalizer) err() error {
	return &Error{Codec: canonicalName, Op: OpCanonicalize, Offset: int64(c.at), Reason: c.fault}
}

// fail notes the first problem; parsers return its result, which is false.
func (c *canonicalizer) fail(at int, reason string) bool {
	c.fault, c.at = reason, at
	return false
}

// unexpected fails at the current byte, or with reasonEnd if there is none.
func (c *canonicalizer) unexpected(reason string) bool {
	if c.pos >= len(c.src) {
		return c.fail(len(c.src), reasonEnd)
	}
	return c.fail(c.pos, reason)
}

func (c *canonicalizer) document() bool {
	if !c.value(0) {
		return false
	}
	if c.space(); c.pos < len(c.src) {
		return c.fail(c.pos, reasonTrailing)
	}
	return true
}

// space skips white space.
func (c *canonicalizer) space() {
	for c.pos < len(c.src) {
		switch c.src[c.pos] {
		case ' ', '\t', '\n', '\r':
			c.pos++
		default:
			return
		}
	}
}

// next skips white space and reports whether b follows, which it then consumes.
func (c *canonicalizer) next(b byte) bool {
	c.space()
	if c.pos < len(c.src) && c.src[c.pos] == b {
		c.pos++
		return true
	}
	return false
}

// value reads a value inside depth arrays and objects.
func (c *canonicalizer) value(depth int) bool {
	c.space()
	if c.pos >= len(c.src) {
		return c.unexpected(reasonEnd)
	}
	switch b := c.src[c.pos]; b {
	case '{':
		return c.object(depth + 1)
	case '[':
		return c.array(depth + 1)
	case '"':
		mark := len(c.unescaped)
		_, ok := c.text()
		c.unescaped = c.unescaped[:mark]
		return ok
	case 't':
		return c.literal("true")
	case 'f':
		return c.literal("false")
	case 'n':
		return c.literal("null")
	default:
		if b == '-' || isDigit(b) {
			return c.number()
		}
		return c.fail(c.pos, reasonValue)
	}
}

func (c *canonicalizer) literal(word string) bool {
	for i := range len(word) {
		if c.pos+i >= len(c.src) {
			return c.fail(len(c.src), reasonEnd)
		}
		if c.src[c.pos+i] != word[i] {
			return c.fail(c.pos+i, reasonLiteral)
		}
	}
	c.pos += len(word)
	c.out = append(c.out, word...)
	return true
}

// open writes and consumes the bracket at the current byte, if the depth allows.
func (c *canonicalizer) open(depth int) bool {
	if depth > MaxJSONDepth {
		return c.fail(c.pos, fmt.Sprintf("nested deeper than %d levels", MaxJSONDepth))
	}
	c.out = append(c.out, c.src[c.pos])
	c.pos++
	return true
}

func (c *canonicalizer) array(depth int) bool {
	if !c.open(depth) {
		return false
	}
	if c.next(']') {
		c.out = append(c.out, ']')
		return true
	}
	for {
		if !c.value(depth) {
			return false
		}
		if c.next(']') {
			c.out = append(c.out, ']')
			return true
		}
		if !c.next(',') {
			return c.unexpected(reasonInArray)
		}
		c.out = append(c.out, ',')
	}
}

func (c *canonicalizer) object(depth int) bool {
	if !c.open(depth) {
		return false
	}
	if c.next('}') {
		c.out = append(c.out, '}')
		return true
	}
	first, mark := len(c.members), len(c.unescaped)
	ordered := true
	for {
		m, ok := c.member(depth)
		if !ok {
			return false
		}
		if n := len(c.members); n > first && bytes.Compare(c.members[n-1].key, m.key) >= 0 {
			ordered = false
		}
		c.members = append(c.members, m)
		if c.next('}') {
			break
		}
		if !c.next(',') {
			return c.unexpected(reasonInObject)
		}
		c.out = append(c.out, ',')
	}
	if !ordered && !c.order(c.members[first:]) {
		return false
	}
	clear(c.members[first:]) // keys must not keep the caller's document reachable
	c.members, c.unescaped = c.members[:first], c.unescaped[:mark]
	c.out = append(c.out, '}')
	return true
}

// member reads a key, the colon and the value of an object at the given depth.
func (c *canonicalizer) member(depth int) (member, bool) {
	c.space()
	m := member{at: c.pos, start: len(c.out)}
	if c.pos >= len(c.src) || c.src[c.pos] != '"' {
		return m, c.unexpected(reasonKey)
	}
	key, ok := c.text()
	if !ok {
		return m, false
	}
	if !c.next(':') {
		return m, c.unexpected(reasonColon)
	}
	c.out = append(c.out, ':')
	if !c.value(depth) {
		return m, false
	}
	m.key, m.end = key, len(c.out)
	return m, true
}

// order puts the members of the object that is about to close, the last thing
// written to out, in the order of their keys. It fails if two keys are equal.
func (c *canonicalizer) order(members []member) bool {
	base := members[0].start
	slices.SortFunc(members, func(a, b member) int { return bytes.Compare(a.key, b.key) })
	for i := 1; i < len(members); i++ {
		if bytes.Equal(members[i-1].key, members[i].key) {
			return c.fail(max(members[i-1].at, members[i].at), reasonDuplicate)
		}
	}
	c.moved = append(c.moved[:0], c.out[base:]...)
	c.out = c.out[:base]
	for i, m := range members {
		if i > 0 {
			c.out = append(c.out, ',')
		}
		c.out = append(c.out, c.moved[m.start-base:m.end-base]...)
	}
	return true
}
