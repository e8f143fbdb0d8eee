package topology

import (
	"fmt"
	"strings"
)

// Describe returns the topology as text, in the grammar of Kafka Streams' Topology.describe, so that tools
// which draw those can draw this. Equal topologies have equal descriptions, in whatever order their parts
// were declared; internal topics stand there without the application id.
func (t *Topology) Describe() string {
	var s strings.Builder
	s.WriteString("Topologies:\n")
	for _, sub := range t.subtopologies {
		fmt.Fprintf(&s, "   Sub-topology: %s\n", sub.name)
		for _, n := range sub.nodes {
			switch n.kind {
			case sourceNode:
				fmt.Fprintf(&s, "    Source: %s (topics: [%s])\n", n.name, n.topic.local())
			case processorNode:
				stores := strings.Join(n.storeNames(), ", ")
				fmt.Fprintf(&s, "    Processor: %s (stores: [%s])\n", n.name, stores)
			case sinkNode:
				fmt.Fprintf(&s, "    Sink: %s (topic: %s)\n", n.name, n.topic.local())
			}
			if n.kind != sinkNode {
				fmt.Fprintf(&s, "      --> %s\n", namesOrNone(n.childNames()))
			}
			if n.kind != sourceNode {
				fmt.Fprintf(&s, "      <-- %s\n", namesOrNone(n.parentNames()))
			}
		}
		s.WriteString("\n")
	}
	return s.String()
}

func namesOrNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
