package restore

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

const (
	// prefixSize is how many bytes of a key its entry holds at a time. The twelfth byte of (hi, lo)
	// says how many bytes that are, or that there are more. So "a" comes before "a\x00", and two
	// entries that are equal and not long have one key.
	prefixSize = 11
	isLong     = prefixSize + 1

	// insertionMax entries or fewer are sorted by insertion.
	insertionMax = 20
)

// sort orders the entries by key. Of the entries with one key the last write comes last; the others
// are not read.
//
// It is a radix sort in place, from the most significant byte. Keys are looked up in their pages
// once for every eleven bytes that their neighbours share with them, and not for every comparison:
// that is what makes it faster than a sort that compares.
func (c *chunk) sort() {
	if c.sorted {
		return
	}
	c.sorted = true
	c.load(c.entries, c.common)
	c.sortRange(c.entries, c.common)
}

// load puts the bytes from depth on of the keys into entries.
func (c *chunk) load(entries []entry, depth int) {
	for i := range entries {
		e := &entries[i]
		e.hi, e.lo = prefix(c.key(e.at)[depth:])
	}
}

func prefix(key []byte) (hi uint64, lo uint32) {
	if len(key) > prefixSize {
		return binary.BigEndian.Uint64(key), binary.BigEndian.Uint32(key[8:])&^0xff | isLong
	}
	var b [prefixSize + 1]byte
	copy(b[:], key)
	b[prefixSize] = byte(len(key))
	return binary.BigEndian.Uint64(b[:]), binary.BigEndian.Uint32(b[8:])
}

// digit returns byte i of (hi, lo).
func (e *entry) digit(i int) byte {
	if i < 8 {
		return byte(e.hi >> (56 - 8*i))
	}
	return byte(e.lo >> (24 - 8*(i-8)))
}

// sortRange sorts entries whose keys are equal in the first depth bytes, and that hold what
// follows.
func (c *chunk) sortRange(entries []entry, depth int) {
	for len(entries) > insertionMax {
		at, differ := firstDifference(entries)
		if !differ {
			if entries[0].lo&0xff != isLong {
				lastToEnd(entries)
				return
			}
			depth += prefixSize
			c.load(entries, depth)
			continue
		}
		ends := partition(entries, at)
		// The largest part is sorted by this loop and the others by calls, which keeps the stack
		// small.
		largest, size, start := 0, 0, 0
		for d, end := range ends {
			if end-start > size {
				largest, size = d, end-start
			}
			start = end
		}
		start = 0
		for d, end := range ends {
			if d != largest && end-start > 1 {
				c.sortRange(entries[start:end], depth)
			}
			start = end
		}
		entries = entries[ends[largest]-size : ends[largest]]
	}
	c.insertionSort(entries, depth)
}

// firstDifference returns the first byte of (hi, lo) in which entries differ.
func firstDifference(entries []entry) (at int, differ bool) {
	first := entries[0]
	var hi uint64
	var lo uint32
	for i := range entries {
		hi |= entries[i].hi ^ first.hi
		lo |= entries[i].lo ^ first.lo
	}
	switch {
	case hi != 0:
		return bits.LeadingZeros64(hi) / 8, true
	case lo != 0:
		return 8 + bits.LeadingZeros32(lo)/8, true
	default:
		return 0, false
	}
}

// partition orders entries by one byte, in place, and returns where the entries with each value of
// it end.
func partition(entries []entry, at int) (ends [256]int) {
	for i := range entries {
		ends[entries[i].digit(at)]++
	}
	var next [256]int
	sum := 0
	for d, n := range ends {
		next[d] = sum
		sum += n
		ends[d] = sum
	}
	for d := range ends {
		for i := next[d]; i < ends[d]; i = next[d] {
			e := entries[i]
			for to := e.digit(at); int(to) != d; to = e.digit(at) {
				place := next[to]
				next[to]++
				e, entries[place] = entries[place], e
			}
			entries[i] = e
			next[d]++
		}
	}
	return ends
}

// lastToEnd is the sort of the writes of a single key.
func lastToEnd(entries []entry) {
	last := 0
	for i := range entries {
		if entries[i].at > entries[last].at {
			last = i
		}
	}
	end := len(entries) - 1
	entries[last], entries[end] = entries[end], entries[last]
}

func (c *chunk) insertionSort(entries []entry, depth int) {
	for i := 1; i < len(entries); i++ {
		e := entries[i]
		j := i
		for ; j > 0 && c.less(&e, &entries[j-1], depth); j-- {
			entries[j] = entries[j-1]
		}
		entries[j] = e
	}
}

// less compares keys, and the writes of one key by their order.
func (c *chunk) less(a, b *entry, depth int) bool {
	if a.hi != b.hi {
		return a.hi < b.hi
	}
	if a.lo != b.lo {
		return a.lo < b.lo
	}
	if a.lo&0xff == isLong {
		depth += prefixSize
		if order := bytes.Compare(c.key(a.at)[depth:], c.key(b.at)[depth:]); order != 0 {
			return order < 0
		}
	}
	return a.at < b.at
}
