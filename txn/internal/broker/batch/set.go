package batch

import (
	"encoding/binary"
	"fmt"
)

// Set collects records of a transaction and makes batches of them by partition. The zero value is
// not usable; see NewSet. It belongs to one goroutine.
type Set struct {
	limit  func(topic string) int
	topics []topic
	last   int // the topic of the last record
	places []Destination

	// batches are those that are not taken, in the order of their first records; mine are all since
	// Reset.
	batches, mine []*Batch
	records       int
	bytes         int64
	waiting       int64
	ready         int64
}

// Destination is a partition to which records go.
type Destination struct {
	Topic     string
	Partition int32
}

type topic struct {
	name       string
	limit      int
	partitions []lane
}

// lane is a partition of a topic.
type lane struct {
	open *Batch // nil if the next record begins a batch
	// place is the index of the destination plus one, 0 if it has none yet.
	place int32
}

// Place is where a record is.
type Place struct {
	batch *Batch
	index int32
	// Destination is an index of [Set.Destination], also of a record that was too large; -1 of one
	// that was refused for another reason.
	Destination int32
}

// Offset returns the offset of the record, and false if it is not known: the batch is not
// acknowledged, or was written twice. It may be called until the Set is reset.
func (p Place) Offset() (int64, bool) {
	if p.batch == nil || p.batch.base < 0 {
		return 0, false
	}
	return p.batch.base + int64(p.index), true
}

// aheadSize is from which size on a batch may be sent before the transaction ends. Smaller batches
// would cost the broker more than the waiting costs.
const aheadSize = 32 << 10

// NewSet returns an empty set. limit returns how large a batch of a topic may be; it is asked once
// a topic and transaction.
func NewSet(limit func(topic string) int) *Set { return &Set{limit: limit} }

// Add adds a record. Key, value and headers are copied; nil is null. The timestamp is in
// milliseconds since the epoch. An error wraps ErrTooLarge, and the record is not in the set then.
func Add[H ~struct {
	Key   string
	Value []byte
}](s *Set, topic string, partition int32, timestamp int64, key, value []byte, headers []H) (Place, error) {
	if partition < 0 {
		return Place{Destination: -1}, fmt.Errorf("there is no partition %d of %s", partition, topic)
	}
	t := s.topic(topic)
	for int(partition) >= len(t.partitions) {
		t.partitions = append(t.partitions, lane{})
	}
	l := &t.partitions[partition]
	if l.place == 0 {
		s.places = append(s.places, Destination{topic, partition})
		l.place = int32(len(s.places))
	}
	headerBytes := 0
	for i := range headers {
		h := Header(headers[i])
		headerBytes += varintSize(int64(len(h.Key))) + len(h.Key) + bytesSize(h.Value)
	}
	b := l.open
	if b == nil {
		b = s.begin(t, l, partition, timestamp)
	}
	if b.count == 0 { // begun by a record that was too large
		b.first, b.max = timestamp, timestamp
	}
	all, body := b.size(timestamp, key, value, len(headers), headerBytes)
	if b.count > 0 && headerSize+b.bytes+all > t.limit {
		s.grown(b)
		b = s.begin(t, l, partition, timestamp)
		all, body = b.size(timestamp, key, value, len(headers), headerBytes)
	}
	if headerSize+all > t.limit {
		return Place{Destination: l.place - 1}, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, headerSize+all, t.limit)
	}
	out := b.append(all, body, timestamp, key, value)
	out = binary.AppendVarint(out, int64(len(headers)))
	for i := range headers {
		h := Header(headers[i])
		out = binary.AppendVarint(out, int64(len(h.Key)))
		out = append(out, h.Key...)
		out = appendBytes(out, h.Value)
	}
	b.keep(out)
	s.records++
	s.bytes += int64(all)
	s.waiting += int64(all)
	if b.ahead {
		s.ready += int64(all)
	} else if b.bytes >= aheadSize {
		s.grown(b)
	}
	return Place{batch: b, index: b.count - 1, Destination: l.place - 1}, nil
}

func (s *Set) topic(name string) *topic {
	if s.last < len(s.topics) && s.topics[s.last].name == name {
		return &s.topics[s.last]
	}
	for i := range s.topics {
		if s.topics[i].name == name {
			s.last = i
			return s.known(&s.topics[i])
		}
	}
	s.topics = append(s.topics, topic{name: name, limit: s.limit(name)})
	s.last = len(s.topics) - 1
	return &s.topics[s.last]
}

// known returns a topic with its limit, which Reset has cleared.
func (s *Set) known(t *topic) *topic {
	if t.limit == 0 {
		t.limit = s.limit(t.name)
	}
	return t
}

func (s *Set) begin(t *topic, l *lane, partition int32, first int64) *Batch {
	b := l.open
	if b == nil || b.count > 0 {
		b = newBatch(t.name, partition, first)
		s.batches = append(s.batches, b)
		s.mine = append(s.mine, b)
		l.open = b
	}
	return b
}

// grown counts a batch that may be sent ahead.
func (s *Set) grown(b *Batch) {
	if !b.ahead {
		b.ahead = true
		s.ready += int64(b.bytes)
	}
}

// Take appends batches to dst that were not taken before: all that are not empty, or those that are
// large enough to be sent ahead. Batches of a partition are in the order of their records. The
// caller sends them, and releases their memory when they are acknowledged.
func (s *Set) Take(all bool, dst []*Batch) []*Batch {
	kept := s.batches[:0]
	for _, b := range s.batches {
		if b.count == 0 || !all && !b.ahead {
			kept = append(kept, b)
			continue
		}
		b.taken = true
		s.waiting -= int64(b.bytes)
		dst = append(dst, b)
	}
	clear(s.batches[len(kept):])
	s.batches = kept
	s.ready = 0
	for i := range s.topics {
		for p := range s.topics[i].partitions {
			if l := &s.topics[i].partitions[p]; l.open != nil && l.open.taken {
				l.open = nil
			}
		}
	}
	return dst
}

// Records returns how many records were added.
func (s *Set) Records() int { return s.records }

// Bytes returns how many bytes all records take, not compressed.
func (s *Set) Bytes() int64 { return s.bytes }

// Waiting returns how many bytes the records take that were not taken.
func (s *Set) Waiting() int64 { return s.waiting }

// Ready returns how many bytes can be sent ahead.
func (s *Set) Ready() int64 { return s.ready }

// Destination returns a destination by its index. Indexes are valid until Reset.
func (s *Set) Destination(i int32) Destination { return s.places[i] }

// Reset empties the set. All batches that were taken are acknowledged, and nothing reads them or
// their places any more.
func (s *Set) Reset() {
	for i, b := range s.mine {
		b.release()
		s.mine[i] = nil
	}
	for i := range s.topics {
		t := &s.topics[i]
		t.limit = 0
		clear(t.partitions)
	}
	s.last = len(s.topics) // the next record asks for the limit
	clear(s.batches)
	*s = Set{limit: s.limit, topics: s.topics, last: s.last, places: s.places[:0], batches: s.batches[:0], mine: s.mine[:0]}
}
