// Package state keeps the state of tasks: what processors remember between records, and up to where
// it is complete.
//
// # Layers
//
// A Task is a stack of layers. Reads go from the top down and stop at the first layer that knows
// the key; a delete is knowledge too. Writes go to the top.
//
//	processors ──► Store(name): Bytes          Mark, Revert: one record
//	                     │
//	               ┌─────▼──────────┐
//	               │ open overlay   │  the writes of the open round; a savepoint for each record
//	               ├────────────────┤  Freeze; Layer.Writes become changelog records
//	               │ frozen layer   │  a round in flight, immutable; at most two of them
//	               ├────────────────┤  Apply: the round is committed; then Retire
//	               │ Database       │  committed state and its Positions (pebblestore, memstore)
//	               └────────────────┘
//
// The life of a round: processors write; Freeze; the layer's writes are produced to the changelogs;
// the transaction commits; Apply moves the layer into the database together with the positions, on
// another goroutine if one likes; Retire takes it out of the read path. If the transaction aborts,
// Drop makes everything above the database vanish.
//
// # Typed stores
//
// KeyValue, Timestamped, Window, Session, Series, Versioned and Dedupe are views of Bytes with Go
// types. Which rows and changelog records a view has is its Layout. Those that forget go by the
// store's own stream time, which is part of the state as the rows are: under the savepoint of a
// record, frozen with the layer, in the positions. Expired rows are never seen; when they leave the
// database is another matter (Layout.Expired).
//
// # Contract
//
// The database never holds a write whose changelog record is not committed. A layer is given to
// Apply after a definite commit, never before.
//
// Data and positions change together. Database.Apply, Load and Remove are the ways in; each takes
// both in one atomic step, and refuses unless the database is exactly at the base that the step was
// made for. Nobody who resolves an unanswered commit late can overwrite what came after it.
//
// After any crash the database equals the changelog up to its positions. There is no log of its
// own: what a crash took away is replayed from the changelog, starting at the positions that are
// left. Flush says what no crash takes away.
//
// Each layer is coalesced: it has the last write of each key. Layer.Writes is ordered by store and
// key, so the same round gives the same changelog records.
//
// What a store forgets is out of sight by the store's stream time alone, which is part of the
// state. Task.Forget takes it off the disk later, at unchanged positions, and no read depends on
// that.
//
// # Concurrency
//
// A Task, its Bytes and the typed stores over them belong to one goroutine. There is one exception:
// Apply, with Forget, and reading the Layer that it gets, may run on one other goroutine at the
// same time. Databases, views and directories may be used by any number of goroutines.
//
// # Failure
//
// A failed record is undone with Revert, a failed round with Drop; both are memory only. Damage and
// I/O errors of a database surface as ErrCorrupt and ErrFailed and stop it: what cannot be trusted
// is not served. The way back is to close it and to open it again at a valid prefix, or to remove
// it and to restore. A full disk (ErrFull) is told from other I/O errors, because it ends without a
// repair: what it did not take is replayed when there is space again.
//
// # What it is not
//
// It knows neither Kafka nor topologies nor schemas: changelog records, offsets and topic ids pass
// through as bytes and numbers. It decides nothing about commits and restores nothing by itself. It
// is no general database: one writer, no transactions other than the round, no durability at the
// moment of a write.
//
// FORMAT.md in this directory describes every byte that is stored.
package state
