package topology

import (
	"errors"
	"fmt"
)

// DeadEnd declares that the node fails every record, so that each becomes a dead letter, and
// returns n. It changes nothing else, the fingerprint included; see [OutletOf.NoDeadEnd].
func (n *Node[K, V]) DeadEnd() *Node[K, V] {
	if n.b.closed {
		n.b.mistakeAt(caller(), n.node.name, errClosed)
		return n
	}
	n.node.deadEnd = true
	return n
}

// NoDeadEnd declares that records of this outlet cannot become dead letters, and why: the node
// processes them beside the record at work, or in a punctuation ([Context.Try], [Resume]). Build
// reports a path from the outlet to a [Node.DeadEnd] as a mistake. A path through a repartition
// topic is allowed: a record that is read there is the record at work.
func (o OutletOf[K, V]) NoDeadEnd(why string) {
	switch {
	case o.port == nil:
	case o.b.closed:
		o.b.mistakeAt(caller(), o.port.node.name, errClosed)
	case why == "":
		o.b.mistakeAt(caller(), o.port.node.name, errors.New("NoDeadEnd: the reason is empty"))
	default:
		o.port.noDeadEnd = why
	}
}

// checkDeadEnds looks for ways on which records would be refused, every one of them and for ever.
func (b *Builder) checkDeadEnds() {
	for _, n := range b.nodes {
		for _, o := range n.outlets {
			if o.noDeadEnd == "" {
				continue
			}
			for _, end := range o.deadEnds() {
				b.mistakeAt(end.pos, end.name, fmt.Errorf("it makes dead letters, and records of the outlet %s of node %s (%s:%d) "+
					"come to it: %s", o.name, n.name, n.pos.file, n.pos.line, o.noDeadEnd))
			}
		}
	}
}

// deadEnds returns the dead ends to which a record can come from o, the nearest first.
func (o *outlet) deadEnds() (ends []*node) {
	met := map[*node]bool{}
	for ahead := []*outlet{o}; len(ahead) > 0; ahead = ahead[1:] {
		for _, child := range ahead[0].children {
			if met[child] {
				continue
			}
			met[child] = true
			if child.deadEnd {
				ends = append(ends, child)
			}
			ahead = append(ahead, child.outlets...)
		}
	}
	return ends
}
