// Package batch decodes the record batches (format v2, KIP-98) that a raw fetch of committed
// records returns, for readers of millions of records: a restore needs the exact position, key,
// value and timestamp of each, and no object for any of them.
//
// # Contract
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
// A Decoder belongs to one goroutine at a time.
package batch
