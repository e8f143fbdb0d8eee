// Package state keeps the state of tasks: what processors remember between records, and up to where
// it is complete.
//
// # Layers
//
// A Task is a stack of layers. Reads go from the top down and stop at the first layer that knows
// the key; a delete is knowledge too. One index finds the newest write of a key in all layers, so
// that rounds in flight cost a read nothing. Writes go to the top.
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
// A round takes these steps:
//   - Processors write to the open layer; Freeze ends that.
//   - The runtime produces the writes of the layer to the changelogs, and commits the transaction.
//   - Apply moves the layer into the database together with the positions, if wanted on another
//     goroutine.
//   - Retire takes the layer out of the read path.
//
// If the transaction aborts, Drop removes all layers above the database.
//
// # Typed stores
//
// KeyValue, Timestamped, Window, Session, Series, Versioned and Dedupe are views of Bytes with Go
// types. The Layout of a view defines its rows and changelog records. Rows of the kinds with a
// retention expire by the store's own stream time. That time is a part of the state like the rows:
// the savepoint of a record covers it, a layer freezes it, and the positions contain it. Reads
// never return expired rows; the database removes them later (Layout.Expired).
//
// # Contract
//
// The database never holds a write whose changelog record is not committed. A layer is given to
// Apply after a definite commit, never before.
//
// Data and positions change together. Only Database.Apply, Load and Remove change a database. Each
// takes both in one atomic step, and refuses unless the database is exactly at the base of the
// step. So a late decision about an in-doubt commit cannot overwrite newer state.
//
// After any crash the database equals the changelog up to its positions. There is no log of its
// own: what a crash took away is replayed from the changelog, starting at the positions that are
// left. Flush says what no crash takes away.
//
// Each layer is coalesced: it has the last write of each key. Layer.Writes is ordered by store and
// key, so the same round gives the same changelog records.
//
// Only the store's stream time, which is part of the state, decides which rows are expired and so
// invisible. Task.Expire removes such rows from the disk later, at unchanged positions, and no read
// depends on that.
//
// # Concurrency
//
// A Task, its Bytes and the typed stores over them belong to one goroutine. There is one exception:
// Apply, with Expire, and reading the Layer that it gets, may run on one other goroutine at the
// same time. Databases, views and directories may be used by any number of goroutines.
//
// # Failure
//
// Revert undoes a failed record, Drop a failed round; both change memory only. Damage and I/O
// errors of a database appear as ErrCorrupt and ErrFailed and stop the database, because its data
// cannot be trusted. To recover, close it and open it again at a valid prefix, or remove it and
// restore. A full disk has its own error (ErrFull), because no repair is needed: the missing rounds
// are replayed when there is space again.
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
