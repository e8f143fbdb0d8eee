package topologytest

import (
	"time"

	"github.com/onceward/onceward/topology/graph"
)

// Raw is a record as it stands in a topic: its partition, timestamp, key, value and headers, not
// decoded.
type Raw = graph.Output

// topic is a topic in memory.
type topic struct {
	name       string
	partitions []partition
	// produced is what was written and not drained, in the order of writing, whatever the
	// partition.
	produced []Raw
}

func newTopic(name string, n int32) *topic {
	t := &topic{name: name, partitions: make([]partition, n)}
	for i := range t.partitions {
		t.partitions[i].topic = name
		t.partitions[i].number = int32(i)
		t.partitions[i].turnOf = -1
	}
	return t
}

// append writes a record that a task has produced.
func (t *topic) append(r Raw) {
	t.produced = append(t.produced, r)
	t.partitions[r.Partition].append(r)
}

// drain returns what was produced since the last time.
func (t *topic) drain() []Raw {
	produced := t.produced
	t.produced = nil
	return produced
}

// partition is the queue between a topic and the task that reads it.
type partition struct {
	topic  string
	number int32
	// reader is the task that reads it. Where there is none, nothing is queued.
	reader *task
	// delay is how long records wait after their timestamps, 0 for all but delayed retry topics.
	delay time.Duration
	// queue[head:] is what the task has not read. Before it is what it has read since the last
	// commit, where it keeps that.
	queue []Raw
	head  int
	// position is the offset of the first record that the task has not read.
	position int64
	// keeps says that what was read stays until it is committed: it may have to be read again.
	keeps bool
	// turn is the time by which that record takes its turn, once it was asked for: turnOf is its
	// offset then, -1 before.
	turn, turnOf int64
}

func (p *partition) append(r Raw) {
	if p.reader != nil {
		p.queue = append(p.queue, r)
		p.reader.driver.ready.add(p.reader.index)
	}
}

func (p *partition) empty() bool { return p.head == len(p.queue) }

func (p *partition) first() *Raw { return &p.queue[p.head] }

// advance moves on to the next record.
func (p *partition) advance() {
	p.head++
	p.position++
	if p.keeps {
		return
	}
	p.queue[p.head-1] = Raw{}
	if p.empty() {
		p.queue, p.head = p.queue[:0], 0
	}
}

// forget drops what was read.
func (p *partition) forget() {
	unread := copy(p.queue, p.queue[p.head:])
	clear(p.queue[unread:])
	p.queue, p.head = p.queue[:unread], 0
}

// rewind moves back to the first record that was read since forget.
func (p *partition) rewind() {
	p.position -= int64(p.head)
	p.head, p.turnOf = 0, -1
}

// dueAt is when the first record may be read, the zero time if it need not wait.
func (p *partition) dueAt() time.Time {
	if p.delay == 0 {
		return time.Time{}
	}
	return time.UnixMilli(p.first().Timestamp).Add(p.delay)
}
