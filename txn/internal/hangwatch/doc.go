// Package hangwatch sees to it that no producer of the instance writes to a partition that holds an
// older transaction of it open, which nothing will end (protocol rule 13.7). The next transaction
// of that producer would take the old records along: aborted records would appear, or committed
// records would be lost.
//
// # Contract
//
//   - [Watch.Note]: before a transactional id is initialised, its coordinator is asked about the
//     last transaction. The answer is evidence, and is gone there afterwards. If it says how the
//     transaction ended, it is in the state directory when Note returns, and the watch of the next
//     process has it.
//   - [Watch.Settled]: once ids are initialised, answers with newer epochs than theirs are dropped:
//     the coordinator has lost them, and will use their epochs again.
//   - [Watch.Tidy]: an answer is dropped too if its coordinator is behind it. It is removed once its
//     id was initialised and every partition has said after that that it does not hold the
//     transaction open.
//   - [Watch.AtStart]: after all ids of the instance are initialised, and before a record is
//     produced, everything that the application reads and writes is asked for what it holds open.
//     An id whose transaction hangs is not used, and the worker gets another one, so no task has to
//     be closed. Tasks that cannot read because of it wait, and say so (package waits).
//   - [Watch.Settle]: after a producer was initialised again because a round failed, all
//     partitions are asked to which it has written since it was last looked at. If a transaction of
//     it hangs there, the error ends the membership, and the next one chooses other ids. The other
//     producers are looked at right after, while they produce.
//   - [Watch.Run]: a partition that did not answer at start is asked again until it has. A
//     transaction that hangs is looked at again from time to time. A membership that produces under
//     an id of which a transaction hangs is ended.
//   - [Watch.Repair]: if the configuration says so, a transaction that hangs and whose end is
//     evident is repaired. It writes nothing if a partition of the application did not answer or
//     may not be read.
//
// # Concurrency and failure
//
// A watch belongs to the process and outlives memberships. Its methods are safe for concurrent
// use. Run, Repair and Tidy run on a goroutine each, so no look waits for the logs that Repair reads,
// or for the coordinators that Tidy asks. A question without an answer is asked again, and is never taken for a no. A stored answer that is
// damaged, or of another cluster, is not used: how the transaction ended is not known then. If the
// file cannot be read, it stays, and nothing is stored. An answer that cannot be stored is in memory,
// and a warning. NoteDead waits for the disk for half a second.
//
// # What it is not
//
// Package hanging finds, decides and repairs; a watch says when, and what the instance must not
// use meanwhile.
package hangwatch
