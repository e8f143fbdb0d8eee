package topology

import "fmt"

// Copartitioned returns s with the promise that all records of one key are in one partition, although an
// operator before it may have changed the key: because it has kept the key, or because the new one is a part
// of the old one by which the topic is partitioned. Where state is kept by key, Build believes it. Where it
// is not true, a key has its state in several tasks, each with a part of its records.
//
// Write [Repartition] if in doubt.
func (s Stream[K, V]) Copartitioned() Stream[K, V] {
	s.builder("Copartitioned")
	s.rekeyed = nil
	return s
}

// rekeys notes that the operator of s may have changed the key.
func (s Stream[K, V]) rekeys() Stream[K, V] {
	s.rekeyed = s.port.node
	return s
}

// checkKeyed notes a mistake if n keeps state by a key that may be in several partitions. Kafka Streams sends
// such a stream through a topic of its own by itself; here the topic has a name, which only the user can give.
func (s Stream[K, V]) checkKeyed(n *node) {
	if by := s.rekeyed; by != nil {
		s.b.mistakeAt(n.pos, n.name, fmt.Errorf("the key may have been changed by node %s (%s:%d), so that the "+
			"records of one key are in several tasks; put Repartition before it, or Copartitioned if they are not",
			by.name, by.pos.file, by.pos.line))
	}
}
