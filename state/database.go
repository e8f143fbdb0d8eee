package state

import "iter"

// Write is one change of one key.
type Write struct {
	Store StoreID
	Key   []byte
	// Value is the new value, nil exactly when Delete is set.
	Value  []byte
	Delete bool
}

// Reader reads committed state.
type Reader interface {
	// Get returns a fresh copy of the value of key; ok is false when there is none.
	Get(store StoreID, key []byte) (value []byte, ok bool, err error)
	// Scan returns the entries of one store in r, as Bytes.Scan does: fresh copies, in the order of
	// the keys, of the state at the moment in which the ranging starts. An error is the last thing
	// a scan yields.
	Scan(store StoreID, r Range) iter.Seq2[Entry, error]
	// Positions says what the state contains. The result is the caller's. Two calls are two
	// moments: whoever needs data and positions of the same one while batches are applied reads
	// both from a View.
	Positions() Positions
}

// Database is the committed state of one task: stores with their data, and the positions that the
// data is at. Packages pebblestore and memstore implement it; package statetest is the suite that
// both pass.
//
// All methods may be called by any number of goroutines, but Apply, Remove and Load run one after
// the other. After an error that wraps ErrCorrupt or ErrFailed every method except Close, Positions
// and Stores refuses to work.
type Database interface {
	Reader
	// Declare records the stores beside the data, so that tools can tell what ids and rows mean. It
	// refuses with ErrStoreID a name whose id belongs to another name, and with ErrLayout a store
	// that has rows of another layout, also when both are declared by one call, and what can be no
	// store. A call declares all of them or none; declaring again changes nothing. A store that was
	// emptied (Remove) may get another layout.
	Declare(stores ...Declaration) error
	// Stores returns the declared stores in ascending order of their names.
	Stores() ([]Declaration, error)
	// Apply makes writes and next visible in one atomic step that a crash cannot split. It refuses
	// with ErrBase, and changes nothing, unless the database is exactly at base (Positions.Same): a
	// late resolver of an unanswered commit can never overwrite newer state. Writes are taken in
	// order, of two for one key the later one counts. Keys and values are copied.
	//
	// After an error that wraps ErrFailed or ErrCorrupt the batch may be in or not: Positions says
	// it once the database is closed and open again. After every other error it is not in.
	//
	// Apply does not wait for the disk. A crash may lose the latest batches, always whole ones and
	// always from the end; Positions says after the reopening which were kept.
	Apply(base, next Positions, writes iter.Seq[Write]) error
	// Remove removes the entries of one store in r, and makes next visible, in one atomic step. It
	// checks the base, fails and survives a crash as Apply does. Its cost does not depend on the
	// number of entries: it is how a store drops a segment whose time is over. Reverse has no
	// meaning here, and a range that selects nothing only moves the positions.
	Remove(base, next Positions, store StoreID, r Range) error
	// Load is Apply for a great many writes of one store, as a restore has them: all of them become
	// visible in one atomic step with next, whatever their number, and the database holds none of
	// them in memory. Keys have to ascend strictly; a write out of order or of another store is
	// refused, and so is the whole call. It checks the base, fails and survives a crash as Apply
	// does.
	//
	// A call has a fixed cost, on disk that of a file and of making it durable. Below some
	// thousands of writes Apply is the better way.
	Load(base, next Positions, store StoreID, sorted iter.Seq[Write]) error
	// View returns a consistent read-only snapshot for queries.
	View() (View, error)
	// Flush returns when everything applied before the call survives a kill -9 and a power loss.
	Flush() error
	// Checkpoint makes dir a database of its own that contains at least everything that was applied
	// before the call, and Positions of it says exactly what; batches may go on meanwhile. Nothing
	// is copied that need not be: files that never change are shared by hard links where the file
	// system allows it. dir must not exist, nor be inside the database, and the directory above it
	// must. It is there as a whole or not at all, after a crash too.
	//
	// A database without files refuses with errors.ErrUnsupported. Close does not wait for files
	// that have to be copied: it ends the checkpoint, with ErrClosed. Errors of the copy, a full
	// disk included, stop nothing. Directory.CheckpointTask adds what is needed to tell checkpoints
	// apart.
	Checkpoint(dir string) error
	// Close flushes, then releases everything. Views and scans that are still open fail with
	// ErrClosed from then on. The first call reports what went wrong, further calls return nil.
	Close() error
}

// View is a snapshot of a Database: data and positions of the same moment. It may be used by
// several goroutines. It holds disk space and memory until it is closed.
type View interface {
	Reader
	// Close releases the snapshot. Further calls do nothing.
	Close() error
}
