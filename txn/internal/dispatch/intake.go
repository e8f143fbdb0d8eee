package dispatch

import "sync/atomic"

const (
	// FetchBytes is the most that one fetch brings of a partition, and FetchAllBytes what it brings
	// of all partitions of a broker. More is fetched for nothing, because the client drops what it
	// has of a partition that is paused: 4 MiB made a copy slower by a fifth. A broker returns a
	// batch that is larger than a partition's bound only for the first partition of an answer, and
	// this is what batches are at most by default: with less, each answer could bring one batch
	// alone.
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

// intake bounds what is fetched and not committed, however many partitions there are. Each may
// always hold its share of a sum, and up to QueueBytesMax while the sum is not reached, so that all
// of them hold twice the sum at the worst. So one busy partition among many idle ones has the room
// that one alone has, and nobody waits for a neighbour: a task that does not get on keeps its
// share, and one that waits for an input that lags has room to fetch it. Without a bound for the
// sum a process with 64 partitions was four times as large as one with four.
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

// high is where a partition stops being fetched now, low where it goes on. What it holds is mostly
// in the journals of the rounds in flight, so at a quarter it would go on when both of them are
// over and nothing is left to process.
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
