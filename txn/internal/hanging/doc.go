// Package hanging finds transactions that partitions hold open and their coordinators do not know
// as ongoing, decides from evidence how each of them ended, and writes the missing markers
// (protocol rule 13.7).
//
// # Where they come from
//
// A coordinator answers a commit once its decision is in its log, and writes the markers
// afterwards. A broker that is killed at the right moment, or that takes a partition for deleted,
// loses some of them. The partition then holds the transaction open for ever: readers of committed
// records stop in front of it, and offsets stay unstable. The next transaction of the same producer
// in that partition takes the old records along, whatever became of them: so a decision has to be
// made before that producer writes again.
//
// # Contract
//
//   - [Find] looks and changes nothing. A transaction is hanging only if its partition holds it
//     open both before and after its coordinator said that it is not ongoing. If no coordinator
//     names the producer, it is hanging only if the producer is the application's and all
//     coordinators are there; else that is not known.
//   - [Decide] is a pure function. It answers Commit or Abort only where evidence says so and none
//     contradicts it, and Unknown otherwise.
//   - [Repair] writes what was decided, or what an operator has decided where the verdict is
//     Unknown; never the opposite of the evidence. It writes to outputs and changelogs first and to
//     the offsets last, and ends with the first failure, so that offsets are never repaired before
//     what they belong to. Right before each marker it looks again: the same transaction (producer
//     id, epoch, first offset) has to be open still, and its producer must have no transaction
//     under way.
//   - A marker carries the epochs that the partition names. If the producer writes with a newer
//     epoch in between, the leader refuses it. That is what makes a repair safe beside a producer
//     whose epoch changes with each transaction (transaction.version 2).
//
// # Concurrency and failure
//
// There is no state and there are no goroutines. Everything can be repeated: a partition whose
// marker was written is not open any more.
//
// # What it is not
//
// It does not settle producers and closes no tasks. Whoever calls it sees to it that the producer
// does not write meanwhile.
package hanging
