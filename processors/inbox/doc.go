// Package inbox accepts the first record with each id. Later records with that id are duplicates if
// their payload is the same, and conflicts if it is not.
//
//	once := inbox.Dedupe(events, "inbox", eventID, inbox.Forever(), inbox.EmitConflicts())
//	balances := ledger.Post(once.Accepted(), "balances", contribution)
//	once.Conflicts().Into(Disputed)
//
// # Contract
//
// Every record has exactly one outcome, and is counted under its name when the round that contains
// it is applied:
//
//	outcome      when                                    what follows          with the option
//	accepted     the id is seen for the first time       Accepted
//	duplicates   the id was seen with the same payload   Duplicates, or none
//	conflicts    the id was seen with another payload    it fails (Conflict)   EmitConflicts: Conflicts
//	late         the id may have expired, see Retention  it fails (Validation) EmitLate: Late
//	missing      there is no id                          it fails (Validation) EmitMissing: Missing
//	                                                                           AllowMissingID: Accepted
//	malformed    the id cannot be read, or is not one    it fails (Validation) EmitMalformed: Malformed
//
// The options alone decide whether a record fails. Build reports a stream that is used without its
// option, and an option whose stream is not used.
//
// A duplicate is an outcome and never an error. A conflict is never taken for a duplicate. A failed
// record becomes a dead letter unless a policy says otherwise ([OnError]), and is counted as such.
// The position moves past accepted, duplicate, conflicting and dead records alike.
//
// Missing and malformed records that are emitted carry [HeaderReason]. They leave nothing in the
// store, so every copy has the same outcome. The function that reads the id calls an id malformed
// by an error without a class, or of class Validation. An error of another class is handled as that
// class: a Transient one is tried again.
//
// The marker and all effects of a record commit in one transaction, or not at all. There is no
// moment between check and act in which a second copy could pass. A record that fails further down
// has not been seen. A store that cannot be read stops the task in front of the record, which is
// neither accepted nor dropped.
//
// # The id
//
// Choose the id for the effect that must happen once: a source event id, a command id, an aggregate
// id with its version, the id of a business operation. It is valid UTF-8 of 1 to 1024 bytes.
// Package envelope has functions for ids in headers. [ReadBinaryIDs] is for ids that are bytes,
// such as binary UUIDs.
//
//   - [IngestionID] is the position of a record: the id of a delivery, not of the fact. Use it only
//     if the source has no other id. Positions of copies are refused.
//   - A time of processing or a random number is not an id, because the second copy has another
//     one. The inbox asks the function twice for each of the first 16 records. Two different
//     answers stop the task (Config).
//   - A correction is a new fact with an id of its own.
//
// # The business key
//
// The same fact can come under a new id, for example when a user presses a button twice.
// [BusinessKey] names what makes it the same fact, such as the order that is paid. A record with a
// new id and a known key is a duplicate if the payload is the same, and a conflict if it is not.
// [PayloadWithout] leaves the id out of the payload. Both outcomes carry [HeaderFirstID]. The
// decision about an id is final: the id has a row, and its copies get the same outcome.
//
// # The payload
//
// The payload is the value of the record. It is compared by its hash. Two values are the same
// payload
//
//   - by default, if schemas.JSON writes them with one canonical form (schemas.HashJSON), or, for
//     string and []byte, if their bytes are the same;
//   - with [PayloadCodec], if that codec encodes them alike; of a codec named "json" the canonical
//     form counts;
//   - with [PayloadHash], if that function returns the same for both records.
//
// A null value is a payload of its own. Key, headers and timestamp are no part of the payload,
// unless PayloadHash makes them one.
//
// The default and PayloadCodec hash the Go value. A stream does not carry the bytes that the value
// was read from: earlier nodes can have changed the value, and [Globally] encodes it again. Data
// that the source's codec drops is therefore not compared. Two payloads that differ only in such
// data are the same:
//
//	source's codec    data that it drops
//	string, []byte    none
//	schemas.JSON      members that the Go type does not have, at any depth; the case of the names of the others; of a
//	                  member that occurs twice all but the last, except that objects are merged; whether a member is
//	                  missing, null or zero (a pointer tells zero from the other two, a slice or a map tells empty)
//	schemas/avro      what its conversion functions drop. A value of another schema, such as one with more fields,
//	                  fails in its source (Poison) and does not reach the inbox
//	others            what they say. A Protocol Buffers message keeps unknown fields, and PayloadCodec compares them
//	                  if the codec writes them, and writes the same message alike each time
//
// If a producer may add fields before this program knows them, compare the whole document with
//
//   - a stream of json.RawMessage or []byte, or
//   - a type that keeps its document. UnmarshalJSON fills the fields and keeps a copy of the bytes.
//     MarshalJSON returns the copy, or writes the fields of a value that the program made. The
//     document is compared as a whole, Globally too; see the example. Do not change the fields of a
//     value that was read: the document is written as it was.
//
// Two more rules follow:
//
//   - Build refuses the default for types that would hide conflicts. These are types with data that
//     their JSON form does not show (unexported fields, json:"-", two fields of one name), and
//     types that read numbers as float64 (floats, interfaces).
//   - A field that is added to the type changes the hash of every payload, unless the field is
//     tagged omitzero. Late duplicates then become conflicts.
//
// The way payloads are hashed is permanent, like the ids. To change it, give the inbox another
// name.
//
// # Scope
//
// The store is per partition, so an inbox finds a duplicate only if both copies have the same
// record key, as copies of one message have: it works [ByKey]. If one id can appear under different
// keys or in different partitions, the inbox has to work [Globally]. Then records go through a
// topic that is partitioned by the id, and accepted ones go back. Two inboxes share nothing: each
// consumer of a topic has seen what it has seen itself.
//
// A record that fails in that detour becomes a dead letter of the repartition topic. Its key is the
// id, its value that of the record, and the header onceward.inbox.key ([graph.HeaderOwnKey]) has
// the record's key. A redrive writes it back to the repartition topic, and to any other topic under
// its own key. With [KeepOrigin] the dead letter also names the record of the input, as evidence of
// decisions behind the detour does.
//
// # Retention
//
// Every inbox states how long it keeps ids. Build reports one that does not.
//
//	Forever  every id is kept. The store and its changelog grow with every new id.
//	Retain   an id expires once the inbox has seen a record that is the retention younger.
//
// Expiry follows timestamps and never the clock, so a replay decides as the original run did. A
// record is late if it is older than the ids that are kept, and its id is not there. It may be a
// duplicate, so it is never accepted.
//
// The retention must cover what a source topic can bring again. The application does not start if
// the topic's retention.ms is longer. [TolerateLongerTopics] turns that into a warning in the log.
// A topic can hold records somewhat longer than its retention.ms, until the broker deletes their
// segment; these records are late.
//
// [Archive] writes expired ids to a topic, for audits that look back further than the inbox.
//
// # Before a ledger
//
// A ledger keeps a row for each contribution. If it goes by the same id and the same key, it finds
// duplicates by that row, and with ledger.ComparePayload conflicts too. The row of an inbox before
// it says nothing more. Leave out the inbox then, and state its options about payloads to the
// ledger.
//
// # Statuses
//
// The words of an inbox table, and where an operator finds them. `onceward inbox list` has those of
// rows, and `inbox show` that of one id. RECEIVED and CLAIMED exist for external effects only:
// package effect has them as RECEIVED and STARTED, and `onceward effects list` shows them.
//
//	PROCESSED         a row that is accepted
//	DUPLICATE         a row that is repeated (business key); of copies of one id the counter duplicates, and Duplicates
//	QUARANTINED       a row that is disputed (business key); the counters missing and malformed, and Missing and
//	                  Malformed; failed records are in the dead-letter topic
//	IGNORED           the counter late, and Late
//	RETRYABLE_FAILED  a task that tries again: onceward status
//	SUPERSEDED        no inbox decides that; package projection does, by versions (stale)
//
// The position moves past all of them but RETRYABLE_FAILED ([Status.Advances]).
//
// # Stored form
//
// The store has the name of the inbox. The key of a row is the id in UTF-8; the row has 42 bytes:
//
//	offset  bytes  content
//	0       1      format, 1
//	1       1      outcome: 1 accepted, 2 repeated, 3 disputed
//	2       8      timestamp of the first record with the id, in milliseconds since the epoch, big-endian
//	10      32     SHA-256 of its payload, or zeros if the value was null
//
// With Retain the store expires rows by stream time (topology.DedupeStore), and puts its own time
// in front of these rows. The retention is part of the store. An inbox that gets another retention
// restores in full. The settings of its changelog have to follow, as the application says when it
// starts.
//
// <name>-business has a row for each business key: format 1, timestamp and hash as above without
// the outcome, then the id. <name>-archive is the queue of rows to be archived, with 64-bit numbers
// as keys. Row 0 has a byte 1, head and tail. The others have a byte 2, the row of the id, and the
// id.
//
// Builds before the business key know accepted rows only. A row of another form stops the task.
//
// # Growth
//
// A row takes 42 bytes and the id, on disk and in its compacted changelog; with Retain until it
// expires. There is no set in memory on purpose: it would be empty after a restart or a rebalance,
// which is when duplicates arrive.
//
// With Retain the owner of the task purges the changelog by the stream time of the store. Brokers
// delete it by their clock too if its retention.ms is not -1; topology.DedupeStore has the
// consequences.
//
// # Concurrency
//
// All tasks call the function that reads the id, and the functions of options, at the same time, so
// these must be safe for concurrent use. An [Inbox] is a value that is used while the topology is
// declared.
//
// # What it is not
//
// An inbox does not make anything outside of the transaction happen once. An attempt that is
// aborted and repeated can call another system twice.
package inbox
