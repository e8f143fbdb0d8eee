package topology

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/topology/graph"
)

// DedupeWindow declares the dedupe window of the node: it recognises records for retention of
// stream time. It returns n. tolerated accepts source topics that keep records for longer; see
// [Topology.DedupeWindows].
func (n *Node[K, V]) DedupeWindow(retention time.Duration, tolerated bool) *Node[K, V] {
	switch {
	case n.b.closed:
		n.b.mistakeAt(caller(), n.node.name, errClosed)
	case retention <= 0:
		n.Mistake(fmt.Errorf("DedupeWindow(%s): the retention must be positive", retention))
	case n.node.dedupeWindow != nil:
		n.Mistake(errors.New("DedupeWindow is called twice"))
	default:
		n.node.dedupeWindow = &graph.DedupeWindow{Node: n.node.name, Retention: retention, Tolerated: tolerated}
	}
	return n
}

// DedupeWindows returns what nodes have declared with [Node.DedupeWindow], sorted by node. The
// caller may change the result.
func (t *Topology) DedupeWindows() []graph.DedupeWindow {
	var windows []graph.DedupeWindow
	for _, s := range t.subtopologies {
		for _, n := range s.nodes {
			if n.dedupeWindow != nil {
				w := *n.dedupeWindow
				w.Topics = t.origins(n)
				windows = append(windows, w)
			}
		}
	}
	slices.SortFunc(windows, func(a, b graph.DedupeWindow) int { return strings.Compare(a.Node, b.Node) })
	return windows
}

// origins returns the external source topics upstream of n, also through repartition topics.
func (t *Topology) origins(n *node) []string {
	var topics []string
	visited := map[*node]bool{}
	var walk func(n *node)
	walk = func(n *node) {
		if visited[n] {
			return
		}
		visited[n] = true
		for _, p := range n.parents {
			walk(p.node)
		}
		switch {
		case n.kind != sourceNode:
		case n.topic.pattern != nil:
			for topic, s := range t.matched {
				if s.pattern() == n {
					topics = append(topics, topic)
				}
			}
		case !n.topic.repartition:
			topics = append(topics, n.topic.name)
		default:
			for _, s := range t.subtopologies {
				for _, sink := range s.nodes {
					if sink.kind == sinkNode && sink.topic.repartition && sink.topic.name == n.topic.name {
						walk(sink)
					}
				}
			}
		}
	}
	walk(n)
	slices.Sort(topics)
	return slices.Compact(topics)
}
