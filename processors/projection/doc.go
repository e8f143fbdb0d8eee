// Package projection keeps the latest state of each key from a stream of versioned records. A row carries
// the version that it has applied, and versions only move forward.
//
//	accounts := projection.Latest(events, "accounts", version, fold, schemas.JSON[Account]())
//	accounts.Changes().Into(Accounts)
//
// Records can wait for those before them ([ParkGaps]), and the next definition of a projection can be built
// beside the old one and take its place ([Choose]).
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
//	            with FailFast (the default)               none                                  (it fails)
//	            with AcceptLatest                         as applied          Changes, Gaps     applied, gaps
//	            with ParkGaps                             it waits            Parked            parked
//	            with RepairGaps                           it waits            Parked, Repairs   parked, repairs
//	            with Sparse                               it is applied, and no gap
//
// The first record of a key is applied whatever its version is, because the topic may begin anywhere, unless
// [FirstVersion] says where the versions begin. A stale record or a duplicate is an outcome and never an
// error. A gap under FailFast, a version below the first one, a null key and a version that cannot be read
// fail with class Validation; an error of fold has the class that fold gives it. What fails becomes a dead
// letter, unless a policy says otherwise ([OnError]), and the row stays as it was.
//
// FailFast is the default because a fold that adds to what it finds is wrong from the missing version on.
// All later records of the key then fail as well, until the missing ones arrive and are followed by those
// that failed, redriven in their order.
//
// Two records with one version are taken for the same record: payloads are not compared. An inbox before the
// projection finds an id that says two things.
//
// # Waiting
//
// With [ParkGaps] a record before which versions are missing is kept in a store, with its timestamp and
// headers. Once the missing ones were applied, in whatever order they have come, it is applied behind them:
// in the turn of the record that closes the gap, in the order of the versions, and in its transaction. Any
// order of the records of a key, and any number of copies, gives the rows and the changes of the clean
// sequence, as long as the limits are not reached; without [FirstVersion], what comes before the first record
// of the key is stale.
//
//	what becomes of it   when                                   goes to           counted as
//	released             the versions before it were applied    Changes           released, applied
//	accepted             a limit is reached, with AcceptLatest  Changes, Gaps     released, applied, gaps
//	abandoned            a limit is reached, with FailFast      Abandoned         abandoned
//	abandoned            its turn came, and it was refused      Abandoned         abandoned
//	stale                a higher incarnation has begun         Stale             stale
//	waiting on           Abandoned would have it, and refuses   nowhere           stayed
//
// [Limits] bound how many records of a key wait, and how long a key waits without any progress. What was
// abandoned is nowhere else: Build reports a projection whose Abandoned is not used. A copy of a record that waits is a duplicate.
//
// What uses Abandoned should take every record: a topic with a larger max.message.bytes than the source, a node that does not
// fail. deadletter.Send there is a mistake that Build reports, because no record is at work that could die. A record that is
// refused there, or whose evidence is, waits on, and its key with it, as if they had begun to: it is tried again when the key
// reaches a limit the next time, and has no effect any more when a copy of it has come and was applied. One that has no effect any
// more, and that neither Stale nor Abandoned takes, keeps nothing waiting, and has its place among those that wait. It is tried again when the row
// is past all of them, when a later life begins, and when the key reaches a limit; of several, the first one that stays ends it.
//
// An abandoned record that is to have another chance has to come in front of the projection, but behind an inbox before it, which
// has accepted it and would take it for a copy; see the example of [Projection.Abandoned].
//
// With [RepairGaps] every range of missing versions is asked for once, when it is first seen, in the same
// transaction. What the source sends then comes like any other record. A version is asked for again only once nothing of its
// key waits any more: after the waiting was given up with FailFast and Abandoned has taken all of it, the next record before which
// it is missing does so. One that is missing again because its record was refused in its turn is not asked for before that.
//
// A record whose turn has come is what it was: it has its own position (topology.Record.Source), timestamp and headers,
// and is handled in its own mode (topology.Context.Mode), and so is what is made of it, whatever the record is that has
// released it. What is not its own shows in three places. Its stream time is that of now. If fold fails on it,
// or anything behind the projection on what becomes of it, and the policy of the node that failed ([OnError]) ends in
// a dead letter, it is abandoned, no other trace of it is left, its version is missing again, and the record that
// has released it goes on. If that policy has something tried again, or stops the task, it is the record that has
// released it to which this happens. Where that was no record but the reaching of a limit in time, it is the task that tries
// again, or stops; what would be parked or delayed waits on, is tried again when its key reaches a limit the next time, and is not
// given up for it. And all that one record releases is one unit of work, and goes into one transaction: Limits.Records
// bounds it. So is what a look at the limits in time gives up, which is 10,000 records or 16 MiB, and the rest of the last key;
// the other keys are due at the next look.
//
// A projection whose ParkGaps is taken away again does not know any more what waits: nothing should, by then. How many records
// wait is counted when a task is opened, and every minute, and shown as the gauge waiting-records of the node
// (onceward_node_value): it is 0 for all tasks then.
//
// # Replay
//
// The same records over an empty store give the same rows. Over a store that is kept, what was applied is stale
// or a duplicate, and changes nothing; what has failed or was abandoned gets another chance.
//
// # Versions
//
// A version is a number that the source gives to a change of the aggregate: the aggregate's version, a
// sequence number, a position in the source's log. It is never a wall clock of this process. Where versions
// are not dense, such as event times, [Sparse] makes every higher one the next. Timestamps decide nothing.
//
// # Deletes and what comes after
//
// A record whose value is null (an absent topology.Option, or a nil []byte) deletes, and has a version like
// any other, which it carries in its headers, say. The row stays, with the version and a mark, so that
// an older record that comes late cannot raise the dead. A later version makes the aggregate anew: fold is
// called as for a key without a row. Rows of deleted aggregates are never removed.
//
// Where the source begins with the versions anew when it makes an aggregate again, versions alone cannot tell
// the new life from what comes late of the old one. [Incarnation] reads which life a record belongs to: a
// number that grows, such as the time of the creation or a generation. Positions are compared by incarnation
// first. A higher incarnation begins without a state, whether the delete of the one before has come or not;
// nothing is missing between the two, and with [FirstVersion] its versions begin there too.
//
// # Definition
//
// What fold computes is the definition of the projection, and [DefinitionVersion] numbers it; every row has
// the number. Rows that another definition wrote are refused with an error of class Config, which stops the
// task: the two would mix. So a next definition is built beside the old one, and takes its place in steps:
//
//  1. Build. The next definition is a projection of its own, with a store of its own, and reads the topic from
//     the beginning: the topology with [DefinitionVersion] raised under another application id
//     (topology.Topology.WithApplication), whose changes go to another topic. A projection of another name in
//     the same topology does where the topology is new, or where fold needs no history.
//  2. Verify. [Choose] reads the rows of both, passes on those of the active one alone, and keeps the last rows
//     of each. A command with [Verify] has it compare them: which keys are missing in the next definition, are
//     behind, or are deleted in one of them alone.
//  3. Switch. A command with [Switch] compares them again, in its transaction, and refuses if a key is missing,
//     behind or contrary; who knows better forces it. Otherwise the next definition is the active one from
//     that record on, and every row in which it differs is passed on at once.
//  4. Roll back, which is a switch the other way. The old definition goes on beside the new one until it is
//     taken away, and so it has what has come since. It can be taken away once it is not the active one.
//
// What was decided is recorded: each command once, under its id, with the comparison. Whoever keeps the last
// row of each key from Changes has, at any time, the rows of the active definition; a key that it does not have,
// after a forced switch, stays as it was. Answers are per partition, so a command is written to each of them,
// and the answer is looked at for each of them: `onceward projection verify` and `switch` do that, where commands and answers are
// schemas.JSON under keys that are schemas.Bytes. A command that is refused is sent again under another id.
//
// A switch passes on all differences of a partition in one unit of work and in one transaction, and compares
// all rows before: it is meant for what fits into one. Rows of all definitions are kept in the choice beside
// those of the projections.
//
// # Stored form
//
// The store has the name of the projection, the key of a row is the record's key. The row is
//
//	offset  bytes  content
//	0       1      format, 1
//	1       2      version of the definition, big-endian
//	3       1      flags: bit 0 deleted, bit 1 has an incarnation, all others zero
//	4       8      version applied, two's complement, big-endian
//	12      0, 8   incarnation, likewise; left out if it is 0
//	        rest   the state as its codec writes it; nothing if deleted
//
// Records that wait are in the store <name>-parked. Their key is the encoded record key with each byte 00
// replaced by 00 FF, then 00 01, then incarnation and version, 8 bytes each with the sign bit flipped, so that
// they lie in their order. What is known of the waiting of a key is in <name>-queues, under the record's key.
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
// Format 1, which earlier builds have written, has nothing from the mode to the topic. Such a record is in the mode that
// its headers tell, and its position is not known: it has none ([topology.Record.Source]). With the position of the record that
// releases it, it would pass for a copy of that one. So inbox.IngestionID behind the projection refuses it, and it is abandoned: where
// an inbox goes by that, let what waits run out before the upgrade.
//
// A choice has <name>-rows, with rows as above whose definition is 0, under the encoded record key, escaped
// and ended as above, and 2 bytes of definition; <name>-answers, with a byte 1 for the format and an
// [Answer] in JSON under the id of the command; and <name>-active, with the number of the active definition
// in 8 bytes under the key "active".
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
