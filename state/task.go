package state

import (
	"fmt"
	"hash/maphash"
	"iter"
	"slices"
	"strings"
	"sync"
)

// frozenMax is the number of rounds that can be in flight beside the open one.
const frozenMax = 2

// Task is the state of one task: the open overlay, the frozen layers of the rounds in flight, and
// the database. A read asks the index of the layers, and then the database.
//
// A Task belongs to one goroutine, its owner. Apply is the exception: it may run on one other
// goroutine while the owner reads and writes.
type Task struct {
	db Database
	// keys is db, if it is a KeyDatabase.
	keys   KeyDatabase
	seed   maphash.Seed
	stores map[string]*taskStore
	ids    []StoreID
	names  []string
	// layouts are those of the stores, by index.
	layouts []Layout
	// index finds writes in open and frozen.
	index index
	open  *overlay
	// expiry is the progress of Expire in each store.
	expiry []expiry
	// times are the stream times of the stores, by index, with the changes of the open round.
	times times
	// found is the memory of what one KeyRows finds in the layers.
	found []scanEntry
	// roundSize is the expected number of writes of the next round, see nextOverlay.
	roundSize int
	closed    bool

	// mu orders changes of frozen by the owner with Apply on another goroutine. Only the owner
	// writes frozen, so it reads frozen without the lock.
	mu     sync.Mutex
	frozen []*Layer // oldest first
}

// NewTask returns the state of a task over db with the declared stores, which it also declares to
// the database. It refuses two names with the same id (ErrStoreID). From then on the task owns db:
// Close closes it. After an error the caller still owns db.
func NewTask(db Database, stores []Declaration) (*Task, error) {
	t := &Task{
		db:     db,
		seed:   maphash.MakeSeed(),
		stores: make(map[string]*taskStore, len(stores)),
	}
	t.keys, _ = db.(KeyDatabase)
	t.open = newOverlay(&t.index, 0)
	names := make(map[StoreID]string, len(stores))
	for i, s := range stores {
		name, id := s.Name, IDOf(s.Name)
		if other, taken := names[id]; taken {
			return nil, fmt.Errorf("state: new task: %w: %q and %q have the id %08x",
				ErrStoreID, other, name, id)
		}
		names[id] = name
		t.ids, t.names = append(t.ids, id), append(t.names, name)
		t.layouts = append(t.layouts, s.Layout)
		t.stores[name] = &taskStore{task: t, index: uint32(i), id: id, name: name, layout: s.Layout}
	}
	if err := db.Declare(stores...); err != nil {
		return nil, fmt.Errorf("state: new task: %w", err)
	}
	t.times = newTimes(t.names, db.Positions())
	t.expiry = make([]expiry, len(stores))
	return t, nil
}

// Store returns the store of that name. For a name that the task did not declare, every method of
// the result returns ErrUnknownStore.
func (t *Task) Store(name string) Bytes {
	if s, ok := t.stores[name]; ok {
		return s
	}
	declared := make([]string, 0, len(t.stores))
	for name := range t.stores {
		declared = append(declared, name)
	}
	slices.Sort(declared)
	return unknownStore{err: fmt.Errorf("state: %w %q: declared are [%s]", ErrUnknownStore, name,
		strings.Join(declared, " "))}
}

// Mark begins a savepoint and accepts all earlier writes. The next Mark or Freeze accepts the
// writes since this one. See Savepoint for savepoints inside it.
func (t *Task) Mark() {
	t.open.mark()
	t.times.mark()
}

// Revert undoes every write since the last Mark, in time proportional to their number. The
// savepoint stays: a further Revert goes back to the same point. Without a Mark in the open round
// it does nothing.
func (t *Task) Revert() {
	t.open.revert()
	t.times.revert()
}

// Savepoint returns a function that undoes every write since this call, in time proportional to
// their number. Earlier writes since the last Mark stay. The function may be called several times,
// and discards later savepoints. It must not be called after the next Mark, Revert, Freeze or Drop.
// If the open round has no Mark, Savepoint makes one.
func (t *Task) Savepoint() (undo func()) {
	if !t.open.logged {
		t.Mark()
	}
	open, times := t.open.savepoint(), t.times.savepointNow()
	return func() {
		t.open.undoTo(open)
		t.times.undoTo(times)
	}
}

// Freeze turns the open overlay, which may be empty, into an immutable layer and puts a new open
// overlay on top.
func (t *Task) Freeze() *Layer {
	l := &Layer{overlay: t.open, ids: t.ids, layouts: t.layouts, times: t.times.freeze()}
	// These are not needed any more; the rest of the overlay lives as long as the layer.
	l.overlay.undo, l.overlay.scanned, l.overlay.index = nil, nil, nil
	t.mu.Lock()
	t.frozen = append(t.frozen, l)
	inFlight := len(t.frozen)
	t.mu.Unlock()
	if invariants && inFlight > frozenMax {
		panic(fmt.Sprintf("state: %d layers are frozen, there are never more than %d rounds in flight",
			inFlight, frozenMax))
	}
	t.open = t.nextOverlay()
	return l
}

// nextOverlay returns an empty overlay with room for the next round, because rounds resemble their
// predecessors. After a smaller round, half of the room is kept, so the memory of a burst is freed
// after a few quiet rounds.
func (t *Task) nextOverlay() *overlay {
	t.roundSize = max(len(t.open.entries), t.roundSize/2)
	if t.roundSize < 8 {
		return newOverlay(&t.index, 0)
	}
	return newOverlay(&t.index, t.roundSize)
}

// OpenBytes estimates the memory of the open overlay, for the byte bound of a round.
func (t *Task) OpenBytes() int { return t.open.bytes() }

// Apply makes the oldest unapplied layer part of the database, in one atomic step with the
// positions. It refuses every other layer with ErrLayer, and returns ErrBase unless the database is
// at base. The layer stays in the read path until Retire. Apply may run on another goroutine than
// the owner's, one call at a time.
//
// After another error nothing of the layer is visible, but it may be unknown what reached the disk:
// the owner drops the layers and closes the task.
func (t *Task) Apply(l *Layer, base, next Positions) error {
	if err := t.checkOldest(l); err != nil {
		return err
	}
	if err := t.db.Apply(base, next, l.Writes()); err != nil {
		return err
	}
	l.applied.Store(true)
	return nil
}

func (t *Task) checkOldest(l *Layer) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	oldest := slices.IndexFunc(t.frozen, func(f *Layer) bool { return !f.applied.Load() })
	if oldest < 0 || t.frozen[oldest] != l {
		return fmt.Errorf("state: apply: %w (%d layers are frozen, %d of them not applied)", ErrLayer,
			len(t.frozen), len(t.frozen)-max(oldest, 0))
	}
	return nil
}

// Retire takes an applied layer out of the read path, on the owner's goroutine. It must be the
// oldest one, and applied: anything else would let reads go back in time, and panics.
func (t *Task) Retire(l *Layer) {
	if len(t.frozen) == 0 || t.frozen[0] != l || !l.applied.Load() {
		panic("state: Retire of a layer that is not the oldest one or was not applied")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.index.end(l.overlay)
	t.frozen = slices.Delete(t.frozen, 0, 1)
}

// Drop removes the open overlay and all frozen layers: it aborts their rounds. Only the owner calls
// it, while no Apply runs. An applied layer stays applied.
func (t *Task) Drop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.frozen = nil
	t.index.reset()
	t.open = t.nextOverlay()
	t.times = newTimes(t.names, t.db.Positions())
}

// DropOpen removes the open overlay and keeps the frozen layers: it aborts the round that is being
// computed, while the one below continues. Only the owner calls it, at any time.
func (t *Task) DropOpen() {
	t.index.replace(t.open)
	t.open = newOverlay(&t.index, 0)
	t.index.rebuild(0)
	if n := len(t.frozen); n > 0 {
		t.times.reset(t.frozen[n-1].times)
	} else {
		t.times = newTimes(t.names, t.db.Positions())
	}
}

// Positions returns the positions of the database: what it contains without any layer.
func (t *Task) Positions() Positions { return t.db.Positions() }

// Database returns the database below the layers, for restoring and for views.
func (t *Task) Database() Database { return t.db }

// Close drops all layers and closes the database. Further calls do nothing.
func (t *Task) Close() error {
	if t.closed {
		return nil
	}
	t.closed = true
	t.Drop()
	return t.db.Close()
}

// taskStore is the Bytes of one declared store.
type taskStore struct {
	task  *Task
	index uint32
	id    StoreID
	name  string
	// layout checks rows, so that a wrong one fails here and not when the round commits.
	layout Layout
}

func (s *taskStore) Get(key []byte) ([]byte, bool, error) {
	t := s.task
	hash := hashKey(t.seed, s.index, key)
	if value, found := t.open.get(hash, s.index, key); found {
		return value, value != nil, nil
	}
	value, ok, err := t.db.Get(s.id, key)
	if err != nil {
		return nil, false, fmt.Errorf("state: get from %s: %w", s.name, err)
	}
	return value, ok, nil
}

func (s *taskStore) Put(key, value []byte) error {
	if value == nil {
		value = []byte{} // nil means deleted in the overlay, and null in the changelog
	}
	return s.write(key, value)
}

func (s *taskStore) Delete(key []byte) error { return s.write(key, nil) }

func (s *taskStore) write(key, value []byte) error {
	t := s.task
	if t.closed {
		return fmt.Errorf("state: write to %s: the task is %w", s.name, ErrClosed)
	}
	if s.layout != (Layout{}) {
		if _, err := s.layout.Record(Write{Store: s.id, Key: key, Value: value, Delete: value == nil}); err != nil {
			return fmt.Errorf("state: write to %s: %w", s.name, err)
		}
	}
	t.open.put(hashKey(t.seed, s.index, key), s.index, key, value)
	return nil
}

func (s *taskStore) StreamTime() int64 { return s.task.times.now[s.index] }

func (s *taskStore) Advance(ms int64) { s.task.times.advance(s.index, ms) }

func (s *taskStore) Scan(r Range) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		// The layers are collected before the database is asked. A batch that another goroutine
		// applies in between is seen twice then, with the same values, instead of not at all.
		pending := s.task.pending(s.index, r)
		merge(s.wrapErrors(s.task.db.Scan(s.id, r)), pending, r.Reverse, yield)
	}
}

// wrapErrors adds the name of the store to the errors of a scan.
func (s *taskStore) wrapErrors(seq iter.Seq2[Entry, error]) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for e, err := range seq {
			if err != nil {
				err = fmt.Errorf("state: scan %s: %w", s.name, err)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// unknownStore is the Bytes of a name that was not declared.
type unknownStore struct{ err error }

func (s unknownStore) Get([]byte) ([]byte, bool, error) { return nil, false, s.err }
func (s unknownStore) Put([]byte, []byte) error         { return s.err }
func (s unknownStore) Delete([]byte) error              { return s.err }
func (s unknownStore) StreamTime() int64                { return 0 }
func (s unknownStore) Advance(int64)                    {}
func (s unknownStore) Scan(Range) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) { yield(Entry{}, s.err) }
}
