// Package projection keeps the latest state of each key from a stream of versioned records. A row
// carries the version that it has applied. Versions only move forward.
//
//	accounts := projection.Latest(events, "accounts", version, fold, schemas.JSON[Account]())
//	accounts.Changes().Into(Accounts)
//
// Records can wait for earlier versions ([ParkGaps]). The next definition of a projection can be
// built beside the old one, and then replace it ([Choose]).
//
// # Contract
//
// The version of a record is compared with the version of the row of its key:
//
//	outcome     when                                      effect              goes to           counted as
//	applied     next version, or there is no row yet      fold, row written   Changes           applied
//	stale       lower                                     none                Stale             stale
//	duplicate   equal                                     none                Stale             duplicates
//	gap         higher than the next one
//	            with FailFast (the default)               none                                  (it fails)
//	            with AcceptLatest                         as applied          Changes, Gaps     applied, gaps
//	            with ParkGaps                             it waits            Parked            parked
//	            with RepairGaps                           it waits            Parked, Repairs   parked, repairs
//	            with Sparse                               it is applied, and no gap
//
// The first record of a key is applied at any version, because the topic may begin anywhere.
// [FirstVersion] changes that.
//
// A stale record and a duplicate are outcomes, not errors. These records fail with class
// Validation:
//
//   - a gap under FailFast,
//   - a version below the first one,
//   - a null key,
//   - a version that cannot be read.
//
// An error of fold has the class that fold gives it. A failed record becomes a dead letter unless a
// policy says otherwise ([OnError]). The row stays as it was.
//
// FailFast is the default, because a fold that adds to the row is wrong from the missing version
// on. All later records of the key fail too. They recover when the missing records arrive, and the
// failed ones are redriven in order.
//
// Two records with one version count as the same record: payloads are not compared. Use an inbox
// before the projection to find two payloads under one id.
//
// # Waiting
//
// With [ParkGaps] a record with missing predecessors is kept in a store, with its timestamp and
// headers. It is released when the missing versions were applied. The record that closes the gap
// releases all records that wait for it, in the order of their versions, in its own transaction.
//
// The result does not depend on the order of the records of a key, or on copies. It equals the
// result of the clean sequence, with two exceptions: a limit was reached, or [FirstVersion] is not
// set and a record came before the first one of its key. The latter is stale.
//
//	what becomes of it   when                                   goes to           counted as
//	released             the versions before it were applied    Changes           released, applied
//	accepted             a limit is reached, with AcceptLatest  Changes, Gaps     released, applied, gaps
//	abandoned            a limit is reached, with FailFast      Abandoned         abandoned
//	abandoned            it was released and failed             Abandoned         abandoned
//	stale                a higher incarnation has begun         Stale             stale
//	stayed               Abandoned refused it                   nowhere           stayed
//
// [Limits] bound how many records of a key wait, and how long a key waits without progress. A copy
// of a record that waits is a duplicate.
//
// # Abandoned records
//
// An abandoned record exists only in the stream Abandoned. Build reports a projection that does not
// use it. The nodes behind Abandoned should take every record, so write it to a topic whose
// max.message.bytes is larger than that of the source. Build reports deadletter.Send there, because
// there is no record at work that could become a dead letter.
//
// A record that a node behind Abandoned refuses stays in the store, and its key waits on with it.
// The record is tried again when its key reaches a limit the next time. It has no effect any more
// if a copy of it was applied in the meantime.
//
// A record without an effect that neither Stale nor Abandoned takes keeps its place in the store,
// and holds up no other record. It is tried again in three cases: the row has passed all of these
// records, a later incarnation begins, or the key reaches a limit. If there are several, the first
// one that stays ends the attempt.
//
// To give an abandoned record another chance, write it to a topic that is read in front of the
// projection, but behind an inbox. The inbox has accepted the record before, and would take it for
// a copy. The example of [Projection.Abandoned] shows this.
//
// # Repairs
//
// With [RepairGaps] each range of missing versions is requested once, when it is first seen, in the
// same transaction. The answer of the source is a record like any other.
//
// A version is requested again only after no record of its key waits any more. This happens after
// the limits with FailFast, when Abandoned has taken all records of the key. The next record of the
// key with a gap then requests the missing versions again. A version that is missing because its
// record was refused on its release is not requested before that.
//
// # A released record
//
// A released record keeps what belongs to it:
//
//   - its position (topology.Record.Source), timestamp and headers,
//   - its mode (topology.Context.Mode),
//   - and so do the records made from it.
//
// Three things come from the record that releases it:
//
//   - Stream time is that of the release.
//   - A failure of fold, or of a node behind the projection, follows the policy of that node
//     ([OnError]). If the policy ends in a dead letter, the released record is abandoned. It leaves
//     no other trace, its version is missing again, and the releasing record continues. If the
//     policy retries or stops the task, it does so with the releasing record. If a limit in time
//     caused the release, the task retries or stops. A record to be parked or delayed then stays,
//     and is tried again when its key reaches a limit the next time.
//   - All records that one record releases are one unit of work in one transaction. Limits.Records
//     bounds it. A check of the limits in time takes at most 10,000 records or 16 MiB, and the rest
//     of the last key. Other keys are due at the next check.
//
// If you remove ParkGaps, the projection does not know the records that wait. Remove it only when
// none waits: the gauge waiting-records of the node (onceward_node_value) must be 0 for all tasks.
// It is counted when a task opens, and every minute.
//
// # Replay
//
// The same records over an empty store give the same rows. Over a store with rows, records that
// were applied are stale or duplicates and change nothing. Records that failed or were abandoned
// are tried again.
//
// # Versions
//
// A version is a number that the source gives to a change of an aggregate: the version of the
// aggregate, a sequence number, or a position in the log of the source. It is never a wall clock of
// this process. If versions are not dense, such as event times, [Sparse] makes every higher version
// the next one. Timestamps decide nothing.
//
// # Deletes and incarnations
//
// A record with a null value (an absent topology.Option, or a nil []byte) deletes. It has a version
// like any other record, for example in its headers. The row stays, with the version and a mark, so
// that a late record with an older version cannot bring the aggregate back. A later version creates
// the aggregate again: fold is called as for a key without a row. Rows of deleted aggregates are
// never removed.
//
// Some sources restart the versions when they create an aggregate again. Then versions alone cannot
// tell the new incarnation from late records of the old one. [Incarnation] reads the incarnation of
// a record: a number that grows, such as the time of creation or a generation. Incarnations are
// compared before versions. A higher incarnation begins without a state, with or without a delete
// of the one before. Nothing is missing between two incarnations. With [FirstVersion] the versions
// of each incarnation begin there.
//
// # Definition
//
// The definition of a projection is what fold computes. [DefinitionVersion] numbers it, and every
// row has the number. A row of another definition is refused with an error of class Config, which
// stops the task, because the two would mix. A next definition is therefore built beside the old
// one, and replaces it in steps:
//
//  1. Build. The next definition is a projection with its own store that reads the topic from the
//     beginning. Run the topology with a higher [DefinitionVersion] under another application id
//     (topology.Topology.WithApplication), and write its changes to another topic. A projection
//     with another name in the same topology is enough if the topology is new, or if fold needs no
//     history.
//  2. Verify. [Choose] reads the rows of both definitions, passes on those of the active one only,
//     and keeps the last rows of each. The command [Verify] makes it compare them. It reports keys
//     that are missing in the next definition, are behind, or are deleted in one of the two only.
//  3. Switch. The command [Switch] compares them again, in its transaction. It refuses if a key is
//     missing, behind, or deleted in one of the two only, unless it is forced. Otherwise the next
//     definition is active from that record on, and each row that differs is passed on at once.
//  4. Roll back. This is a switch in the other direction. The old definition continues beside the
//     new one until you remove it, so its rows are current. Remove it only while it is not active.
//
// Each command is recorded once, under its id, with the comparison. A reader that keeps the last
// row of each key from Changes has the rows of the active definition at any time. After a forced
// switch, a key that the active definition does not have stays as it was.
//
// Answers are per partition. Write a command to each partition, and read the answer of each. The
// commands `onceward projection verify` and `switch` do that, if commands and answers are
// schemas.JSON under schemas.Bytes keys. Send a refused command again under another id.
//
// A switch compares all rows of a partition, and passes on all differences in one unit of work and
// one transaction. It is meant for tables whose differences fit into one. The choice keeps the rows
// of all definitions beside those of the projections.
//
// # Stored form
//
// The store has the name of the projection. The key of a row is the key of the record. The row is
//
//	offset  bytes  content
//	0       1      format, 1
//	1       2      version of the definition, big-endian
//	3       1      flags: bit 0 deleted, bit 1 has an incarnation, all others zero
//	4       8      version applied, two's complement, big-endian
//	12      0, 8   incarnation, likewise; left out if it is 0
//	        rest   the state as its codec writes it; nothing if deleted
//
// Records that wait are in the store <name>-parked. Their key is the encoded record key with each
// byte 00 replaced by 00 FF, then 00 01, then incarnation and version, 8 bytes each with the sign
// bit flipped. So they sort by key, incarnation and version. The store <name>-queues has the state
// of each key with such records, under the record key.
//
//	record that waits                                queue
//	offset  bytes  content                           offset  bytes  content
//	0       1      format, 2                         0       1      format, 1
//	1       1      flags: bit 0 null value           1       8      number of records
//	2       8      timestamp, in milliseconds        9       16     highest position so far, as in the keys
//	               since the epoch                   25      8      stream time when the row moved last, or the
//	10      4      number of headers                                first record came
//	14      1      mode, as in topology.Mode         33      8      wall clock when a punctuation saw that
//	15      4      partition                                        first, 0 for not yet
//	19      8      offset
//	27      2      length of the topic
//	29             topic
//	               headers: 4 bytes length of the
//	               key, 4 of the value (FFFFFFFF
//	               for null), key, value
//	        rest   value as its codec writes it;
//	               nothing if null
//
// Format 1 of earlier builds has no mode and no position. The headers of such a record give its
// mode. Its position is unknown ([topology.Record.Source]): with the position of the releasing
// record it would look like a copy of that record. Therefore inbox.IngestionID behind the
// projection refuses it, and it is abandoned. If an inbox there uses IngestionID, let all waiting
// records be released before the upgrade.
//
// A choice has three stores. <name>-rows has rows as above with definition 0. Their key is the
// encoded record key, escaped and ended as above, and 2 bytes of definition. <name>-answers has a
// byte 1 for the format and an [Answer] in JSON, under the id of the command. <name>-active has the
// number of the active definition in 8 bytes, under the key "active".
//
// # Concurrency
//
// All tasks call the functions at the same time, so the functions must be safe for concurrent use.
// A [Projection] is a value that is used while the topology is declared.
//
// # What it is not
//
// A projection is not a log: rows have no history. It works per partition: all records of a key
// must be in one partition, as Kafka's partitioners ensure.
package projection
