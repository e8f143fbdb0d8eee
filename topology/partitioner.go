package topology

import (
	"errors"
	"fmt"

	"github.com/onceward/onceward/topology/graph"
)

// Partitioner chooses the partitions of records. [PartitionBy] makes it. It is an option of
// [Stream.Repartition] and [RepartitionWith], and of topics by [TopicOf.PartitionedBy]. It is
// immutable.
type Partitioner[K, V any] struct {
	name string
	f    func(topic string, key K, value V, partitions int32) int32
	// internal says that it belongs to an operator: ByKey is no answer, and another partition than
	// those of the topic is damage.
	internal bool
}

// ByKey is the answer of a [Partitioner] that leaves a record to Kafka's default partitioner.
const ByKey int32 = -1

// PartitionBy describes a partitioner. f returns the partition of a record, from 0 to partitions-1,
// or [ByKey]. The topic is the name on the cluster. Any other answer fails the record, as
// [Validation]. A record goes to one partition: f cannot copy it to several, and to leave one out
// is the work of [Stream.Filter].
//
// f has to return the same for the same, because a record may be processed again. The name stands
// for f in the fingerprint and the description of the topology, which cannot compare functions.
// Give f another name when it chooses otherwise.
func PartitionBy[K, V any](name string, f func(topic string, key K, value V, partitions int32) int32) Partitioner[K, V] {
	return Partitioner[K, V]{name: name, f: f}
}

// Name returns the name of the partitioner.
func (p Partitioner[K, V]) Name() string { return p.name }

func (p Partitioner[K, V]) check() error {
	if err := graph.CheckName(p.name); err != nil && !p.internal {
		return fmt.Errorf("name of the partitioner: %w", err)
	}
	if p.f == nil {
		return fmt.Errorf("partitioner %s: %w", p.name, errNilFunc)
	}
	return nil
}

func (p Partitioner[K, V]) applyRepartition(ref *topicRef) error {
	ref.chooser, ref.partitioner = p, p.name
	return p.check()
}

// PartitionedBy returns t with the partitioner of its records. A sink that writes the topic uses
// it. A stream that is read from the topic is not partitioned by its keys. So an operator that
// keeps state by key needs [Stream.Repartition] before it, or [Stream.Copartitioned] if p uses the
// key alone. A table cannot be read from such a topic, or be written to it.
//
// All sources and sinks of one topology have the same partitioner for one topic.
func (t TopicOf[K, V]) PartitionedBy(p Partitioner[K, V]) TopicOf[K, V] {
	t.partitioner = &p
	return t
}

// Partition returns the partition to which a sink writes a record, of that number of partitions:
// for producers of the topic and for tests. It is [ByKey] where Kafka's default partitioner
// decides, by the bytes of the key. The error says that the partitioner chose none of the
// partitions.
func (t TopicOf[K, V]) Partition(key K, value V, partitions int32) (int32, error) {
	if t.partitioner == nil {
		return ByKey, nil
	}
	if err := t.partitioner.check(); err != nil {
		return 0, err
	}
	partition := t.partitioner.f(t.name, key, value, partitions)
	if partition < ByKey || partition >= partitions {
		return 0, errChosenPartition
	}
	return partition, nil
}

// partitionedBy returns the name of the partitioner, empty for Kafka's default one, and what is
// wrong with it.
func (t TopicOf[K, V]) partitionedBy() (name string, err error) {
	if t.partitioner == nil {
		return "", nil
	}
	return t.partitioner.name, t.partitioner.check()
}

// redirect sends the last output to the partition that p chooses for its record.
func redirect[K, V any](g *Graph, n *node, s *sink, p *Partitioner[K, V], r *Record[K, V]) error {
	caller := g.node
	g.node = n
	partition := p.f(s.topic, r.Key, r.Value, s.partitions)
	switch {
	case partition >= 0 && partition < s.partitions:
		g.outputs[len(g.outputs)-1].Partition = partition
	case p.internal:
		return g.failOutput(n, Fail(Corruption, errNoPartition))
	case partition != ByKey:
		return g.failOutput(n, Fail(Validation, errChosenPartition))
	}
	g.node = caller
	return nil
}

// partitionedClause is what a source or a sink of a topic with a partitioner says for the consumer
// contract.
func partitionedClause(name string) string {
	return "a record is in the partition that the partitioner " + name + " chooses, and not in that of its key"
}

// notByKey notes that the records of s are not in the partitions of their keys, if its source has a
// partitioner.
func (s Stream[K, V]) notByKey() Stream[K, V] {
	if s.port.node.topic.partitioner != "" {
		s.rekeyed = s.port.node
	}
	return s
}

var errTablePartitions = errors.New("the topic has a partitioner, and a table needs Kafka's default partitioner; " +
	"use Stream and Into for the changes as records, or send the stream through Repartition before it becomes a table")

// checkTableTopic notes a mistake if a table is read from a topic with a partitioner, or written to
// one.
func checkTableTopic[K, V any](b *Builder, pos position, name string, t TopicOf[K, V]) {
	if t.partitioner != nil {
		b.mistakeAt(pos, name, errTablePartitions)
	}
}

// checkPartitioners looks for topics that have two partitioners.
func (b *Builder) checkPartitioners() {
	first := map[string]*node{}
	for _, n := range b.nodes {
		if n.kind == processorNode || n.topic.pattern != nil {
			continue
		}
		topic := n.topic.local()
		switch other, ok := first[topic]; {
		case !ok:
			first[topic] = n
		case other.topic.partitioner != n.topic.partitioner:
			b.mistakeAt(n.pos, n.name, fmt.Errorf("topic %s has %s here and %s in node %s (%s:%d); one topic has one partitioner",
				topic, n.topic.partitionerText(), other.topic.partitionerText(), other.name, other.pos.file, other.pos.line))
		}
	}
}

func (t topicRef) partitionerText() string {
	if t.partitioner == "" {
		return "Kafka's partitioner"
	}
	return "the partitioner " + t.partitioner
}
