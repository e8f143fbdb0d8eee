package restore

import (
	"bytes"
	"encoding/binary"
	"iter"

	"github.com/onceward/onceward/state"
)

// pageSize is the unit in which a chunk grows, and in which memory is handed out.
const pageSize = 1 << 20

// chunk collects the writes of one changelog and gives them back in the order of their keys, the
// last one per key. It keeps them as bytes in pages and sorts entries without pointers, because the
// garbage collector would otherwise look at millions of them.
//
// A map from key to write was the way before: it costs more per record than the sort, and its order
// is of no use to a sorted table.
type chunk struct {
	pages   [][]byte // of pageSize, longer ones for single records that are longer
	used    int      // of the last page
	entries []entry
	sorted  bool
	// common is how many bytes all keys begin with, as far as it is known; first is one of the
	// keys.
	common int
	first  []byte
	// touched lets the compiler believe that touch is of use.
	touched byte
}

// entry is one write. The order of (hi, lo) is that of the keys: see load.
type entry struct {
	hi uint64
	lo uint32
	// at is the place of the write: the number of its page, and the offset in it in the lower
	// pageBits bits. It grows with every write.
	at uint32
}

const (
	// entriesPerPage are 16 bytes each.
	entriesPerPage = pageSize / 16
	pageBits       = 20
	// chunkPagesMax is how many pages the number in entry.at can name.
	chunkPagesMax = 1 << (32 - pageBits)
	// writeMax is the most that the two lengths before key and value take.
	writeMax = 2 * binary.MaxVarintLen32
)

// fits reports whether a write fits into the pages that the chunk has.
func (c *chunk) fits(key, value []byte) bool {
	return len(c.pages) > 0 && writeMax+len(key)+len(value) <= len(c.pages[len(c.pages)-1])-c.used
}

// grow adds a page.
func (c *chunk) grow(page []byte) {
	c.pages = append(c.pages, page)
	c.used = 0
}

// add copies a write into the last page, which it fits into, and into the index, which has room. A
// nil value is a deletion.
func (c *chunk) add(key, value []byte) {
	page := c.pages[len(c.pages)-1]
	at := c.used
	c.entries = append(c.entries, entry{at: uint32(len(c.pages)-1)<<pageBits | uint32(at)})
	at += binary.PutUvarint(page[at:], uint64(len(key)))
	length := uint64(0)
	if value != nil {
		length = uint64(len(value)) + 1
	}
	at += binary.PutUvarint(page[at:], length)
	key = page[at : at+copy(page[at:], key)]
	at += len(key)
	at += copy(page[at:], value)
	c.used = at
	if len(c.entries) == 1 {
		c.first, c.common = key, len(key)
	}
	if len(key) < c.common || string(key[:c.common]) != string(c.first[:c.common]) {
		c.common = commonPrefix(c.first[:c.common], key)
	}
	c.sorted = false
}

func commonPrefix(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// indexFull reports whether there is no room for another entry.
func (c *chunk) indexFull() bool { return len(c.entries) == cap(c.entries) }

// indexPages is how much memory the entries take.
func (c *chunk) indexPages() int { return cap(c.entries) / entriesPerPage }

// growIndex gives the chunk a larger index, and returns the one that it had.
func (c *chunk) growIndex(larger []entry) (before []entry) {
	before = c.entries
	c.entries = append(larger[:0], before...)
	return before
}

// key returns the key of an entry, which belongs to the chunk.
func (c *chunk) key(at uint32) []byte {
	b := c.pages[at>>pageBits][at&(pageSize-1):]
	keyLength, n := shortUvarint(b)
	_, m := shortUvarint(b[n:])
	return b[n+m : n+m+keyLength]
}

// write returns key and value of an entry, which belong to the chunk.
func (c *chunk) write(at uint32) (key, value []byte) {
	b := c.pages[at>>pageBits][at&(pageSize-1):]
	keyLength, n := shortUvarint(b)
	length, m := shortUvarint(b[n:])
	b = b[n+m:]
	key = b[:keyLength:keyLength]
	if length > 0 {
		value = b[keyLength : keyLength+length-1 : keyLength+length-1]
	}
	return key, value
}

// shortUvarint is binary.Uvarint for what add has written.
func shortUvarint(b []byte) (v, size int) {
	if b[0] < 0x80 {
		return int(b[0]), 1
	}
	long, size := binary.Uvarint(b)
	return int(long), size
}

// all returns the last write of each key, in strictly ascending order of the keys. Keys and values
// are valid until the chunk is reset.
func (c *chunk) all(store state.StoreID) iter.Seq[state.Write] {
	c.sort()
	return func(yield func(state.Write) bool) {
		var w state.Write
		for i := range c.entries {
			if i%lookAhead == 0 {
				c.touch(c.entries[i:min(i+lookAhead, len(c.entries))])
			}
			key, value := c.write(c.entries[i].at)
			if i > 0 && !bytes.Equal(key, w.Key) && !yield(w) {
				return
			}
			w = state.Write{Store: store, Key: key, Value: value, Delete: value == nil}
		}
		if len(c.entries) > 0 {
			yield(w)
		}
	}
}

// The writes are brought into the processor's cache lookAhead at a time. In key order each of them
// is elsewhere in memory, and waiting for them one by one was the largest part of a restore. Loads
// that do not depend on each other are waited for together.
const lookAhead = 32

// lineSize is what comes with a byte.
const lineSize = 64

// touch reads a byte of every line that a short write is in.
func (c *chunk) touch(entries []entry) {
	var sum byte
	for i := range entries {
		at := entries[i].at
		b := c.pages[at>>pageBits][at&(pageSize-1):]
		sum += b[0] + b[min(lineSize/2, len(b)-1)]
	}
	c.touched = sum
}

// reset empties the chunk and returns its memory.
func (c *chunk) reset() (pages [][]byte, index []entry) {
	pages, index = c.pages, c.entries
	*c = chunk{}
	return pages, index
}
