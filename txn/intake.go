package txn

import "sync/atomic"

const (
	// fetchBytes is the most that one fetch brings of a partition, fetchBytesMin where there are many, and fetchAllBytes what it brings of all
	// partitions of a broker. A broker returns a batch that is larger than a partition's bound only for the first partition of an answer, so
	// the least is what batches are at most by default: with less, each answer could bring one batch alone.
	fetchBytes    = 4 << 20
	fetchBytesMin = 1 << 20
	fetchAllBytes = intakeParts * fetchBytes
	// intakeParts times Config.QueueBytesMax is what all input partitions hold before each has its share alone.
	intakeParts = 8
	// queueBytesMost is no bound for any machine, and can be counted with.
	queueBytesMost = 1 << 40
	// shareBytesMin is what each partition may hold, however many there are.
	shareBytesMin = 64 << 10
)

// intake bounds what is fetched and not committed, however many partitions there are. Each may always hold its share of a sum, and up to
// QueueBytesMax while the sum is not reached, so that all of them hold twice the sum at the worst. So one busy partition among many idle ones has
// the room that one alone has, and nobody waits for a neighbour: a task that does not get on keeps its share, and one that waits for an input
// that lags has room to fetch it. Without a bound for the sum a process with 64 partitions was four times as large as one with four.
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

// part is what one partition has of bytes, which is for one of few, and least for one of many.
func (i *intake) part(bytes, least int64) int64 {
	return min(bytes, max(intakeParts*bytes/max(i.partitions.Load(), 1), least))
}

// share is what one partition may always hold.
func (i *intake) share() int64 { return i.part(i.queueBytesMax, shareBytesMin) }

// high is where a partition stops being fetched now, low where it goes on.
func (i *intake) high() int64 {
	if i.held.Load() < intakeParts*i.queueBytesMax {
		return i.queueBytesMax
	}
	return i.share()
}

func (i *intake) low() int64 { return i.high() / 4 }

// journal is how much of the input a round may hold that is in no hurry to commit: never so much that nothing more is fetched for it.
func (i *intake) journal() int64 { return i.share() / 4 }

// fetch is the most that one fetch brings of a partition.
func (i *intake) fetch() int32 { return int32(i.part(fetchBytes, fetchBytesMin)) }
