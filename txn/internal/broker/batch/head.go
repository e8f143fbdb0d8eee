package batch

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Ending says whether a batch ends a transaction, and how.
type Ending uint8

// The endings.
const (
	// None: the batch holds records.
	None Ending = iota
	// Aborted: the batch is the marker of an abort.
	Aborted
	// Committed: the batch is the marker of a commit.
	Committed
	// Compacted: the batch was a marker, and compaction has taken what it said.
	Compacted
)

// Head is what a batch of a transaction says of its producer. Its records are not looked at.
type Head struct {
	// First and Last are the offsets of the first and the last record that the batch ever had.
	First, Last int64
	ProducerID  int64
	Epoch       int16
	Ending      Ending
}

const atProducerEpoch = 51

// Heads calls each for the batches of transactions in p that end at offset or later, committed or
// not, in their order. It returns the next offset to fetch from, which is offset itself if p does
// not hold a whole batch.
func Heads(p *kmsg.FetchResponseTopicPartition, offset int64, each func(Head)) (next int64, err error) {
	next = offset
	for in := p.RecordBatches; ; {
		batch, rest, err := first(in)
		if batch == nil || err != nil {
			return next, err
		}
		h, err := parseHeader(batch)
		if err != nil {
			return next, err
		}
		if h.last >= next {
			next = h.last + 1
			if h.attributes&transactional != 0 {
				head := Head{
					First: h.base, Last: h.last, ProducerID: h.producerID,
					Epoch: int16(binary.BigEndian.Uint16(batch[atProducerEpoch:])),
				}
				if head.Ending, err = ending(h, batch[headerSize:]); err != nil {
					return next, err
				}
				each(head)
			}
		}
		in = rest
	}
}

// ending reads the type of a control batch from the key of its record: a version and a type, of two
// bytes each.
func ending(h header, records []byte) (e Ending, err error) {
	if h.attributes&control == 0 {
		return None, nil
	}
	if h.attributes&compressionMask != 0 {
		return None, malformed(h.base, "a compressed control batch")
	}
	e = Compacted
	err = decodeRecords(records, h, h.base, func(r Record) error {
		switch {
		case len(r.Key) < 4 || r.Key[2] != 0:
		case r.Key[3] == 0:
			e = Aborted
		case r.Key[3] == 1:
			e = Committed
		}
		return nil
	})
	return e, err
}
