// Package check judges a recorded history of a consume-transform-produce application: was anything
// lost, doubled, torn, reordered or seen too early, does the state say what the log says, and does
// anything hang.
//
// # History
//
// A history is a sequence of [Event] values, in a file one JSON document a line ([Writer], [Read]).
// It is recorded by a test's harness and never by the code under test:
//
//	sent       inputs that were produced, with dense ids from 1 and how the produce request ended
//	read       what a reader got from one partition in one transaction
//	marker     the end of a transaction in one partition, as the log has it
//	position   a committed input position, as __consumer_offsets has it
//	state      the content of a store at a position
//	log        a sample of a partition's last stable offset and high watermark
//	fault      something that the nemesis did, for the reader of the history
//	quiesced   from here on nothing is in flight any more
//
// One reader has the name [LogReader]. It reads every topic from its start at isolation level
// read_uncommitted, control records included, so that its events are the log itself: records in the
// order of their offsets, each transaction's end behind them. All other readers are read_committed
// ones that follow while faults happen, and are judged by the log.
//
// A transaction is named by producer id and epoch. With transaction.version 2 a broker raises the
// epoch with every transaction, so that name is unique, and every record batch and every committed
// position carries it: nothing has to be added to records.
//
// # Predicates
//
//	lost            an acknowledged input that is not in its topic, or one below the committed position whose output is not there
//	duplicate       the output of one input at two places
//	phantom         an output without an input, or one that the input must not have
//	aborted read    a reader got a record whose transaction is aborted (G1a), or that the log does not have as committed
//	torn            outputs, changelog, position of one transaction: some visible, others never
//	inconsistent    two readers have different records at one offset
//	precommitted    a record was processed by the transaction that wrote it
//	nonmonotonic    a reader went back
//	skip            a reader went past a committed record
//	unseen          an input without output, or a record that a reader did not reach, although nothing is in flight any more
//	order           outputs of a key do not follow the order of the inputs
//	state           a store is not the fold of the inputs below its position, or not that of its changelog below its position
//	dedupe leak     a message was accepted a second time
//	ledger          a running total is not the sum of the contributions
//	stuck           a partition's last stable offset stays behind for longer than any transaction may be open
//
// The outcome of a produce request is ok, fail or unknown. What is unknown may have happened or
// not, and is never counted as lost: the log says what happened.
//
// G0, the interleaving of transactions in a partition, is normal in Kafka and is no anomaly.
//
// # Memory
//
// [Run] reads the history twice: once for the index, once for the predicates. What it keeps is a
// few integers for each id and each offset (about 90 bytes an input for the soak's topology), and
// one hash for each key of a store.
//
// # Concurrency
//
// A Writer may be used from any goroutine. Everything else is sequential.
//
// # What it is not
//
// It does not talk to a cluster, it does not know processors, and it does not measure. It cannot
// find what was not recorded: a reader that fails to follow shows as unseen only after a quiesced
// event.
package check
