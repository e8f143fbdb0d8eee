// Package projection keeps the latest state of each key from a stream of versioned records. A row carries
// the version that it has applied, and versions only move forward.
//
//	accounts := projection.Latest(events, "accounts", version, fold, schemas.JSON[Account]())
//	accounts.Changes().Into(Accounts)
//
// # Contract
//
// The version of a record is compared with that of the row of its key:
//
//	outcome     when                                      effect              goes to           counted as
//	applied     next version, or there is no row yet      fold, row written   Changes           applied
//	stale       lower                                     none                Stale             stale
//	duplicate   equal                                     none                Stale             duplicates
//	gap         higher than the next one
//	            with AcceptLatest                         as applied          Changes, Gaps     applied, gaps
//	            with FailFast (the default)               none                                  (it fails)
//	            with Sparse                               it is applied, and no gap
//
// The first record of a key is applied whatever its version is, because the topic may begin anywhere. A
// stale record or a duplicate is an outcome and never an error. A gap under FailFast, a null key and a
// version that cannot be read fail with class Validation; an error of fold has the class that fold gives it.
// What fails becomes a dead letter, unless a policy says otherwise ([OnError]), and the row stays as it was.
//
// FailFast is the default because a fold that adds to what it finds is wrong from the missing version on.
// All later records of the key then fail as well, until the missing ones arrive and are followed by those
// that failed, redriven in their order. To park the later ones, or to ask the source for a repair, is not
// there yet; with AcceptLatest the stream of Gaps is what a request can be made of.
//
// Two records with one version are taken for the same record: payloads are not compared. An inbox before the
// projection finds an id that says two things.
//
// # Versions
//
// A version is a number that the source gives to a change of the aggregate: the aggregate's version, a
// sequence number, a position in the source's log. It is never a wall clock of this process. Where versions
// are not dense, such as event times, [Sparse] makes every higher one the next.
//
// # Deletes
//
// A record whose value is null (an absent topology.Option, or a nil []byte) deletes, and has a version like
// any other, which it carries in its headers, say. The row stays, with the version and a mark, so that
// an older record that comes late cannot raise the dead. A later version makes the aggregate anew: fold is
// called as for a key without a row. Rows of deleted aggregates are never removed.
//
// # Definition
//
// What fold computes is the definition of the projection, and [DefinitionVersion] numbers it; every row has
// the number. Rows that another definition wrote are refused with an error of class Config, which stops the
// task: the two would mix. A next definition is built beside the old one, under another application id or
// another name, from the beginning of the topic.
//
// # Stored form
//
// The store has the name of the projection, the key of a row is the record's key. The row is
//
//	offset  bytes  content
//	0       1      format, 1
//	1       2      version of the definition, big-endian
//	3       1      flags: bit 0 deleted, all others zero
//	4       8      version applied, two's complement, big-endian
//	12      rest   the state as its codec writes it; nothing if deleted
//
// # Concurrency
//
// The functions are called by all tasks at once and must be safe for that. A [Projection] is a value that is
// used while the topology is declared.
//
// # What it is not
//
// It is no log: rows have no history. And it is per partition: all records of a key are in one partition, as
// Kafka's partitioners see to it.
package projection
