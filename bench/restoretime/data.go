package restoretime

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math/rand/v2"

	"github.com/onceward/onceward/bench/load"
	"github.com/onceward/onceward/bench/measure"
)

// stores are the names of the two stores.
var stores = []string{"left", "right"}

const (
	keyBytes = 16
	// Values have valueBytesMin to valueBytesMax bytes, so that key and value have 24 to 32.
	valueBytesMin, valueBytesMax = 8, 16
	// chunks is how often the fill waits for everything before to be committed. No key comes twice
	// in a chunk: the runtime writes one changelog record per key and transaction, and their number
	// would depend on where transactions end.
	chunks = 8
)

// Data says what is in the changelogs.
type Data struct {
	// Records is the number of changelog records of both stores together.
	Records    int64 `json:"records"`
	Partitions int32 `json:"partitions"`
	// Updates is the share of records whose key was written before, from 0 to 0.5.
	Updates float64 `json:"updates"`
	Seed    uint64  `json:"seed"`
}

func (d Data) validate() error {
	if d.Partitions < 1 || d.perPartition() < chunks || d.Records%(int64(len(stores))*int64(d.Partitions)) != 0 {
		return fmt.Errorf("%d records cannot be spread evenly over %d stores of %d partitions, with %d or more in each", d.Records,
			len(stores), d.Partitions, chunks)
	}
	if d.Updates < 0 || d.Updates > 0.5 {
		return fmt.Errorf("a share of %g of updates is not between 0 and 0.5", d.Updates)
	}
	return nil
}

// perPartition is the number of records of one partition: of the input, and of each changelog.
func (d Data) perPartition() int64 { return d.Records / int64(len(stores)) / int64(d.Partitions) }

// Content is what a changelog, or a store, holds. Those of partitions are added up.
type Content struct {
	// Records are all of a changelog's, Entries those of its keys.
	Records int64 `json:"records,omitempty"`
	Entries int64 `json:"entries"`
	// Bytes are those of keys and values of the records.
	Bytes int64 `json:"bytes,omitempty"`
	// Digest is the sum of the hashes of all entries.
	Digest uint64 `json:"-"`
}

func (c *Content) add(o Content) {
	c.Records += o.Records
	c.Entries += o.Entries
	c.Bytes += o.Bytes
	c.Digest += o.Digest
}

// lane makes the records of one partition, in their order.
type lane struct {
	data      Data
	partition int32
	rng       *rand.Rand
	// index is the number of records made, chunk that of the chunks begun, fresh that of the keys,
	// older that of the keys before this chunk.
	index, chunk, fresh, older int64
	// taken are the updates of this chunk.
	taken map[int64]bool
}

func (d Data) lane(partition int32) *lane {
	return &lane{data: d, partition: partition, rng: rand.New(rand.NewPCG(d.Seed, uint64(partition)))}
}

// next makes a record. Its memory is its own.
func (l *lane) next() (key, value []byte) {
	if l.index == l.chunk*l.data.perPartition()/chunks {
		l.chunk++
		l.older, l.taken = l.fresh, map[int64]bool{}
	}
	l.index++
	id := l.pick()
	buf := make([]byte, keyBytes+valueBytesMax)
	key = buf[:keyBytes:keyBytes]
	value = buf[keyBytes : keyBytes+valueBytesMin+l.rng.IntN(valueBytesMax-valueBytesMin+1)]
	binary.BigEndian.PutUint64(key, measure.Scatter(l.data.Seed+uint64(id)))
	binary.BigEndian.PutUint32(key[8:], uint32(l.partition))
	binary.BigEndian.PutUint32(key[12:], uint32(id))
	for i := range value {
		value[i] = byte(l.rng.Uint32())
	}
	return key, value
}

// pick returns the number of a key: a new one, or one of an earlier chunk that this chunk has not
// had.
func (l *lane) pick() int64 {
	// The first chunk has no updates; the others make up for it.
	share := l.data.Updates * chunks / (chunks - 1)
	if l.older > 0 && int64(len(l.taken)) < l.older && l.rng.Float64() < share {
		id := l.rng.Int64N(l.older)
		for l.taken[id] {
			id = (id + 1) % l.older
		}
		l.taken[id] = true
		return id
	}
	l.fresh++
	return l.fresh - 1
}

// records returns what the lanes make of chunk n, in turn. Chunks have to be asked for in their
// order.
func (d Data) records(lanes []*lane, n int64) iter.Seq[load.Record] {
	end := (n + 1) * d.perPartition() / chunks
	return func(yield func(load.Record) bool) {
		for lanes[0].index < end {
			for _, l := range lanes {
				key, value := l.next()
				if !yield(load.Record{Partition: l.partition, Key: key, Value: value}) {
					return
				}
			}
		}
	}
}

// expected returns what is in one partition of each store in the end.
func (d Data) expected(partition int32) Content {
	l := d.lane(partition)
	var c Content
	var hashes []uint64
	for range d.perPartition() {
		key, value := l.next()
		c.Records++
		c.Bytes += int64(len(key) + len(value))
		h := measure.HashEntry(key, value)
		if id := int(binary.BigEndian.Uint32(key[12:])); id < len(hashes) {
			c.Digest += h - hashes[id]
			hashes[id] = h
		} else {
			c.Digest += h
			hashes = append(hashes, h)
		}
	}
	c.Entries = int64(len(hashes))
	return c
}
