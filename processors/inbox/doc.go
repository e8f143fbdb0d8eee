// Package inbox lets the first record with each id pass and turns all later ones into outcomes of their own:
// duplicates, which say the same, and conflicts, which say something else under the same id.
//
//	once := inbox.Dedupe(events, "inbox", eventID, inbox.Forever(), inbox.EmitConflicts())
//	balances := ledger.Post(once.Accepted(), "balances", contribution)
//	once.Conflicts().Into(Disputed)
//
// # Contract
//
// Every record has exactly one outcome, and is counted under its name when the round that contains it is
// applied:
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
// The options alone decide whether a record fails. Build reports a stream that is used without its option, and an
// option whose stream is not used.
//
// A duplicate is an outcome and never an error. A conflict is never taken for a duplicate. What fails
// becomes a dead letter, unless a policy says otherwise ([OnError]), and is counted as such; the position
// moves past accepted, duplicate, conflicting and dead records alike.
//
// Missing and malformed records that are emitted carry [HeaderReason], and leave nothing in the store: every copy has the
// same outcome. The function that reads the id calls an id malformed by an error without a class, or of class Validation; an
// error of another class is none of the record's, and is handled as such: a Transient one is tried again.
//
// The marker and all effects of a record commit in one transaction, or not at all. So there is no moment
// between check and act in which a second copy could slip through, and a record that fails further down has
// not been seen. A store that cannot be read stops the task in front of the record, which is neither accepted
// nor dropped.
//
// # The id
//
// The id is chosen for the effect that must happen once: a source event id, a command id, an aggregate id
// with its version, the id of a business operation. It is valid UTF-8 of 1 to 1024 bytes. Package envelope
// has functions for ids in headers. [IngestionID] is the position of a record, which is the id of a delivery
// and not of the fact, and only of use where the source has no other; positions of copies are refused. A time
// of processing or a random number is no id, because the second copy has another one: a function that returns
// two ids for one of the first 16 records, of which it is asked twice, stops the task (Config).
//
// A correction is a new fact with an id of its own.
//
// # The business key
//
// The same fact can come under a new id: somebody presses the button again. [BusinessKey] names what makes it the
// same, such as the order that is paid. A record with a new id and a key that was seen is a duplicate if the payload
// is the same, and a conflict if it is not; [PayloadWithout] leaves the id out of the payload. Both carry
// [HeaderFirstID]. What was decided about an id stays: it has a row, and its copies go the same way.
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
// it was read from: nodes in between can have made another value of them, and [Globally] writes the value anew.
// So what the source's codec leaves out is not compared, and two payloads that differ in nothing else are the
// same:
//
//	source's codec    what it leaves out
//	string, []byte    nothing
//	schemas.JSON      members that the Go type does not have, at any depth; the case of the names of the others; of a
//	                  member that occurs twice all but the last, or where they are objects, which are merged, what a later
//	                  one has too; whether a member is missing, null or zero (a pointer tells zero from the other two,
//	                  and a slice or a map what is empty)
//	schemas/avro      what its conversion functions leave out. A value of another schema, such as one with more
//	                  fields, is none to the codec: the record fails in its source (Poison), and never gets here
//	others            what they say. A message of Protocol Buffers keeps fields that it does not know, and
//	                  PayloadCodec compares them if the codec writes them, and the same message always alike
//
// Where a producer may add fields before this program knows them, the document as a whole is compared by
//
//   - a stream of json.RawMessage or []byte, or
//   - a type that keeps its document: UnmarshalJSON fills the fields and keeps a copy of the bytes, and MarshalJSON
//     returns them. It is compared as a whole Globally too; see the example. What is written of such a value is the document
//     that was read, whatever has been done to the fields since: values that were read are for reading, and for those that the
//     program makes MarshalJSON writes the fields where there is no document.
//
// Two more things follow:
//
//   - A type that holds more than its JSON form shows (unexported fields, json:"-", two fields of one name), or that
//     reads numbers as float64 (floats, interfaces), would hide conflicts, so Build refuses it with the default.
//   - A field that is added to the type changes the hash of every payload, so that late duplicates become
//     conflicts, unless the field is tagged omitzero.
//
// How payloads are hashed is for ever, like the ids: where it changes, the inbox needs another name.
//
// # Scope
//
// The store is per partition, so an inbox finds a duplicate only if both copies have the same record key, as
// copies of one message have: it works [ByKey]. Where one id can appear under different keys or in different
// partitions the inbox has to work [Globally], which sends records through a topic that is partitioned by the id,
// and accepted ones back. Two inboxes share nothing: each consumer of a topic has seen what it has seen itself.
//
// A record that fails behind the detour becomes a dead letter of the repartition topic: its key is the id, its value
// the record's, and the header onceward.inbox.key ([graph.HeaderOwnKey]) has its key. A redrive writes it back to the
// repartition topic, and to any other topic under its own key. With [KeepOrigin] the letter says also which record of the input
// it was, and evidence of what is decided behind the detour does.
//
// # Retention
//
// Every inbox states how long it keeps ids; Build reports one that does not.
//
//	Forever  every id is kept. The store and its changelog grow with every new id.
//	Retain   an id expires once the inbox has seen a record that is the retention younger.
//
// Expiry goes by timestamps and never by the clock, so that a replay decides as the original run did. A record that is
// older than the ids that are kept, and whose id is not there, is late: it may be a duplicate or not, and is never
// accepted.
//
// The retention is at least what a source topic can bring again: the application does not start if the topic's
// retention.ms is longer, unless [TolerateLongerTopics] turns that into a warning in the log. A topic can have records
// somewhat longer than its retention.ms says, until the broker deletes their segment; they are late.
//
// [Archive] writes what is forgotten to a topic, for audits that look back further than the inbox.
//
// # Statuses
//
// The words of an inbox table, and where an operator finds them: `onceward inbox list` has those of rows, and `inbox
// show` that of one id. RECEIVED and CLAIMED exist for external effects only: package effect has them as RECEIVED and
// STARTED, and `onceward effects list` shows them.
//
//	PROCESSED         a row that is accepted
//	DUPLICATE         a row that is repeated (business key); of copies of one id the counter duplicates, and Duplicates
//	QUARANTINED       a row that is disputed (business key); the counters missing and malformed, and Missing and Malformed; what has
//	                  failed is in the dead-letter topic
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
// With Retain it is a store that forgets by stream time (topology.DedupeStore), with these rows behind its own time. The
// retention is part of what the store is: an inbox that gets one, or another one, restores in full, and the settings of
// its changelog have to follow, as the application says when it starts. <name>-business has a row for each business key:
// format 1, timestamp and hash as above without the outcome, then the id. <name>-archive is the queue of what is to be
// archived, with 64-bit numbers as keys: row 0 has a byte 1, head and tail; the others have a byte 2, the row of the id,
// and the id.
//
// Builds before the business key read no row but accepted ones; a row that is none of these stops the task.
//
// # Growth
//
// A row takes 42 bytes and the id, on disk and in its compacted changelog; with Retain until it is forgotten. A set in
// memory is left out on purpose: it is empty after a restart or a rebalance, which is when duplicates arrive.
//
// With Retain the owner of the task purges the changelog by the stream time of the store. Brokers delete it by their
// clock too if its retention.ms is not -1; topology.DedupeStore says what follows.
//
// # Concurrency
//
// The function that reads the id, and those of the options, are called by all tasks at once and must be safe
// for that. An [Inbox] is a value that is used while the topology is declared.
//
// # What it is not
//
// An inbox makes nothing outside of the transaction happen once: a call to another system can still be made
// twice, by an attempt that is aborted and repeated.
package inbox
