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
	// the keys, from the state when the ranging starts. An error is the last element of a scan.
	Scan(store StoreID, r Range) iter.Seq2[Entry, error]
	// Positions returns the positions that the state contains. The caller may change the result.
	// Two calls read two states: to read data and positions of one state while batches are applied,
	// use a View.
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
	// Declare records the stores beside the data, so that tools know the meaning of ids and rows.
	// It refuses with ErrStoreID a name whose id belongs to another name. It refuses with ErrLayout
	// a store that has rows of another layout, also if one call declares both, and an invalid
	// layout. A call declares all stores or none. Declaring a store again changes nothing. An
	// emptied store (Remove) may get another layout.
	Declare(stores ...Declaration) error
	// Stores returns the declared stores in ascending order of their names.
	Stores() ([]Declaration, error)
	// Apply makes writes and next visible in one atomic step that a crash cannot split. It refuses
	// with ErrBase, and changes nothing, unless the database is exactly at base (Positions.Same).
	// So a late decision about an in-doubt commit can never overwrite newer state. Writes are
	// applied in order; the later one of two for a key wins. Keys and values are copied.
	//
	// After an error that wraps ErrFailed or ErrCorrupt the batch may or may not be applied.
	// Positions shows it after the database is closed and opened again. After every other error it
	// is not applied.
	//
	// Apply does not wait for the disk. A crash may lose the latest batches, always whole ones and
	// always from the end; Positions says after the reopening which were kept.
	Apply(base, next Positions, writes iter.Seq[Write]) error
	// Remove removes the entries of one store in r, and makes next visible, in one atomic step. It
	// checks the base, fails and survives a crash as Apply does. Its cost does not depend on the
	// number of entries: it is how a store drops a segment whose time is over. Reverse has no
	// meaning here, and a range that selects nothing only moves the positions.
	Remove(base, next Positions, store StoreID, r Range) error
	// Load is Apply for a very large number of writes of one store, as a restore has them. All
	// become visible in one atomic step with next, and the database holds none of them in memory.
	// Keys must ascend strictly. A write out of order, or of another store, fails the whole call.
	// Load checks the base, fails and survives a crash as Apply does.
	//
	// A call has a fixed cost, on disk that of a file and of making it durable. Below some
	// thousands of writes Apply is the better way.
	Load(base, next Positions, store StoreID, sorted iter.Seq[Write]) error
	// View returns a consistent read-only snapshot for queries.
	View() (View, error)
	// Flush returns when everything applied before the call survives a kill -9 and a power loss.
	// The rows of stores in memory, which some databases can have, survive nothing: no position
	// names them afterwards.
	Flush() error
	// Checkpoint makes dir a database that contains at least everything that was applied before the
	// call. Its Positions say exactly what it contains. Batches may go on meanwhile. Files that
	// never change are shared by hard links if the file system allows it; the others are copied.
	// dir must not exist, nor be inside the database, and its parent must exist. dir appears
	// complete or not at all, also after a crash.
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
