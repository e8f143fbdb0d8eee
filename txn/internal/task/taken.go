package task

import (
	"math"

	"github.com/onceward/onceward/txn/internal/broker"
)

// Taken is what a journal holds of one input.
type Taken struct {
	// Records counts the records, without control records.
	Records int64
	// Bytes is the memory of all, with control records.
	Bytes int64
	// first is the timestamp of the first record, oldest the smallest one. They mean nothing
	// without a record.
	first, oldest int64
}

func (t *Taken) add(r *broker.Record, bytes int64) {
	t.Bytes += bytes
	if r.Attrs.IsControl() {
		return
	}
	at := r.Timestamp.UnixMilli()
	if t.Records == 0 {
		t.first, t.oldest = at, at
	}
	t.Records++
	t.oldest = min(t.oldest, at)
}

// Records returns how many records the round has taken, without control records, and the smallest
// of their timestamps in milliseconds since the epoch: math.MaxInt64 without a record.
func (c *Contribution) Records() (n, oldest int64) {
	oldest = math.MaxInt64
	for i := range c.Taken {
		if in := &c.Taken[i]; in.Records > 0 {
			n, oldest = n+in.Records, min(oldest, in.oldest)
		}
	}
	return n, oldest
}
