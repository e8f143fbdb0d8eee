package pebblestore

import (
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/onceward/onceward/state"
)

// database implements state.Database.
//
// Locks are taken in this order: applying, committed.down, life, view.mu, committed.mu. Then come
// the leaves: rows.mu, names, open, iterators.mu, habits.mu, fillers.mu and that of each keyFilter.
// Closing an iterator takes a lock of Pebble, so no function that Pebble calls may release the
// iterators. No lock is held while code of a caller runs, except applying, during which Apply and
// Load take the writes.
type database struct {
	path  string
	fs    vfs.FS
	db    *pebble.DB
	lock  *pebble.Lock
	fault *fault
	// tables is how Load writes one.
	tables sstable.WriterOptions

	// applying orders Apply, Remove and Load. One that waits for room holds it.
	applying sync.Mutex
	// batchBytes is about the size of the last batches. It belongs to the holder of applying.
	batchBytes int
	// loads counts calls of Load. It belongs to the holder of applying.
	loads int
	// direct is the number of rounds that still go straight into Pebble, directApplies where it
	// begins after a scan. They belong to the holder of applying.
	direct, directApplies int
	// positions is what the last round left behind. Only the holder of applying sets it.
	positions atomic.Pointer[state.Positions]
	committed *committed

	names struct {
		sync.Mutex
		byID map[state.StoreID]state.Declaration
	}

	// life is held shared for each single call into Pebble, and exclusively by Close: Pebble panics
	// when it is used after its end.
	life struct {
		sync.RWMutex
		closed bool
	}
	closeOnce sync.Once

	// open has what must be closed before Pebble may be.
	open struct {
		sync.Mutex
		iterators map[*pebble.Iterator]struct{}
		views     map[*view]struct{}
	}

	flusher flusher

	iterators iteratorCache
	habits    habits
	fillers   fillers
	rows      rows
}

// batchBytesMin is the room for a round of a few records.
const batchBytesMin = 1 << 10

func newDatabase(path string, db *pebble.DB, lock *pebble.Lock, f *fault, o Options) *database {
	d := &database{path: path, fs: o.FS, db: db, lock: lock, fault: f, committed: newCommitted(o.Shared), directApplies: directApplies}
	options := pebbleOptions(o, f)
	options.EnsureDefaults()
	d.tables = options.MakeWriterOptions(0, db.TableFormat())
	d.names.byID = make(map[state.StoreID]state.Declaration)
	d.open.iterators = make(map[*pebble.Iterator]struct{})
	d.open.views = make(map[*view]struct{})
	d.flusher = newFlusher(o)
	d.batchBytes = batchBytesMin
	d.iterators.shared = o.Shared
	d.fillers.stop = make(chan struct{})
	d.rows = rows{shared: o.Shared, stores: make(map[state.StoreID]struct{}), groups: make(map[state.StoreID]int)}
	if o.Shared != nil {
		d.rows.memory = reservation{shared: o.Shared, use: &o.Shared.rows}
	}
	o.Shared.join(d)
	return d
}

// Positions implements state.Database. It answers after Close and after a fault as well.
func (d *database) Positions() state.Positions { return d.positions.Load().Clone() }

// Get implements state.Database.
func (d *database) Get(store state.StoreID, key []byte) ([]byte, bool, error) {
	d.life.RLock()
	defer d.life.RUnlock()
	if err := d.usableLocked("get"); err != nil {
		return nil, false, err
	}
	buffer := keyBuffers.Get().(*[]byte)
	defer keyBuffers.Put(buffer)
	*buffer = appendDataKey((*buffer)[:0], store, key)
	hash, h := hashOf(*buffer), d.habits.of(store)
	if n := int(h.suffix.Load()); n > 0 && len(key) >= n {
		if value, found, known := d.getInGroup(store, h, *buffer, n); known {
			return value, found, nil
		}
		return d.getBeyond(store, h, hash, *buffer)
	}
	// Before anything else: a key is in the filter before it is anywhere.
	if h.knowsAbsent(hash) {
		return nil, false, nil
	}
	return d.getBeyond(store, h, hash, *buffer)
}

// getBeyond is Get beyond the filter. The caller holds life.
func (d *database) getBeyond(store state.StoreID, h *habit, hash uint64, key []byte) ([]byte, bool, error) {
	value, found, known, at := d.inMemory(hash, key)
	if known {
		h.saw(found)
		return value, found, nil
	}
	value, found, err := d.lookUp(store, h, key)
	if found && err == nil && !h.expectsAbsent() {
		d.rows.keep(store, hash, key, value, at)
	}
	if err = d.fault.read("get", err); err != nil {
		return nil, false, err
	}
	return value, found, nil
}

// inMemory looks a database key up in the layers above Pebble; known is false if only Pebble knows.
// at is for rows.keep and must be read before the buffer. A key that is applied in between is not
// in Pebble yet, and an old value from Pebble must not be kept.
func (d *database) inMemory(hash uint64, key []byte) (value []byte, found, known bool, at uint64) {
	if value, found, known, at = d.rows.get(hash, key); known {
		return value, found, known, at
	}
	value, found, known = d.committed.get(hash, key)
	return value, found, known, at
}

// lookUp looks a database key up in Pebble, in the way that suits what lookups of the store mostly
// find. The caller holds life.
func (d *database) lookUp(store state.StoreID, h *habit, key []byte) (value []byte, found bool, err error) {
	if h.expectsAbsent() {
		value, found, err = d.seek(key)
	} else {
		value, found, err = getRaw(d.db, key)
	}
	if err == nil {
		h.saw(found)
		if h.wantsFilter() {
			d.startFilling(store, h)
		}
	}
	return value, found, err
}

// getRaw returns a copy of the value of a database key. The copy is not nil if the key was found.
func getRaw(r pebble.Reader, key []byte) (value []byte, found bool, err error) {
	v, closer, err := r.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	value = append(make([]byte, 0, len(v)), v...)
	return value, true, closer.Close()
}

// Apply implements state.Database.
func (d *database) Apply(base, next state.Positions, writes iter.Seq[state.Write]) error {
	d.applying.Lock()
	defer d.applying.Unlock()
	if err := d.admit("apply", base, next); err != nil {
		return err
	}
	// Rounds resemble their predecessors: with room for the last one, the batch is rarely moved
	// while it grows.
	b := d.db.NewBatch(pebble.WithInitialSizeBytes(d.batchBytes + d.batchBytes/8))
	defer releaseBatch(b)
	filters := filterWriter{habits: &d.habits}
	for w := range writes {
		key, err := addWrite(b, w)
		if err != nil {
			return d.fault.newError("apply", err)
		}
		filters.add(w, key)
	}
	filters.flush()
	d.batchBytes = max(b.Len(), d.batchBytes/2, batchBytesMin)
	next = next.Clone()
	if d.goesDirect(b) {
		return d.commitDirect("apply", b, &next)
	}
	return d.put("apply", b, &next)
}

// goesDirect reports whether a round bypasses the buffer. It does in three cases: its stores are
// scanned all the time; the round alone is large enough for a flush; or it is large and the last
// rounds had few keys in common. The caller holds applying.
func (d *database) goesDirect(b *pebble.Batch) bool {
	if d.committed.scans.Swap(0) > 0 {
		d.direct = d.directApplies
	}
	if d.direct > 0 {
		d.direct--
		return true
	}
	size := int64(b.Len())
	if size >= d.flusher.bytes/2 || d.committed.bytes()+size > bufferDataMax {
		return true
	}
	if size < d.flusher.bytes/heavyShare || d.committed.fruitless.Load() <= 0 {
		return false
	}
	d.committed.fruitless.Add(-size)
	return true
}

// commitDirect commits a batch behind what is buffered. The caller holds applying.
func (d *database) commitDirect(op string, b *pebble.Batch, next *state.Positions) error {
	d.committed.down.Lock()
	defer d.committed.down.Unlock()
	if err := d.drainLocked(op); err != nil {
		return err
	}
	size := int64(b.Len())
	d.rows.begin()
	defer d.rows.end()
	// Before the commit, which may take what is in the batch.
	if err := d.rows.update(b); err != nil {
		d.rows.clear()
		return d.fault.newError(op, err)
	}
	if err := d.commit(op, b, *next); err != nil {
		d.rows.clear()
		return err
	}
	d.positions.Store(next)
	d.flusher.wrote(size)
	return nil
}

// admit returns nil when the step from base to next may be made now, and waits for room. The caller
// holds applying.
func (d *database) admit(op string, base, next state.Positions) error {
	if err := next.Validate(); err != nil {
		return fmt.Errorf("pebblestore: %s in %s: next positions: %w", op, d.path, err)
	}
	if err := d.usable(op); err != nil {
		return err
	}
	if at := d.positions.Load(); !at.Same(base) {
		return &state.BaseError{Base: base.Clone(), Actual: at.Clone()}
	}
	return d.waitForRoom(op)
}

// releaseBatch gives the memory of a batch back. There is nothing in it that can fail.
func releaseBatch(b *pebble.Batch) { _ = b.Close() }

// addWrite encodes one write straight into the memory of the batch. It returns the database key,
// which lies there until the next write.
func addWrite(b *pebble.Batch, w state.Write) (key []byte, err error) {
	size := dataPrefixSize + len(w.Key)
	var op *pebble.DeferredBatchOp
	if w.Delete {
		op = b.DeleteDeferred(size)
	} else {
		op = b.SetDeferred(size, len(w.Value))
		copy(op.Value, w.Value)
	}
	putDataPrefix(op.Key, w.Store)
	copy(op.Key[dataPrefixSize:], w.Key)
	return op.Key, op.Finish()
}

// commit adds the positions to the batch and makes it visible in Pebble. The caller holds down, or
// is Open.
func (d *database) commit(op string, b *pebble.Batch, at state.Positions) error {
	set := func(key, value []byte) error { return b.Set(key, value, nil) }
	if err := errors.Join(set(positionsKey, at.Append(nil)), setNext(set)); err != nil {
		return d.fault.newError(op, err)
	}
	d.life.RLock()
	defer d.life.RUnlock()
	if err := d.usableLocked(op); err != nil {
		return err
	}
	d.iterators.begin()
	err := b.Commit(pebble.NoSync)
	d.iterators.end()
	// Pebble reports some failures of a commit through the fault alone, with no error here.
	if stopped := d.fault.check(op); stopped != nil {
		return stopped
	}
	if err != nil {
		return d.fault.newError(op, err)
	}
	return nil
}

// usable returns why the database refuses op, if it does.
func (d *database) usable(op string) error {
	d.life.RLock()
	defer d.life.RUnlock()
	return d.usableLocked(op)
}

func (d *database) usableLocked(op string) error {
	if d.life.closed {
		return errClosed(op, d.path)
	}
	return d.fault.check(op)
}

// Close implements state.Database.
func (d *database) Close() (err error) {
	d.closeOnce.Do(func() { err = d.close() })
	return err
}

func (d *database) close() error {
	close(d.flusher.stop) // also sends a batch away that waits for room
	<-d.flusher.stopped
	// Before any lock: a Load may hold one, and wait for a file that the fault holds back.
	d.fault.close()
	d.fillers.end()
	d.applying.Lock()
	defer d.applying.Unlock()
	// A database that stopped cannot write now either: this returns the reason once more.
	flushErr := d.flush("close")
	closeErr := d.abandon()
	if flushErr == nil && closeErr == nil {
		// A running compaction may have found a reason to stop. No data is lost, but only this
		// check reports it.
		return d.fault.check("close")
	}
	return errors.Join(flushErr, closeErr)
}

// abandon closes Pebble without a flush, and everything that is open on it.
func (d *database) abandon() error {
	// First: a checkpoint holds life, and after a fault it may wait for a lock of Pebble's whose
	// holder waits for this.
	d.fault.close()
	d.fillers.end()
	d.life.Lock()
	defer d.life.Unlock()
	d.life.closed = true
	// Code that adds to these sets holds life. So the sets are complete here, and their elements
	// are unused.
	d.open.Lock()
	iterators, views := d.open.iterators, d.open.views
	d.open.iterators, d.open.views = nil, nil
	d.open.Unlock()
	var errs []error
	for it := range iterators {
		errs = append(errs, it.Close())
	}
	d.iterators.release()
	for v := range views {
		errs = append(errs, v.release())
	}
	d.committed.end()
	d.habits.end()
	d.rows.clear()
	errs = append(errs, d.db.Close(), d.fault.files.closeAll(), d.lock.Close())
	// The rest will not be flushed any more.
	d.flusher.reached(d.flusher.written.Load())
	d.flusher.shared.leave(d)
	if err := errors.Join(errs...); err != nil && d.fault.err.Load() == nil {
		return fmt.Errorf("pebblestore: %w", d.fault.newError("close", err))
	}
	// After a fault every further error is its consequence.
	return nil
}

func errClosed(op, path string) error {
	return fmt.Errorf("pebblestore: %s: the database %s is %w", op, path, state.ErrClosed)
}
