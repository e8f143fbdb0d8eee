package topology

import (
	"errors"
	"fmt"
	"slices"
)

// Feedback declares that the topology reads what the sink writes, through a topic that is also a
// source. Without Feedback such a sink is a mistake: the records would go round for ever. The
// program has to end the loop, for example with a filter or a growing count. In a loop of several
// topics one sink needs Feedback.
func Feedback() NodeOption { return feedback{} }

type feedback struct{}

func (feedback) applyNode(b *Builder, n *node) {
	if n.kind != sinkNode || n.topic.repartition {
		b.mistakeAt(n.pos, n.name, errors.New("Feedback is an option of sinks"))
		return
	}
	n.feedback = true
}

// checkFeedback looks for sinks whose records come back to them.
func (b *Builder) checkFeedback() {
	sources, sinks := map[string]*node{}, map[string][]*node{}
	for _, n := range b.nodes {
		switch topic := n.topic.local(); n.kind {
		case sourceNode:
			if n.topic.pattern == nil { // checkPatterns refuses its own output
				sources[topic] = n
			}
		case sinkNode:
			sinks[topic] = append(sinks[topic], n)
		default:
		}
	}
	for _, n := range b.nodes {
		if n.kind != sinkNode || n.topic.repartition {
			continue
		}
		switch source := sources[n.topic.local()]; {
		case source == nil && n.feedback:
			b.mistakeAt(n.pos, n.name, fmt.Errorf("the topology does not read %s, so nothing comes back; leave Feedback out", n.topic.name))
		case source != nil && !n.feedback && n.follows(source, sinks, map[*node]bool{}):
			b.mistakeAt(n.pos, n.name, fmt.Errorf("what is written to %s comes back through %s (%s:%d), for ever; write to another topic, or state "+
				"with Feedback that something ends it", n.topic.name, source.name, source.pos.file, source.pos.line))
		}
	}
}

// follows reports whether records of source come to n, also through topics. A sink that states its
// feedback passes nothing on.
func (n *node) follows(source *node, sinks map[string][]*node, seen map[*node]bool) bool {
	if n == source {
		return true
	}
	if seen[n] {
		return false
	}
	seen[n] = true
	for _, o := range n.parents {
		if o.node.follows(source, sinks, seen) {
			return true
		}
	}
	if n.kind != sourceNode {
		return false
	}
	return slices.ContainsFunc(sinks[n.topic.local()], func(sink *node) bool {
		return !sink.feedback && sink.follows(source, sinks, seen)
	})
}
