package batch

import (
	"bytes"
	"sync"
)

// chunk is a part of the records of a batch.
type chunk struct {
	bytes []byte
	class int // of the pool, -1 for none
}

// chunkSizes are those of the chunks of a batch, one after the other. A batch of few records takes
// little memory; one of many takes few chunks.
var chunkSizes = [...]int{2 << 10, 8 << 10, 32 << 10, 128 << 10}

// pools keep chunks, batches and buffers of compressed records between batches. The collector takes
// what is not used, so a burst leaves nothing behind.
var (
	chunkPools [len(chunkSizes)]sync.Pool
	batchPool  sync.Pool
	packedPool sync.Pool
	sourcePool sync.Pool
)

// newChunk returns the next chunk of a batch, with room for at least so many bytes.
func newChunk(next, room int) *chunk {
	class := min(next, len(chunkSizes)-1)
	for class < len(chunkSizes) && chunkSizes[class] < room {
		class++
	}
	if class == len(chunkSizes) {
		return &chunk{make([]byte, 0, room), -1}
	}
	if c, ok := chunkPools[class].Get().(*chunk); ok {
		return c
	}
	return &chunk{make([]byte, 0, chunkSizes[class]), class}
}

func (c *chunk) release() {
	if c.class >= 0 {
		c.bytes = c.bytes[:0]
		chunkPools[c.class].Put(c)
	}
}

func newBatch(topic string, partition int32, first int64) *Batch {
	b, ok := batchPool.Get().(*Batch)
	if !ok {
		b = &Batch{}
	}
	b.Topic, b.Partition, b.first, b.max, b.base = topic, partition, first, first, -1
	return b
}

// release gives a batch back whose memory is released. Nothing refers to it any more.
func (b *Batch) release() {
	b.Release()
	*b = Batch{chunks: b.chunks}
	batchPool.Put(b)
}

// packed are the compressed records of a batch.
type packed struct {
	bytes  []byte
	buffer bytes.Buffer
}

func newPacked() *packed {
	if p, ok := packedPool.Get().(*packed); ok {
		return p
	}
	return &packed{}
}

func (p *packed) release() {
	p.bytes = nil
	packedPool.Put(p)
}

// source is what is compressed, in one piece. It is used while a batch is sealed only.
type source struct{ bytes []byte }

func newSource() *source {
	if s, ok := sourcePool.Get().(*source); ok {
		s.bytes = s.bytes[:0]
		return s
	}
	return &source{}
}
