package graph

import (
	"cmp"
	"fmt"
	"strings"
)

// Pictures show topics, the processors between them, and stores. A source and a sink are drawn as
// the topic that they read or write. So records that go through a topic are one line, also from one
// subtopology to another. The dead-letter topic is left out, because every node leads there.

// Mermaid returns d as a flow chart for Mermaid, which GitHub and GitLab draw in Markdown. Topics
// and global tables lie outside of the subtopologies, and stores inside. Internal topics and the
// lines from nodes to stores are dashed. Equal topologies have equal pictures.
func (d Description) Mermaid() string {
	p := d.picture()
	var s strings.Builder
	s.WriteString("flowchart LR\n")
	for _, topic := range p.topics {
		// A pattern can have the quotes that end a text.
		fmt.Fprintf(&s, "  %s([\"%s\"])\n", mermaidID("t", topic.name), strings.ReplaceAll(topic.name, `"`, "#quot;"))
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
	for _, name := range p.globals {
		fmt.Fprintf(&s, "  %s[(\"%s\")]\n", mermaidID("d", name), name)
	}
	for _, e := range p.edges {
		from, to := mermaidID(e.from.kind, e.from.name), mermaidID(e.to.kind, e.to.name)
		switch {
		case e.to.kind == storeShape && e.from.kind != topicShape:
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

// mermaidID returns an identifier for a shape. It keeps ASCII digits and the characters from A to Z
// and from a to z. Other bytes of a name are replaced by their codes, so that two names stay two.
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

// DOT returns d as a graph for Graphviz, with the same picture as [Description.Mermaid].
func (d Description) DOT() string {
	p := d.picture()
	var s strings.Builder
	fmt.Fprintf(&s, "digraph %q {\n  rankdir=LR\n  node [shape=box]\n", d.Name)
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
	for _, name := range p.globals {
		fmt.Fprintf(&s, "  %q [label=%q, shape=cylinder]\n", "d "+name, name)
	}
	for _, e := range p.edges {
		attributes := ""
		switch {
		case e.to.kind == storeShape && e.from.kind != topicShape:
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
	// globals are the stores of global tables, which are in no subtopology.
	globals []string
	edges   []pictureEdge
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

// picture returns the picture of d. Internal topics stand in it without the application id, as in
// topology.Topology.Describe.
func (d Description) picture() picture {
	internal := map[string]bool{}
	for _, topic := range d.InternalTopics {
		internal[topic] = true
	}
	local := func(topic string) string {
		if internal[topic] {
			return strings.TrimPrefix(topic, d.Application+"-")
		}
		return topic
	}
	shapeOf := func(n NodeDescription) shape {
		if n.Kind == ProcessorKind {
			return shape{nodeShape, n.Name}
		}
		return shape{topicShape, cmp.Or(local(n.Topic), n.Pattern)}
	}
	var p picture
	seen := map[string]bool{}
	for _, sub := range d.Subtopologies {
		drawn := pictureSubtopology{name: sub.Name}
		shapes := map[string]shape{}
		for _, n := range sub.Nodes {
			shapes[n.Name] = shapeOf(n)
		}
		for _, n := range sub.Nodes {
			if n.Kind == ProcessorKind {
				drawn.processors = append(drawn.processors, n.Name)
			} else if name := shapeOf(n).name; !seen[name] {
				seen[name] = true
				p.topics = append(p.topics, pictureTopic{name: name, internal: internal[n.Topic]})
			}
			for _, store := range n.Stores {
				p.edges = append(p.edges, pictureEdge{from: shapeOf(n), to: shape{storeShape, store}})
			}
			for _, store := range n.GlobalTables {
				p.edges = append(p.edges, pictureEdge{from: shapeOf(n), to: shape{storeShape, store}})
			}
			for _, e := range n.Next {
				p.edges = append(p.edges, pictureEdge{from: shapeOf(n), to: shapes[e.To], label: e.Outlet})
			}
		}
		for _, store := range sub.Stores {
			drawn.stores = append(drawn.stores, store.Name)
		}
		if len(drawn.processors)+len(drawn.stores) > 0 { // an empty frame is not drawn
			p.subtopologies = append(p.subtopologies, drawn)
		}
	}
	for _, t := range d.GlobalTables {
		if !seen[t.Topic] {
			seen[t.Topic] = true
			p.topics = append(p.topics, pictureTopic{name: t.Topic})
		}
		p.globals = append(p.globals, t.Store)
		p.edges = append(p.edges, pictureEdge{from: shape{topicShape, t.Topic}, to: shape{storeShape, t.Store}})
	}
	return p
}
