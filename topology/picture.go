package topology

import (
	"fmt"
	"strings"
)

// The pictures show what people think of: topics, the processors between them, and stores. A source and a sink are the topic that they read
// or write, so that what goes through a topic is one line from end to end, also from one subtopology to another; [Topology.Describe] has
// every node. The dead-letter topic is left out, because every node leads there.

// Mermaid returns t as a flow chart for Mermaid, which GitHub and GitLab draw in Markdown. Topics lie outside of the subtopologies, stores
// inside; internal topics and the way to a store are dashed. Equal topologies have equal pictures.
func (t *Topology) Mermaid() string {
	p := t.picture()
	var s strings.Builder
	s.WriteString("flowchart LR\n")
	for _, topic := range p.topics {
		fmt.Fprintf(&s, "  %s([\"%s\"])\n", mermaidID("t", topic.name), topic.name)
	}
	for _, sub := range p.subtopologies {
		fmt.Fprintf(&s, "  subgraph %s[\"%s\"]\n", mermaidID("s", sub.name), sub.name)
		for _, name := range sub.processors {
			fmt.Fprintf(&s, "    %s[\"%s\"]\n", mermaidID("n", name), name)
		}
		for _, name := range sub.stores {
			fmt.Fprintf(&s, "    %s[(\"%s\")]\n", mermaidID("d", name), name)
		}
		s.WriteString("  end\n")
	}
	for _, e := range p.edges {
		from, to := mermaidID(e.from.kind, e.from.name), mermaidID(e.to.kind, e.to.name)
		switch {
		case e.to.kind == storeShape:
			fmt.Fprintf(&s, "  %s -.- %s\n", from, to)
		case e.label != "":
			fmt.Fprintf(&s, "  %s -- \"%s\" --> %s\n", from, e.label, to)
		default:
			fmt.Fprintf(&s, "  %s --> %s\n", from, to)
		}
	}
	var internal []string
	for _, topic := range p.topics {
		if topic.internal {
			internal = append(internal, mermaidID("t", topic.name))
		}
	}
	if len(internal) > 0 {
		fmt.Fprintf(&s, "  classDef internal stroke-dasharray: 4 4\n  class %s internal\n", strings.Join(internal, ","))
	}
	return s.String()
}

// mermaidID returns an identifier for something of a kind. Mermaid takes letters, digits and underscores; what else is in a name is
// replaced by its code, so that two names stay two.
func mermaidID(kind, name string) string {
	var s strings.Builder
	s.WriteString(kind + "_")
	for _, b := range []byte(name) {
		if b >= '0' && b <= '9' || b >= 'A' && b <= 'Z' || b >= 'a' && b <= 'z' {
			s.WriteByte(b)
		} else {
			fmt.Fprintf(&s, "_%02x", b)
		}
	}
	return s.String()
}

// DOT returns t as a graph for Graphviz, with the same picture as [Topology.Mermaid].
func (t *Topology) DOT() string {
	p := t.picture()
	var s strings.Builder
	fmt.Fprintf(&s, "digraph %q {\n  rankdir=LR\n  node [shape=box]\n", t.name)
	for _, topic := range p.topics {
		style := ""
		if topic.internal {
			style = ", style=dashed"
		}
		fmt.Fprintf(&s, "  %q [label=%q, shape=cds%s]\n", "t "+topic.name, topic.name, style)
	}
	for _, sub := range p.subtopologies {
		fmt.Fprintf(&s, "  subgraph %q {\n    label=%q\n", "cluster "+sub.name, sub.name)
		for _, name := range sub.processors {
			fmt.Fprintf(&s, "    %q [label=%q]\n", "n "+name, name)
		}
		for _, name := range sub.stores {
			fmt.Fprintf(&s, "    %q [label=%q, shape=cylinder]\n", "d "+name, name)
		}
		s.WriteString("  }\n")
	}
	for _, e := range p.edges {
		attributes := ""
		switch {
		case e.to.kind == storeShape:
			attributes = " [dir=none, style=dashed]"
		case e.label != "":
			attributes = fmt.Sprintf(" [label=%q]", e.label)
		}
		fmt.Fprintf(&s, "  %q -> %q%s\n", e.from.kind+" "+e.from.name, e.to.kind+" "+e.to.name, attributes)
	}
	s.WriteString("}\n")
	return s.String()
}

// The kinds of shapes. Names are unique within one.
const (
	topicShape = "t"
	nodeShape  = "n"
	storeShape = "d"
)

type shape struct{ kind, name string }

// picture is what the pictures have in common.
type picture struct {
	// topics are those that sources read and sinks write, in the order in which they are first met.
	topics        []pictureTopic
	subtopologies []pictureSubtopology
	edges         []pictureEdge
}

type pictureTopic struct {
	name     string
	internal bool
}

type pictureSubtopology struct {
	name               string
	processors, stores []string
}

type pictureEdge struct {
	from, to shape
	label    string
}

// picture takes the topology as it was built: internal topics stand without the application id, as in Describe.
func (t *Topology) picture() picture {
	var p picture
	seen := map[string]bool{}
	for _, sub := range t.subtopologies {
		drawn := pictureSubtopology{name: sub.name}
		for _, n := range sub.nodes {
			if n.kind == processorNode {
				drawn.processors = append(drawn.processors, n.name)
			} else if name := n.topic.local(); !seen[name] {
				seen[name] = true
				p.topics = append(p.topics, pictureTopic{name: name, internal: n.topic.repartition})
			}
			p.edges = append(p.edges, n.edges()...)
		}
		for _, store := range sub.stores {
			drawn.stores = append(drawn.stores, store.name)
		}
		if len(drawn.processors)+len(drawn.stores) > 0 { // a frame around nothing is not drawn
			p.subtopologies = append(p.subtopologies, drawn)
		}
	}
	return p
}

// edges returns the lines that begin at n. A sink has none: the lines to it end at its topic.
func (n *node) edges() []pictureEdge {
	var edges []pictureEdge
	for _, store := range n.storeNames() {
		edges = append(edges, pictureEdge{from: n.shape(), to: shape{storeShape, store}})
	}
	shapes := map[string]shape{}
	for _, o := range n.outlets {
		for _, child := range o.children {
			shapes[child.name] = child.shape()
		}
	}
	for _, e := range n.describe("").Next {
		edges = append(edges, pictureEdge{from: n.shape(), to: shapes[e.To], label: e.Outlet})
	}
	return edges
}

func (n *node) shape() shape {
	if n.kind == processorNode {
		return shape{nodeShape, n.name}
	}
	return shape{topicShape, n.topic.local()}
}
