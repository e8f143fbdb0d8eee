package pebblestore

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/onceward/onceward/state"
)

// split is a state.Database of two parts: a database on the disk, and one over a file system in
// memory for the stores of Options.InMemory.
//
// Each step is made in both parts, one after the other, and positions names what both contain. The
// memory has the positions as they are. The disk has no position of a store in memory, only a note
// (state.Positions.OnDisk). So a crash between the parts loses nothing: it takes the memory with
// it, and what is left is a database of the stores on the disk at their positions.
//
// The part that has the rows of a step comes first: it may refuse the step. If the other part
// fails then, the parts are of two steps, and every later call is refused.
type split struct {
	disk, memory *database
	inMemory     map[state.StoreID]string

	// steps orders Apply, Remove, Load and Declare. One that waits for room holds it.
	steps sync.Mutex
	// parts is held for writing while the two parts may be of two steps, and for reading by View.
	parts     sync.RWMutex
	positions atomic.Pointer[state.Positions]
	// torn is why the parts are of two steps.
	torn atomic.Pointer[error]
	// emptied has the stores in memory that Remove has emptied since Open, whose layout may change.
	// It belongs to the holder of steps.
	emptied map[state.StoreID]bool
	// arena has the rows of a round for the memory, moved in turn. It belongs to the holder of
	// steps.
	arena  arena
	tables tables
}

// openSplit adds the part in memory to a database on the disk, which it closes after an error.
func openSplit(disk *database, o Options) (_ state.Database, err error) {
	s := &split{disk: disk, inMemory: map[state.StoreID]string{}, emptied: map[state.StoreID]bool{}}
	for _, name := range o.InMemory {
		s.inMemory[state.IDOf(name)] = name
	}
	if err := s.leaveDisk(); err != nil {
		return nil, errors.Join(err, disk.Close())
	}
	o.FS = vfs.NewMem()
	if s.memory, err = openDatabase(disk.path, o); err != nil {
		return nil, errors.Join(err, disk.Close())
	}
	s.tables = newTables(o.Shared)
	at := disk.Positions()
	s.positions.Store(&at)
	return s, nil
}

// leaveDisk removes the rows on the disk of stores that are in memory now. The position of the
// first one goes with its rows, and those of the others with it: rows without a position are left
// by a crash in between, and are removed by the next Open.
func (s *split) leaveDisk() error {
	for _, id := range slices.Sorted(maps.Keys(s.inMemory)) {
		at := s.disk.Positions()
		_, placed := at.Changelog(s.inMemory[id])
		empty, err := s.disk.emptyStore(id)
		if err == nil && (placed || !empty) {
			err = s.disk.Remove(at, at.OnDisk(s.named), id, state.Range{})
		}
		if err != nil {
			return fmt.Errorf("pebblestore: open %s: removing the rows of the store %s, which is in memory: %w", s.disk.path, s.inMemory[id], err)
		}
	}
	return nil
}

// named reports whether the store of that name is in memory.
func (s *split) named(store string) bool { return s.has(state.IDOf(store)) }

func (s *split) has(store state.StoreID) bool {
	_, ok := s.inMemory[store]
	return ok
}

// of returns the part with the rows of a store.
func (s *split) of(store state.StoreID) *database {
	if s.has(store) {
		return s.memory
	}
	return s.disk
}

// usable returns why the database refuses op, if it does. Otherwise only the part that op reads
// would say so.
func (s *split) usable(op string) error {
	if torn := s.torn.Load(); torn != nil {
		return *torn
	}
	return errors.Join(s.disk.usable(op), s.memory.usable(op))
}

// Get implements state.Database.
func (s *split) Get(store state.StoreID, key []byte) ([]byte, bool, error) {
	if err := s.usable("get"); err != nil {
		return nil, false, err
	}
	return s.of(store).Get(store, key)
}

// Scan implements state.Database.
func (s *split) Scan(store state.StoreID, r state.Range) iter.Seq2[state.Entry, error] {
	return func(yield func(state.Entry, error) bool) {
		if err := s.usable("scan"); err != nil {
			yield(state.Entry{}, err)
			return
		}
		s.of(store).Scan(store, r)(yield)
	}
}

// KeyRows implements state.KeyDatabase.
func (s *split) KeyRows(dst []state.Entry, store state.StoreID, r state.KeyRange) ([]state.Entry, bool, error) {
	if err := s.usable("read the rows of a key"); err != nil {
		return dst, false, err
	}
	return s.of(store).KeyRows(dst, store, r)
}

// Positions implements state.Database. It answers after Close and after a fault as well.
func (s *split) Positions() state.Positions { return s.positions.Load().Clone() }

// step makes one step: in the part that has its rows by first, then in the other one by second.
func (s *split) step(op string, base, next state.Positions, first, second func() error) error {
	if err := next.Validate(); err != nil {
		return fmt.Errorf("pebblestore: %s in %s: next positions: %w", op, s.disk.path, err)
	}
	if err := s.usable(op); err != nil {
		return err
	}
	if at := s.positions.Load(); !at.Same(base) {
		return &state.BaseError{Base: base.Clone(), Actual: at.Clone()}
	}
	s.parts.Lock()
	defer s.parts.Unlock()
	if err := first(); err != nil {
		return err
	}
	if err := second(); err != nil {
		torn := fmt.Errorf("pebblestore: %s in %s: the stores on the disk and those in memory are of two steps: %w: %w", op, s.disk.path,
			state.ErrFailed, err)
		s.torn.Store(&torn)
		return torn
	}
	next = next.Clone()
	s.positions.Store(&next)
	s.tables.measure(s.memory, op == opLoadMemory)
	return nil
}

// opLoadMemory is a load of a store in memory.
const opLoadMemory = "load into memory"

// nothing is a step without writes.
func nothing(func(state.Write) bool) {}

// moveDisk and moveMemory make a step without rows of their part.
func (s *split) moveDisk(next state.Positions) error {
	return s.disk.Apply(s.disk.Positions(), next.OnDisk(s.named), nothing)
}

func (s *split) moveMemory(next state.Positions) error {
	return s.memory.Apply(s.memory.Positions(), next, nothing)
}

// Apply implements state.Database.
func (s *split) Apply(base, next state.Positions, writes iter.Seq[state.Write]) error {
	s.steps.Lock()
	defer s.steps.Unlock()
	s.arena.reset()
	onDisk := func(yield func(state.Write) bool) {
		for w := range writes {
			if s.has(w.Store) {
				s.arena.add(w)
			} else if !yield(w) {
				return
			}
		}
	}
	return s.step("apply", base, next,
		func() error { return s.disk.Apply(s.disk.Positions(), next.OnDisk(s.named), onDisk) },
		func() error { return s.memory.Apply(s.memory.Positions(), next, s.arena.all) })
}

// Remove implements state.Database. It is also how the note of a store in memory goes: next then
// names no position of it.
func (s *split) Remove(base, next state.Positions, store state.StoreID, r state.Range) error {
	s.steps.Lock()
	defer s.steps.Unlock()
	if !s.has(store) {
		return s.step("remove", base, next,
			func() error { return s.disk.Remove(s.disk.Positions(), next.OnDisk(s.named), store, r) },
			func() error { return s.moveMemory(next) })
	}
	name := s.inMemory[store]
	if _, ok := next.Changelog(name); !ok {
		next = next.Clone()
		next.ForgetInMemory(name)
	}
	err := s.step("remove", base, next,
		func() error { return s.memory.Remove(s.memory.Positions(), next, store, r) },
		func() error { return s.moveDisk(next) })
	if err == nil && r.From == nil && r.To == nil {
		s.emptied[store] = true
	}
	return err
}

// Load implements state.Database.
func (s *split) Load(base, next state.Positions, store state.StoreID, sorted iter.Seq[state.Write]) error {
	s.steps.Lock()
	defer s.steps.Unlock()
	if s.has(store) {
		return s.step(opLoadMemory, base, next,
			func() error { return s.memory.Load(s.memory.Positions(), next, store, sorted) },
			func() error { return s.moveDisk(next) })
	}
	return s.step("load", base, next,
		func() error { return s.disk.Load(s.disk.Positions(), next.OnDisk(s.named), store, sorted) },
		func() error { return s.moveMemory(next) })
}

// Declare implements state.Database. The disk has the declarations of all stores: what a store in
// memory was declared as says of what kind the records of its changelog are.
func (s *split) Declare(stores ...state.Declaration) error {
	s.steps.Lock()
	defer s.steps.Unlock()
	if err := s.usable("declare"); err != nil {
		return err
	}
	there, err := s.disk.Stores()
	if err != nil {
		return err
	}
	known := map[state.StoreID]state.Declaration{}
	for _, d := range there {
		known[state.IDOf(d.Name)] = d
	}
	if _, err := state.Undeclared(known, stores, s.mayChange); err != nil {
		return fmt.Errorf("pebblestore: declare in %s: %w", s.disk.path, err)
	}
	kept := slices.DeleteFunc(slices.Clone(stores), func(d state.Declaration) bool { return !s.named(d.Name) })
	return errors.Join(s.disk.Declare(stores...), s.memory.Declare(kept...))
}

// mayChange reports whether a store may be declared with another layout: it has no rows, and if it
// is in memory, none that its changelog would bring back.
func (s *split) mayChange(store state.StoreID) (bool, error) {
	empty, err := s.of(store).emptyStore(store)
	if err != nil || !empty || !s.has(store) || s.emptied[store] {
		return empty, err
	}
	note, _ := s.positions.Load().InMemory(s.inMemory[store])
	return note.Applied == 0, nil
}

// Stores implements state.Database.
func (s *split) Stores() ([]state.Declaration, error) { return s.disk.Stores() }

// View implements state.Database. It waits for a step that is being made, also while that waits for
// the disk.
func (s *split) View() (state.View, error) {
	s.parts.RLock()
	defer s.parts.RUnlock()
	if err := s.usable("view"); err != nil {
		return nil, err
	}
	disk, err := s.disk.View()
	if err != nil {
		return nil, err
	}
	memory, err := s.memory.View()
	if err != nil {
		return nil, errors.Join(err, disk.Close())
	}
	return &splitView{of: s, disk: disk, memory: memory, positions: s.Positions()}, nil
}

// Flush implements state.Database. What is in memory survives nothing: a restart restores it.
func (s *split) Flush() error {
	if err := s.usable("flush"); err != nil {
		return err
	}
	return s.disk.Flush()
}

// Checkpoint implements state.Database. A checkpoint has the stores on the disk.
func (s *split) Checkpoint(dir string) error {
	if err := s.usable("checkpoint"); err != nil {
		return err
	}
	return s.disk.Checkpoint(dir)
}

// Close implements state.Database.
func (s *split) Close() error {
	err := errors.Join(s.disk.Close(), s.memory.Close())
	s.steps.Lock()
	defer s.steps.Unlock()
	s.tables.end()
	return err
}

// splitView is a view of both parts.
type splitView struct {
	of           *split
	disk, memory state.View
	positions    state.Positions
}

func (v *splitView) part(store state.StoreID) state.View {
	if v.of.has(store) {
		return v.memory
	}
	return v.disk
}

// Get implements state.View.
func (v *splitView) Get(store state.StoreID, key []byte) ([]byte, bool, error) {
	return v.part(store).Get(store, key)
}

// Scan implements state.View.
func (v *splitView) Scan(store state.StoreID, r state.Range) iter.Seq2[state.Entry, error] {
	return v.part(store).Scan(store, r)
}

// Positions implements state.View.
func (v *splitView) Positions() state.Positions { return v.positions.Clone() }

// Close implements state.View.
func (v *splitView) Close() error { return errors.Join(v.disk.Close(), v.memory.Close()) }

// arena has copies of writes, in one piece of memory.
type arena struct {
	bytes  []byte
	writes []arenaWrite
}

type arenaWrite struct {
	store      state.StoreID
	key, value int // where they end
	delete     bool
}

// arenaBytesMax is how much memory is kept from one round to the next.
const arenaBytesMax = 1 << 20

func (a *arena) reset() {
	if cap(a.bytes) > arenaBytesMax {
		*a = arena{}
	}
	a.bytes, a.writes = a.bytes[:0], a.writes[:0]
}

func (a *arena) add(w state.Write) {
	a.bytes = append(a.bytes, w.Key...)
	key := len(a.bytes)
	a.bytes = append(a.bytes, w.Value...)
	a.writes = append(a.writes, arenaWrite{w.Store, key, len(a.bytes), w.Delete})
}

func (a *arena) all(yield func(state.Write) bool) {
	from := 0
	for _, w := range a.writes {
		out := state.Write{Store: w.store, Key: a.bytes[from:w.key], Delete: w.delete}
		if !w.delete {
			out.Value = a.bytes[w.key:w.value]
		}
		from = w.value
		if !yield(out) {
			return
		}
	}
}

// tables counts the tables of a database in memory to the budget. Memtables and buffers are counted
// as for a database on the disk.
type tables struct {
	memory reservation
	// flushed is where the flusher was at the last look.
	flushed int64
}

func newTables(shared *Shared) tables {
	var t tables
	if shared != nil {
		t.memory = reservation{shared: shared, use: &shared.inMemory}
	}
	return t
}

// measure looks at the size of the tables after a flush, and makes one after a load, whose table
// Pebble may have queued behind a memtable.
func (t *tables) measure(db *database, loaded bool) {
	if loaded && db.Flush() != nil {
		return // the database has stopped, and the next step says why
	}
	flushed := db.flusher.flushed.Load()
	if flushed == t.flushed {
		return
	}
	t.flushed = flushed
	m, ok := MetricsOf(db)
	if !ok {
		return
	}
	size := int64(m.DiskBytes)
	if size < t.memory.bytes/2 {
		t.memory.end()
	}
	t.memory.grow(size)
}

func (t *tables) end() { t.memory.end() }
