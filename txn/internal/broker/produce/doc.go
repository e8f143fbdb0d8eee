// Package produce sends the record batches of one transactional producer to the leaders of their
// partitions.
//
// # Contract
//
// A transaction begins with [Sender.Begin], which is told the producer's identity. [Sender.Send]
// takes batches and does not block. [Sender.Flush] returns nil once every batch was acknowledged
// under that identity, and otherwise the first failure, as an [Error] that names the partition.
// After a failure nothing more of the transaction is sent. [Sender.Drop] waits until no request is
// in flight, as an abort has to. The caller begins and ends transactions at the coordinator:
// Produce requests of version 12 and newer add their partitions to the transaction (KIP-890).
//
// # Invariants
//
//   - One batch of a partition is in flight at a time, and one request to a broker. So the order of
//     a partition needs no repair after a failure.
//   - The sequence numbers of a partition begin at 0 with each transaction, because its producer
//     epoch is new (transaction.version 2).
//   - A batch is sealed once, under the identity of Begin. Sent again, it is the same bytes: a
//     broker that has the batch answers with its offset.
//   - The bytes of a batch are released when it is acknowledged. The client has stopped reading
//     them then. Batches of a transaction that failed, or whose Sender was closed, are left to the
//     collector.
//   - The id of a topic is that of its first lookup, as long as the Sender lives. A topic that was
//     deleted and created again refuses the batches.
//
// # Failures
//
//	answer                                             what follows
//	success                                            acknowledged
//	DUPLICATE_SEQUENCE_NUMBER                          acknowledged; the offset of the batch is not known
//	CONCURRENT_TRANSACTIONS                            sent again after 5 to 100 ms: the markers of the transaction before are being written
//	REQUEST_TIMED_OUT, NOT_ENOUGH_REPLICAS_AFTER_APPEND  sent again after a pause
//	UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID       sent again after a pause and a lookup; the fifth in a row is a failure
//	NOT_LEADER_FOR_PARTITION                           sent to the leader that the answer names, or again after a pause and a lookup
//	any other code that may pass                       sent again after a pause and a lookup
//	no answer, a partition that was not answered       sent again after a pause and a lookup: the batch may be written
//	CORRUPT_MESSAGE, any other code                    a failure
//	a lookup that refuses the topic                    a failure
//	a topic or leader that a lookup does not find      looked up again; a missing topic or partition is a failure at the fifth time
//
// Nothing else ends the repetition than the context of Flush: the protocol gives each flush a
// deadline, and settles the producer behind it.
//
// # Concurrency
//
// A Sender is safe for concurrent use, but Begin, Send, Flush and Drop of one transaction come from
// one goroutine. Each request has a goroutine while it is in flight, and so has the lookup of
// leaders; [Sender.Close] waits for them. The lock is not held over I/O.
//
// # What it is not
//
// It initialises no producer, ends no transaction, chooses no partition, and splits no batch.
package produce
