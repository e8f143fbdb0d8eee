package topology

import "fmt"

// Copartitioned returns s with the promise of the program that all records of one key are in one
// partition, although an earlier operator may have changed the key. This holds if the operator kept
// the key, or if the new key is the part of the old one that decides the partition. Operators that
// keep state by key rely on it. If it is false, several tasks have state of one key, each from a
// part of its records.
//
// Write [Stream.Repartition] if in doubt.
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

// Keyed says that n keeps state by the key of its records, and returns n. Build then refuses a
// stream whose key an operator may have changed, as it does for tables and aggregations; see
// [Stream.Copartitioned].
func (n *Node[K, V]) Keyed() *Node[K, V] {
	n.b.checkKeyed(n.node, n.input)
	return n
}

// Rekeys says that n emits records under other keys than those by which they are partitioned, and
// returns n. Without it, Build assumes that the outlets of a node have the keys of its input
// stream. Call it before the first outlet is used.
func (n *Node[K, V]) Rekeys() *Node[K, V] {
	n.node.rekeyed = n.node
	return n
}

// checkKeyed reports a mistake if n keeps state by a key that may be in several partitions, because
// the node by (if not nil) has changed it. Kafka Streams repartitions such a stream by itself. Here
// the internal topic needs a name from the user.
func (b *Builder) checkKeyed(n, by *node) {
	if by != nil {
		b.mistakeAt(n.pos, n.name, fmt.Errorf("the key may have been changed by node %s (%s:%d), so that the "+
			"records of one key are in several tasks; put Repartition before it, or Copartitioned if they are not",
			by.name, by.pos.file, by.pos.line))
	}
}
