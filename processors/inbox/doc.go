// Package inbox lets the first record with each id pass and turns all later ones into outcomes of their own:
// duplicates, which say the same, and conflicts, which say something else under the same id.
//
//	once := inbox.Dedupe(events, "inbox", eventID)
//	balances := ledger.Post(once.Accepted(), "balances", contribution)
//	once.Conflicts().Into(Disputed)
//
// # Contract
//
// Every record has exactly one outcome, and is counted under its name when the round that contains it is
// applied:
//
//	outcome      when                                    goes to               if that is not connected
//	accepted     the id is seen for the first time       Accepted
//	duplicates   the id was seen with the same payload   Duplicates            the record ends
//	conflicts    the id was seen with another payload    Conflicts             the record fails (Conflict)
//	missing      there is no id, and AllowMissingID      Accepted
//	(failure)    there is no id                                                the record fails (Validation)
//	(failure)    the id cannot be read                                         the record fails (Validation)
//
// A duplicate is an outcome and never an error. A conflict is never taken for a duplicate. What fails
// becomes a dead letter, unless a policy says otherwise ([OnError]), and is counted as such; the position
// moves past accepted, duplicate, conflicting and dead records alike.
//
// The marker and all effects of a record commit in one transaction, or not at all. So there is no moment
// between check and act in which a second copy could slip through, and a record that fails further down has
// not been seen. In the terms of an inbox table: accepted is PROCESSED, duplicates is DUPLICATE, what became
// a dead letter is QUARANTINED, and there is nothing in between.
//
// # The id
//
// The id is chosen for the effect that must happen once: a source event id, a command id, an aggregate id
// with its version, the id of a business operation. It is valid UTF-8 of 1 to 1024 bytes. Topic, partition
// and offset together are an id of the delivery and not of the fact, and only of use where the source has no
// other; times of processing and random numbers are none, because the second copy has another one.
//
// The same fact under a new id is caught by a second inbox behind the first, whose id is a business key. A
// correction is a new fact with an id of its own.
//
// # The payload
//
// The payload is the record's value, and is compared by its hash. Two values are the same payload
//
//   - by default, if schemas.JSON writes them with one canonical form (schemas.HashJSON), or, for string and
//     []byte, if their bytes are the same;
//   - with [PayloadCodec], if that codec encodes them alike; of a codec named "json" the canonical form
//     counts;
//   - with [PayloadHash], if that function returns the same for both records.
//
// A null value is a payload of its own. Key, headers and timestamp are no part of the payload, unless
// PayloadHash makes them one.
//
// The default and PayloadCodec hash what the Go value holds, because a stream does not carry the bytes that
// it was read from. Three things follow:
//
//   - Fields of a document that the Go type does not have are not compared. A stream of json.RawMessage or
//     []byte compares whole documents.
//   - A type that holds more than its JSON form shows (unexported fields, json:"-") would hide conflicts, so
//     Build refuses it with the default.
//   - A field that is added to the type changes the hash of every payload, so that late duplicates become
//     conflicts, unless the field is tagged omitzero.
//
// How payloads are hashed is for ever, like the ids: where it changes, the inbox needs another name.
//
// # Scope
//
// The store is per partition, so an inbox finds a duplicate only if both copies have the same record key, as
// copies of one message have. Ids that appear under different keys need topology.Repartition by the id
// before the inbox. Two inboxes share nothing: each consumer of a topic has seen what it has seen itself.
//
// # Stored form
//
// The store has the name of the inbox. The key of a row is the id in UTF-8; the row has 42 bytes:
//
//	offset  bytes  content
//	0       1      format, 1
//	1       1      outcome: 1 accepted
//	2       8      timestamp of the record that was accepted, in milliseconds since the epoch, big-endian
//	10      32     SHA-256 of its payload, or zeros if the value was null
//
// # Growth
//
// There is no retention yet: the store keeps a row for every id, about 42 bytes and the id, on disk and in
// its compacted changelog: it does not use the store that forgets by stream time (topology.DedupeStore). Two
// shortcuts are left out on purpose. A set in memory is empty after a restart or a rebalance, which is when
// duplicates arrive. Expiry by the wall clock makes a replay decide differently from the original run, and
// forgets ids while the topic still holds their records.
//
// # Concurrency
//
// The function that reads the id, and that of PayloadHash, are called by all tasks at once and must be safe
// for that. An [Inbox] is a value that is used while the topology is declared.
//
// # What it is not
//
// An inbox makes nothing outside of the transaction happen once: a call to another system can still be made
// twice, by an attempt that is aborted and repeated.
package inbox
