package pebblestore

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/cockroachdb/pebble/v2"

	"github.com/onceward/onceward/state"
)

// committed is the layer above Pebble: the writes of rounds that were applied and are not in Pebble
// yet, the last one of each key. It exists for keys that are written again and again. In a memtable
// every one of their versions costs an insertion, memory and a share of the next flush, and reading
// one is a search through all of it; here a new version takes the place of the old one, and reading
// is one look into a hash table.
//
// It is invisible to Pebble, so whatever looks at more than one key, or writes past it, drains it
// first: all of it goes into Pebble as one batch with the positions of its last round. That keeps
// Pebble's guarantee, batches are atomic and in order, the only one there is: after a crash the
// database is at the end of some drained batch, hence of a round. Stores that are scanned all the
// time would only pay for the detour; see directApplies.
type committed struct {
	shared *Shared
	// down is held while something goes into Pebble, so that it goes in the order in which it was
	// applied.
	down sync.Mutex

	// mu guards the two buffers. Apply holds it for a whole round: a Get sees all of it or nothing.
	mu sync.RWMutex
	// active takes what is applied. draining is on its way into Pebble; it is nil when nothing is,
	// immutable, and older than all of active.
	active, draining *buffer

	// scans counts scans and views since the last Apply.
	scans atomic.Int64
	// fruitless is the number of bytes that heavy rounds still bring straight into Pebble, after a
	// full buffer in which most keys were written once. For them the sorted order of a round, which
	// a memtable likes, is worth more than the buffer.
	fruitless atomic.Int64
}

// directApplies is the number of rounds after a scan or view that go straight into Pebble: where
// one scan was more follow, and each would drain a buffer that has not repaid its cost. Tests set
// it to 0.
const directApplies = 16

const (
	// heavyShare makes a round of this part of FlushBytes a heavy one.
	heavyShare = 16
	// fruitlessFactor times FlushBytes go past the buffer before it is tried again.
	fruitlessFactor = 8
)

func newCommitted(shared *Shared) *committed {
	c := &committed{shared: shared}
	c.active = c.newBuffer(0)
	return c
}

// newBuffer returns a buffer with room for so many entries, whose memory is counted.
func (c *committed) newBuffer(entries int) *buffer {
	b := newBuffer(entries)
	if c.shared != nil {
		b.memory = reservation{shared: c.shared, use: &c.shared.buffers}
		b.memory.grow(b.held())
	}
	return b
}

// get looks a database key up; known is false when only Pebble can tell. The value is a copy.
func (c *committed) get(hash uint64, key []byte) (value []byte, ok, known bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, b := range [...]*buffer{c.active, c.draining} {
		if b == nil || len(b.entries) == 0 {
			continue
		}
		if i := b.find(hash, key); i >= 0 {
			e := &b.entries[i]
			if e.deleted {
				return nil, false, true
			}
			return append(make([]byte, 0, e.valueLen), b.value(e)...), true, true
		}
	}
	return nil, false, false
}

// empty reports whether Pebble has everything.
func (c *committed) empty() bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.draining == nil && !c.active.used
}

// bytes is the memory of the buffers.
func (c *committed) bytes() int64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	n := c.active.bytes()
	if c.draining != nil {
		n += c.draining.bytes()
	}
	return n
}

// seal makes the active buffer the one that is drained, and returns it, or nil if there is nothing
// in it. The caller holds down.
func (c *committed) seal() *buffer {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.active.used {
		return nil
	}
	c.draining = c.active
	// The next one is about as large, or half: a burst is forgotten after a few drains.
	c.active = c.newBuffer(len(c.draining.entries) / 2)
	return c.draining
}

// drained forgets the sealed buffer, whose content Pebble has now. The caller holds down.
func (c *committed) drained() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.draining.memory.end()
	c.draining = nil
}

// end gives the memory back when the database is closed, drained or not.
func (c *committed) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range [...]*buffer{c.active, c.draining} {
		if b != nil {
			b.memory.end()
		}
	}
}

// drain brings everything that was applied before the call into Pebble.
func (d *database) drain(op string) error {
	if d.committed.empty() {
		return nil
	}
	d.committed.down.Lock()
	defer d.committed.down.Unlock()
	return d.drainLocked(op)
}

// drainLocked is drain with down held.
func (d *database) drainLocked(op string) error {
	sealed := d.committed.seal()
	if sealed == nil {
		return nil
	}
	b := d.db.NewBatch(pebble.WithInitialSizeBytes(int(sealed.bytes())))
	defer releaseBatch(b)
	if sealed.bytes() >= d.flusher.bytes/2 && sealed.writes < len(sealed.entries)*3/2 {
		d.committed.fruitless.Store(fruitlessFactor * d.flusher.bytes)
	}
	for e := range sealed.all() {
		if err := addRaw(b, sealed.key(e), sealed.value(e), e.deleted); err != nil {
			return d.stuck(op, err)
		}
	}
	if err := d.commit(op, b, sealed.positions); err != nil {
		return d.stuck(op, err)
	}
	d.committed.drained()
	return nil
}

// stuck returns the error of a drain, and sees to it that the database is closed or has stopped.
// What is sealed was applied: whatever came next would go past it and take its place, and those
// rounds would be lost to every reader.
func (d *database) stuck(op string, err error) error {
	if errors.Is(err, state.ErrClosed) {
		return err
	}
	var e *storeError
	if !errors.As(err, &e) {
		e = d.fault.newError(op, err)
	}
	d.fault.stopFor(e) // a database that has stopped already keeps its first reason
	return d.fault.check(op)
}

// drainForScan is drain for a reader of more than one key.
func (d *database) drainForScan(op string) error {
	d.committed.scans.Add(1)
	return d.drain(op)
}

// put adds the writes of a round and the positions after it to the buffer. The caller holds
// applying.
func (d *database) put(op string, b *pebble.Batch, next *state.Positions) error {
	d.life.RLock()
	defer d.life.RUnlock()
	if err := d.usableLocked(op); err != nil {
		return err
	}
	c := d.committed
	c.mu.Lock()
	before := c.active.bytes()
	err := c.active.addBatch(b)
	if err == nil {
		d.rows.begin()
		err = d.rows.update(b)
		d.rows.end()
	}
	c.active.positions, c.active.used = *next, true
	d.positions.Store(next)
	grown := c.active.bytes() - before
	c.active.memory.grow(c.active.held())
	c.mu.Unlock()
	if err != nil {
		// The batch was made a moment ago: this is memory that changed by itself. Half of a round
		// is in.
		d.fault.stop(err)
		return d.fault.check(op)
	}
	d.flusher.wrote(max(grown, 1)) // a round that only writes over others has to get down some day too
	return nil
}

// buffer is a hash table of writes by database key, made for being filled once and thrown away:
// keys and values are in one block of memory without pointers, which costs the garbage collector
// nothing.
type buffer struct {
	// slots are open addressed: the number of an entry plus one, or 0. There are always at least as
	// many as twice the entries, and a power of two.
	slots   []uint32
	entries []bufferEntry
	data    []byte
	// writes counts all of them, those that were replaced too.
	writes int
	memory reservation
	// positions are those after the last round. used is set once there is one, even one without
	// writes.
	positions state.Positions
	used      bool
}

// bufferEntry is the last write of one key. Offsets are into data.
type bufferEntry struct {
	hash              uint64
	keyAt, keyLen     uint32
	valueAt, valueLen uint32
	valueCap          uint32
	deleted           bool
}

// entrySize is the memory of an entry with its slots.
const entrySize = 32 + 2*4

// bufferDataMax keeps offsets in data far from the end of their type.
const bufferDataMax = math.MaxUint32 / 2

// newBuffer returns a buffer with room for so many entries.
func newBuffer(entries int) *buffer {
	slots := 64
	for slots < 2*entries {
		slots *= 2
	}
	return &buffer{slots: make([]uint32, slots), entries: make([]bufferEntry, 0, entries)}
}

func (b *buffer) key(e *bufferEntry) []byte { return b.data[e.keyAt:][:e.keyLen] }

func (b *buffer) value(e *bufferEntry) []byte { return b.data[e.valueAt:][:e.valueLen] }

// bytes is about what the buffer has used of its memory.
func (b *buffer) bytes() int64 { return int64(len(b.data) + entrySize*len(b.entries)) }

// held is the memory that the buffer holds, used or not.
func (b *buffer) held() int64 {
	return int64(cap(b.data)) + int64(cap(b.entries))*int64(unsafe.Sizeof(bufferEntry{})) + 4*int64(len(b.slots))
}

// all yields the entries in the order in which their keys came first.
func (b *buffer) all() iter.Seq[*bufferEntry] {
	return func(yield func(*bufferEntry) bool) {
		for i := range b.entries {
			if !yield(&b.entries[i]) {
				return
			}
		}
	}
}

// find returns the number of the entry of a key, or -1.
func (b *buffer) find(hash uint64, key []byte) int {
	mask := uint64(len(b.slots) - 1)
	for at := hash & mask; b.slots[at] != 0; at = (at + 1) & mask {
		i := int(b.slots[at] - 1)
		if e := &b.entries[i]; e.hash == hash && string(b.key(e)) == string(key) {
			return i
		}
	}
	return -1
}

// addBatch adds the writes of a batch of sets and deletes.
func (b *buffer) addBatch(batch *pebble.Batch) error {
	for r := batch.Reader(); ; {
		kind, key, value, ok, err := r.Next()
		if err != nil || !ok {
			return err
		}
		switch kind {
		case pebble.InternalKeyKindSet:
			b.put(hashOf(key), key, value, false)
		case pebble.InternalKeyKindDelete:
			b.put(hashOf(key), key, nil, true)
		default:
			return fmt.Errorf("a batch has an operation of kind %d", kind)
		}
	}
}

// put makes one write the last one of its key.
func (b *buffer) put(hash uint64, key, value []byte, deleted bool) {
	b.writes++
	i := b.find(hash, key)
	if i < 0 {
		i = len(b.entries)
		b.entries = append(b.entries, bufferEntry{hash: hash, keyAt: uint32(len(b.data)), keyLen: uint32(len(key))})
		b.data = append(b.data, key...)
		b.occupy(i)
	}
	e := &b.entries[i]
	e.deleted, e.valueLen = deleted, uint32(len(value))
	if e.valueLen > e.valueCap {
		// Rounded up, for values that grow a little, as counters do. The old place is lost until
		// the buffer is drained, which it counts towards.
		e.valueAt, e.valueCap = uint32(len(b.data)), (e.valueLen+7)&^7
		b.data = append(b.data, value...)
		b.data = append(b.data, make([]byte, e.valueCap-e.valueLen)...)
		return
	}
	copy(b.data[e.valueAt:], value)
}

// occupy gives entry i, the last one, its slot.
func (b *buffer) occupy(i int) {
	if 2*len(b.entries) <= len(b.slots) {
		b.take(i)
		return
	}
	b.slots = make([]uint32, 2*len(b.slots))
	for i := range b.entries {
		b.take(i)
	}
}

func (b *buffer) take(i int) {
	mask := uint64(len(b.slots) - 1)
	at := b.entries[i].hash & mask
	for b.slots[at] != 0 {
		at = (at + 1) & mask
	}
	b.slots[at] = uint32(i + 1)
}

// addRaw adds a write of a database key to a batch.
func addRaw(b *pebble.Batch, key, value []byte, deleted bool) error {
	if deleted {
		return b.Delete(key, nil)
	}
	return b.Set(key, value, nil)
}
