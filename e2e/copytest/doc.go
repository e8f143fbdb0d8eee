// Package copytest repeats what Apache Kafka's own system test TransactionsTest asks of a transactional client
// (tests/kafkatest/tests/core/transactions_test.py): records are copied from one topic to another in transactions of 750, while the
// client, or the broker, is bounced again and again, and while a read_committed reader follows. Afterwards nothing may be missing,
// doubled or out of order, neither for the reader that followed nor for one that comes later.
//
// Differences, and why:
//
//   - One broker, bounced three times, instead of three that are bounced in turn: the machine has two cores. What replication promises is
//     not ours to test. Its controller is a process of its own that stays up, without which Kafka 4.3.1 loses markers of its own.
//   - The client and the broker are bounced in turn in the same copy, three times each, and hard (SIGKILL). A client is killed when the
//     broker lists an open transaction of it, if it does so within five seconds.
//   - Order is judged with several partitions too: within each pair of input and output partition.
//   - The history is judged by package check, so that also a torn transaction is found.
//
// The full size is 100,000 records (make verify-copy); make test-kafka runs a tenth of it with one bounce of each.
package copytest
