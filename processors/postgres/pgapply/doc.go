// Package pgapply has the most frequent effects of handlers on tables, each with an outcome:
//
//   - a row that follows the versions of its source ([Versions]);
//   - a contribution that counts once ([Contributions]);
//   - a state that changes as a machine allows ([Transitions]).
//
// A program declares a table once, and a handler writes to it:
//
//	accounts, err := pgapply.NewVersions(pgapply.Table{Name: "accounts", Key: []string{"id"}, Columns: []string{"owner"}}, "version")
//	...
//	outcome, err := accounts.Put(ctx, tx, event.Version, event.Account, event.Owner)
//
// Use them in the transaction of pgsink or pginbox, which ensures that a record is handled once.
// They add an order: the source can send a fact twice, late or not at all.
//
// # Contract
//
// The tables are the caller's. A Table names the columns of the key, which have a primary key or a
// unique constraint, and the other columns that are written. Values are given in the order of Key
// and then Columns.
//
//	outcome     Versions.Put               Contributions.Add           Transitions.Move
//	applied     the next version, or the   the key is new              allowed, and next
//	            first one of its key
//	duplicate   the same version           the same key and columns    the same version and state
//	stale       a lower version                                        a lower version
//	gap         a version is missing                                   a version is missing, or the row
//	conflict                               the same key, other         the row is in another state than From,
//	                                       columns                     or has been with this version
//	illegal                                                            the machine has no such transition
//
// Only what is applied changes a row. An outcome is never an error: the handler decides what a
// conflict or a gap is worth, such as topology.Fail(topology.Conflict, ...), which has pgsink
// refuse the record.
//
// A deletion is a version like any other: a column says that the row is deleted, so that an older
// version cannot bring it back.
//
// # Invariants
//
//   - The version of a row only moves forward.
//   - The row is locked from the decision to the end of the transaction, so that of concurrent
//     copies one is applied, at every isolation level. Above READ COMMITTED the others get a
//     serialization failure (40001).
//
// # Failure
//
// Errors are those of the database, of which postgres.ClassOf knows the class. They abort the
// transaction. That a table or a column is missing shows at the first call, whatever its outcome. A
// row that others delete between two statements, or that a trigger drops, is an error of class
// transient.
//
// # Concurrency
//
// All types are safe for concurrent use.
package pgapply
