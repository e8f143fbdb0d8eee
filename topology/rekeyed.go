package topology

import "fmt"

// Copartitioned returns s with the promise that all records of one key are in one partition,
// although an operator before it may have changed the key. There are three reasons for the promise:
//
//   - the operator has kept the key,
//   - the new key is the part of the old one by which the topic is partitioned,
//   - the [Partitioner] of the topic uses the key alone.
//
// Build believes the promise where state is kept by key. If it is wrong, a key has its state in
// several tasks, each with a part of its records.
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

// Copartitioned returns n with the promise that what leaves n by any outlet is in the partition of
// its key, as long as what n gets is. Without it, what leaves by an [Outlet] counts as rekeyed,
// since the node can emit under any key. Build believes the promise, as that of
// [Stream.Copartitioned]. It goes before the first outlet is used. A [FixedKeyOutlet] needs no
// promise.
func (n *Node[K, V]) Copartitioned() *Node[K, V] {
	n.node.rekeyed = n.input
	return n
}

// checkKeyed reports a mistake if n keeps state by a key that may be in several partitions, because
// the node by (if not nil) has changed it. Kafka Streams repartitions such a stream by itself. Here
// the internal topic needs a name from the user.
func (b *Builder) checkKeyed(n, by *node) {
	switch {
	case by == nil:
	case by.kind == sourceNode:
		b.mistakeAt(n.pos, n.name, fmt.Errorf("the records of %s (%s:%d) are partitioned by the partitioner %s, so that the records of one "+
			"key may be in several tasks; put Repartition before it, or Copartitioned if they are not",
			by.topic.local(), by.pos.file, by.pos.line, by.topic.partitioner))
	default:
		b.mistakeAt(n.pos, n.name, fmt.Errorf("the key may have been changed by node %s (%s:%d), so that the "+
			"records of one key are in several tasks; put Repartition before it, or Copartitioned if they are not",
			by.name, by.pos.file, by.pos.line))
	}
}
