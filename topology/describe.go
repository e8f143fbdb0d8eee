package topology

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/onceward/onceward/topology/graph"
)

// Describe returns the topology as text, in the grammar of Kafka Streams' Topology.describe, so
// that tools for those descriptions can draw it. Equal topologies have equal descriptions, whatever
// the order of the declarations. Internal topics appear without the application id.
func (t *Topology) Describe() string {
	var s strings.Builder
	s.WriteString("Topologies:\n")
	for _, sub := range t.subtopologies {
		fmt.Fprintf(&s, "   Sub-topology: %s\n", sub.name)
		for _, n := range sub.nodes {
			switch n.kind {
			case sourceNode:
				topics := "[" + n.topic.local() + "]"
				if n.topic.pattern != nil {
					topics = n.topic.pattern.expression
				}
				fmt.Fprintf(&s, "    Source: %s (topics: %s)\n", n.name, topics)
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
	for _, g := range t.globals {
		fmt.Fprintf(&s, "   Sub-topology: %s for global store (will not generate tasks)\n", g.topic)
		fmt.Fprintf(&s, "    Source: %s (topics: [%s])\n      --> %s\n", g.topic+graph.SourceSuffix, g.topic, g.store.name)
		fmt.Fprintf(&s, "    Processor: %s (stores: [%s])\n      --> none\n      <-- %s\n\n",
			g.store.name, g.store.name, g.topic+graph.SourceSuffix)
	}
	return s.String()
}

func namesOrNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// Description returns the parts of t. Like [Topology.Describe] it does not depend on the order of
// the declarations. Topics have their names on the cluster, which Describe does not print. The
// caller may change the result.
func (t *Topology) Description() graph.Description {
	declared := *t
	declared.matched = nil // the topics of patterns come and go
	t = &declared
	d := graph.Description{
		Name: t.name, Application: t.application, Fingerprint: t.fingerprint, DeadLetterTopic: t.deadLetters,
		// Empty lists and not nil, so that programs find no null.
		Topics: append([]string{}, t.Topics()...), InternalTopics: append([]string{}, t.InternalTopics()...),
		Subtopologies: []graph.SubtopologyDescription{},
	}
	for _, declared := range t.subtopologies {
		sub := t.subtopologyOf(declared, "")
		s := graph.SubtopologyDescription{
			Name: sub.Name, Sources: []graph.SourceDescription{}, Stores: []graph.StoreDescription{}, Sinks: append([]string{}, sub.Sinks...),
			Nodes: []graph.NodeDescription{},
		}
		for _, source := range sub.Sources {
			s.Sources = append(s.Sources, graph.SourceDescription{
				Topic: source.Topic, Repartition: source.Repartition, Start: source.Start.String(),
				KeyFormat: source.KeyFormat, ValueFormat: source.ValueFormat, Partitioner: source.Partitioner, Pattern: source.Pattern,
			})
		}
		for _, store := range sub.Stores {
			s.Stores = append(s.Stores, graph.StoreDescription{
				Name: store.Name, Layout: store.Layout.String(), ChangelogTopic: store.ChangelogTopic,
				RestoredFrom: store.RestoredFrom, InMemory: store.InMemory, LostOnRestart: store.LostOnRestart,
				KeyFormat: store.KeyFormat, ValueFormat: store.ValueFormat,
			})
		}
		for _, n := range declared.nodes {
			s.Nodes = append(s.Nodes, n.describe(t.application))
		}
		d.Subtopologies = append(d.Subtopologies, s)
	}
	for _, g := range t.globals {
		d.GlobalTables = append(d.GlobalTables, graph.GlobalTableDescription{
			Store: g.store.name, Topic: g.topic, Layout: g.store.layout.String(),
			KeyFormat: g.store.formats.key, ValueFormat: g.store.formats.value,
			TopicKeyFormat: g.formats.key, TopicValueFormat: g.formats.value,
		})
	}
	return d
}

func (n *node) describe(application string) graph.NodeDescription {
	d := graph.NodeDescription{
		Name: n.name, Kind: strings.ToLower(n.kind.String()), Stores: n.storeNames(), GlobalTables: n.globalNames(),
		Windows: n.windows, Suppression: n.suppression, Grace: n.grace,
	}
	if n.kind != processorNode {
		if n.topic.pattern != nil {
			d.Pattern = n.topic.pattern.expression
		} else {
			d.Topic = n.topic.on(application)
		}
		d.KeyFormat, d.ValueFormat = n.topic.formats.key, n.topic.formats.value
		d.Partitioner = n.topic.partitioner
	}
	for _, o := range n.outlets {
		for _, child := range o.children {
			d.Next = append(d.Next, graph.EdgeDescription{Outlet: o.name, To: child.name})
		}
	}
	slices.SortFunc(d.Next, func(a, b graph.EdgeDescription) int {
		return cmp.Or(strings.Compare(a.Outlet, b.Outlet), strings.Compare(a.To, b.To))
	})
	return d
}
