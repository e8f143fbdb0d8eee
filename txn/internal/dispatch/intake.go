package dispatch

import "sync/atomic"

const (
	// FetchBytes is the most that one fetch brings of a partition, and FetchAllBytes what it brings
	// of all partitions of a broker. A larger fetch is wasted, because the client drops the records
	// of a partition that is paused: 4 MiB made a copy slower by a fifth. A broker returns a batch
	// that is larger than a partition's bound only for the first partition of an answer. The
	// default size limit of a batch is this bound: with a smaller one, each answer could bring one
	// batch alone.
	FetchBytes    = 1 << 20
	FetchAllBytes = 8 * FetchBytes
	// intakeParts times Config.QueueBytesMax is what all input partitions hold before each has its
	// share alone.
	intakeParts = 16
	// queueBytesMost is no bound for any machine, and can be counted with.
	queueBytesMost = 1 << 40
	// shareBytesMin is what each partition may hold, however many there are.
	shareBytesMin = 64 << 10
)

// intake bounds what is fetched and not committed, however many partitions there are. Each
// partition may always hold its share of a sum, and up to QueueBytesMax while the sum is not
// reached, so that all of them hold twice the sum at the worst. So one busy partition among many
// idle ones has the room of a single one, and no partition waits for a neighbour. A task that makes
// no progress keeps its share, and one that waits for an input that lags has room to fetch it.
// Without a bound for the sum a process with 64 partitions was four times as large as one with
// four.
//
// Any number of goroutines may call it.
type intake struct {
	queueBytesMax int64
	partitions    atomic.Int64
	// held are the bytes of all queues.
	held atomic.Int64
}

// divide says how many input partitions the process has.
func (i *intake) divide(partitions int) { i.partitions.Store(int64(partitions)) }

// share is what one partition may always hold.
func (i *intake) share() int64 {
	return min(i.queueBytesMax, max(intakeParts*i.queueBytesMax/max(i.partitions.Load(), 1), shareBytesMin))
}

// high is where a partition stops being fetched now, low where fetching continues. Most of its
// records are in the journals of the rounds in flight. With low at a quarter, fetching would
// continue only when both rounds are over and nothing is left to process.
func (i *intake) high() int64 {
	if i.held.Load() < intakeParts*i.queueBytesMax {
		return i.queueBytesMax
	}
	return i.share()
}

func (i *intake) low() int64 { return i.high() / 2 }

// journal is how much of the input a round may hold that is in no hurry to commit: never so much
// that nothing more is fetched for it.
func (i *intake) journal() int64 { return i.share() / 4 }
