package avro

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits of a value. They are far above what records hold in practice and low
// enough that no record can exhaust the process.
const (
	// MaxBytes is the size of the largest encoding that codecs read or write.
	MaxBytes = 16 << 20
	// MaxDepth is how deep records, unions, arrays and maps may be nested in a
	// value.
	MaxDepth = 512
	// MaxValues is how many values an encoding may hold, where a record, each of
	// its fields, an array item, a map entry and the content of a union count as
	// one each. It bounds items that take no bytes, such as nulls.
	MaxValues = 1 << 20
)

const reasonShort = "unexpected end of the value"

// A walker goes through the binary form of a value along the shape of its schema,
// and checks all that the decoder behind it takes on trust. It builds nothing.
type walker struct {
	b      []byte
	pos    int // next byte of b to read
	values int // how many more there may be
	// sortMaps is for encodings of our own: entries of maps are put in the order
	// of their keys, in place.
	sortMaps bool

	// The first problem, where it is in b, and the fields that lead there,
	// innermost first.
	fault string
	at    int
	path  []string
}

// run walks one value of shape s, which must take all of b.
func (w *walker) run(s *shape) bool {
	w.values = MaxValues
	if !w.value(s, 0) {
		return false
	}
	if w.pos < len(w.b) {
		return w.fail(w.pos, "data after the value")
	}
	return true
}

// reason returns the first problem with the path of fields to it.
func (w *walker) reason() string {
	if len(w.path) == 0 {
		return w.fault
	}
	slices.Reverse(w.path)
	return "field " + strings.Join(w.path, ".") + ": " + w.fault
}

func (w *walker) fail(at int, fault string) bool {
	w.at, w.fault = at, fault
	return false
}

// value walks a value of shape s inside depth records, unions, arrays and maps.
func (w *walker) value(s *shape, depth int) bool {
	if depth > MaxDepth {
		return w.fail(w.pos, fmt.Sprintf("nested deeper than %d levels", MaxDepth))
	}
	if w.values--; w.values < 0 {
		return w.fail(w.pos, fmt.Sprintf("more than %d values", MaxValues))
	}
	switch s.kind {
	case kindNull:
		return true
	case kindBoolean:
		if w.pos < len(w.b) && w.b[w.pos] > 1 {
			return w.fail(w.pos, "boolean is neither 0 nor 1")
		}
		return w.skip(1)
	case kindInt:
		return w.int()
	case kindLong:
		_, ok := w.long()
		return ok
	case kindFloat:
		return w.skip(4)
	case kindDouble:
		return w.skip(8)
	case kindBytes:
		_, ok := w.bytes()
		return ok
	case kindString:
		_, ok := w.text()
		return ok
	case kindFixed:
		return w.skip(s.size)
	case kindEnum:
		_, ok := w.index(len(s.symbols), "enum has no such symbol")
		return ok
	case kindRecord:
		for i := range s.fields {
			if !w.value(s.fields[i].typ, depth+1) {
				w.path = append(w.path, s.fields[i].name)
				return false
			}
		}
		return true
	case kindUnion:
		i, ok := w.index(len(s.branches), "union has no such branch")
		return ok && w.value(s.branches[i], depth+1)
	default: // array, map
		return w.blocks(s, depth+1)
	}
}

// skip passes n bytes, which must be there.
func (w *walker) skip(n int) bool {
	if n > len(w.b)-w.pos {
		return w.fail(len(w.b), reasonShort)
	}
	w.pos += n
	return true
}

// varint reads an unsigned number in base 128 of at most limit bytes. Numbers with
// needless zero bytes are read, as other implementations do.
func (w *walker) varint(limit int) (uint64, bool) {
	var x uint64
	for i := range limit {
		if w.pos >= len(w.b) {
			return 0, w.fail(len(w.b), reasonShort)
		}
		b := w.b[w.pos]
		if i == 9 && b > 1 {
			break
		}
		w.pos++
		x |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			return x, true
		}
	}
	return 0, w.fail(w.pos, "number has too many bytes")
}

func (w *walker) int() bool {
	start := w.pos
	x, ok := w.varint(5)
	if ok && x > math.MaxUint32 {
		return w.fail(start, "number does not fit 32 bits")
	}
	return ok
}

func (w *walker) long() (int64, bool) {
	x, ok := w.varint(10)
	return int64(x>>1) ^ -int64(x&1), ok
}

// index reads a position in a list of n.
func (w *walker) index(n int, fault string) (int, bool) {
	start := w.pos
	i, ok := w.long()
	if !ok {
		return 0, false
	}
	if i < 0 || i >= int64(n) {
		return 0, w.fail(start, fault)
	}
	return int(i), true
}

// bytes reads a length and so many bytes.
func (w *walker) bytes() ([]byte, bool) {
	start := w.pos
	n, ok := w.long()
	if !ok {
		return nil, false
	}
	if n < 0 {
		return nil, w.fail(start, "negative length")
	}
	if n > int64(len(w.b)-w.pos) {
		return nil, w.fail(len(w.b), reasonShort)
	}
	w.pos += int(n)
	return w.b[w.pos-int(n) : w.pos], true
}

// text reads a string.
func (w *walker) text() ([]byte, bool) {
	s, ok := w.bytes()
	if ok && !utf8.Valid(s) {
		return nil, w.fail(w.pos-len(s), "text is not valid UTF-8")
	}
	return s, ok
}

// blocks walks the blocks of an array or a map, up to the empty one.
func (w *walker) blocks(s *shape, depth int) bool {
	for {
		start := w.pos
		count, ok := w.long()
		if !ok {
			return false
		}
		if count == 0 {
			return true
		}
		end := -1
		if count < 0 { // then the size of the block follows
			size, ok := w.long()
			if !ok {
				return false
			}
			if size < 0 || size > int64(len(w.b)-w.pos) || count == math.MinInt64 {
				return w.fail(start, "block with an impossible size or count")
			}
			count, end = -count, w.pos+int(size)
		}
		if count > int64(w.values) {
			return w.fail(start, fmt.Sprintf("more than %d values", MaxValues))
		}
		if s.kind == kindMap {
			ok = w.entries(s.items, int(count), depth)
		} else {
			ok = w.items(s.items, int(count), depth)
		}
		if !ok {
			return false
		}
		if end >= 0 && w.pos != end {
			return w.fail(start, "block of another size than it says")
		}
	}
}

func (w *walker) items(s *shape, count, depth int) bool {
	for range count {
		if !w.value(s, depth) {
			return false
		}
	}
	return true
}

// An entry is where a map entry and its key are in the walker's bytes.
type entry struct{ start, keyStart, keyEnd, end int }

func (w *walker) entries(s *shape, count, depth int) bool {
	var entries []entry
	start := w.pos
	for range count {
		e := entry{start: w.pos}
		key, ok := w.text()
		if !ok {
			return false
		}
		e.keyStart, e.keyEnd = w.pos-len(key), w.pos
		if !w.value(s, depth) {
			return false
		}
		e.end = w.pos
		if w.sortMaps {
			entries = append(entries, e)
		}
	}
	w.sort(start, entries)
	return true
}

// sort puts the entries, which lie in b one behind the other from start on, in the
// order of their keys.
func (w *walker) sort(start int, entries []entry) {
	byKey := func(a, b entry) int {
		return bytes.Compare(w.b[a.keyStart:a.keyEnd], w.b[b.keyStart:b.keyEnd])
	}
	if slices.IsSortedFunc(entries, byKey) {
		return
	}
	slices.SortFunc(entries, byKey)
	sorted := make([]byte, 0, w.pos-start)
	for _, e := range entries {
		sorted = append(sorted, w.b[e.start:e.end]...)
	}
	copy(w.b[start:], sorted)
}
