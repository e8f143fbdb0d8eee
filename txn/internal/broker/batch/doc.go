// Package batch reads and writes record batches (format v2, KIP-98) without an object for each
// record. It decodes what a raw fetch of committed records returns: a restore needs the exact
// position, key, value and timestamp of each. It encodes what a transaction writes.
//
// # Writing
//
// [Add] appends a record to the batch of its partition in a [Set], and copies what it is given. A
// batch ends where its topic's limit is: the size of the whole batch, before it is compressed. A
// record that is too large alone is refused with [ErrTooLarge] and changes nothing else. [Set.Take]
// hands batches over, those of a partition in order. Then [Batch.Seal] writes the producer's
// identity, the sequence number and the checksum, and compresses the records if that makes them
// smaller. A sealed batch does not change. So its bytes can be sent again, and the broker knows
// them.
//
// Records lie in chunks of 2 to 128 KiB, so that a batch of few records takes little memory and one
// of many is not copied when it grows. Chunks are used again once the batch is released, and
// batches once the set is reset. [Set.Reset] is for a transaction that is acknowledged: of another
// one the set is thrown away, because a request may be reading its batches. For a record nothing is
// allocated.
//
// # Reading
//
// [Decoder.Decode] hands over every committed record of an answer at or above the offset that was
// fetched from, in order, and returns the next offset to fetch from. That moves past control
// records, aborted records and offsets that compaction has emptied (KAFKA-5443), as a position
// taken from the last record would not. The broker's list of aborted transactions counts for this
// one answer only, so answers are never joined.
//
// Keys and values are parts of the answer's own buffer, or of one that the next compressed batch
// overwrites: a caller that keeps them copies them. For an uncompressed answer nothing is
// allocated.
//
// # Failure
//
// The checksum of every batch is compared before anything of it is used. An answer that breaks the
// format is an error that wraps [ErrMalformed], names the offset and carries no payload. The one
// exception is a batch that the answer's end cuts off: brokers cut where the byte limit is, and the
// next fetch brings it whole.
//
// The tests compare with the result of [kgo.ProcessFetchPartition] of franz-go for the same answer.
// It is not used here because it makes an object per record: see the benchmarks. It also reads
// more: formats before v2, which cannot be transactional, uncommitted records, headers.
//
// # Concurrency
//
// A Decoder and a Set belong to one goroutine at a time. A batch that was taken belongs to its
// taker until the set is reset. A Compressor is safe for concurrent use.
//
// # What it is not
//
// It sends and retries nothing (package produce), and chooses no partition.
package batch
