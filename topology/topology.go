package topology

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/onceward/onceward/topology/graph"
)

// Topology is a validated graph of nodes: what to compute, for any number of tasks and runtimes. It
// never changes and is safe for concurrent use.
type Topology struct {
	name        string
	pos         position
	application string
	deadLetters string
	stacks      bool
	policies    [classes]Policy
	// subtopologies are sorted by name, globals by the names of their stores.
	subtopologies []*subtopology
	globals       []*globalTable
	fingerprint   string
	// matched are the topics that the sources by pattern read, with their subtopologies.
	matched map[string]*subtopology
}

// Name returns the name given to [NewBuilder].
func (t *Topology) Name() string { return t.name }

// Application returns the application id: the name of the topology unless WithApplication has
// changed it.
func (t *Topology) Application() string { return t.application }

// WithApplication returns the topology under another application id, and so with other names for
// its internal topics. Two applications share nothing: that is how a next version runs beside the
// old one.
func (t *Topology) WithApplication(id string) (*Topology, error) {
	other := *t
	other.application = id
	if err := graph.CheckName(id); err != nil {
		return nil, fmt.Errorf("topology %s: application id: %w", t.name, err)
	}
	var errs []error
	for _, m := range other.checkInternalNames() {
		errs = append(errs, m)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("topology %s as application %s: %w", t.name, id, err)
	}
	return &other, nil
}

// DeadLetterTopic returns the topic for dead letters, empty if there is none.
func (t *Topology) DeadLetterTopic() string { return t.deadLetters }

// Subtopologies returns the subtopologies, sorted by name. That of a source by pattern is there
// once for each topic that [Topology.WithTopics] has given it, under the name of the topic. The
// caller may change the result.
func (t *Topology) Subtopologies() []graph.Subtopology {
	subs := make([]graph.Subtopology, 0, len(t.subtopologies)+len(t.matched))
	for _, s := range t.subtopologies {
		if s.pattern() == nil {
			subs = append(subs, t.subtopologyOf(s, ""))
		}
	}
	for topic, s := range t.matched {
		subs = append(subs, t.subtopologyOf(s, topic))
	}
	slices.SortFunc(subs, func(a, b graph.Subtopology) int { return strings.Compare(a.Name, b.Name) })
	return subs
}

// subtopologyOf describes a subtopology. matched is the topic of a source by pattern, empty for all
// of them.
func (t *Topology) subtopologyOf(s *subtopology, matched string) graph.Subtopology {
	sub := graph.Subtopology{Name: cmp.Or(matched, s.name), Sinks: t.sinkTopics(s)}
	for _, n := range s.sources {
		src := graph.Source{
			Topic:       n.topic.on(t.application),
			Repartition: n.topic.repartition,
			Delay:       n.delay,
			Start:       n.start,
			KeyFormat:   n.topic.formats.key,
			ValueFormat: n.topic.formats.value,
			Partitioner: n.topic.partitioner,
		}
		ref := n.topic
		if ref.pattern != nil {
			src.Pattern, src.Topic, ref.name = ref.pattern.expression, matched, matched
		}
		if changelog := t.changelog(ref.parkStore()); n.of == nil && src.Topic != "" && checkInternalLength(changelog) == nil {
			src.ParkStore, src.ParkChangelog = ref.parkStore(), changelog
		}
		sub.Sources = append(sub.Sources, src)
	}
	slices.SortFunc(sub.Sources, func(a, b graph.Source) int { return strings.Compare(a.Topic, b.Topic) })
	for _, store := range s.stores {
		sub.Stores = append(sub.Stores, graph.StoreInfo{
			Name:           store.name,
			ChangelogTopic: t.changelogOf(s, store),
			RestoredFrom:   t.restoredFrom(s, store.name),
			FromSource:     s.rowsOf(store.name),
			InMemory:       store.inMemory,
			LostOnRestart:  store.lost,
			Layout:         store.layout,
			KeyFormat:      store.formats.key,
			ValueFormat:    store.formats.value,
		})
	}
	return sub
}

func (t *Topology) changelog(store string) string { return graph.ChangelogTopic(t.application, store) }

// SinkTopics returns the topics that sinks, repartitionings and delayed retries write to. A topic
// that several subtopologies write to appears several times. The sinks behind a source by pattern
// are included, also where the pattern matches no topic.
func (t *Topology) SinkTopics() (topics []string) {
	for _, s := range t.subtopologies {
		topics = append(topics, t.sinkTopics(s)...)
	}
	return topics
}

func (t *Topology) sinkTopics(s *subtopology) []string {
	var topics []string
	for _, n := range s.nodes {
		if n.kind == sinkNode || n.of != nil {
			topics = append(topics, n.topic.on(t.application))
		}
	}
	slices.Sort(topics)
	return slices.Compact(topics)
}

// InternalTopics returns the changelogs and repartition topics, sorted. The topic of the rounds,
// which belongs to the runtime, is not among them.
func (t *Topology) InternalTopics() []string {
	var topics []string
	for _, s := range t.subtopologies {
		for _, store := range s.stores {
			if changelog := t.changelogOf(s, store); changelog != "" {
				topics = append(topics, changelog)
			}
		}
		for _, n := range s.sources {
			if n.topic.repartition {
				topics = append(topics, n.topic.on(t.application))
			}
		}
	}
	slices.Sort(topics)
	return topics
}

// Topics returns the topics that are not internal, sorted: sources, sinks, global tables and the
// dead-letter topic. They have to exist before the topology runs. Of the topics of patterns, those
// of [Topology.WithTopics] are among them.
func (t *Topology) Topics() []string {
	topics := t.Matched()
	if t.deadLetters != "" {
		topics = append(topics, t.deadLetters)
	}
	for _, g := range t.globals {
		topics = append(topics, g.topic)
	}
	for _, s := range t.subtopologies {
		for _, n := range s.nodes {
			if n.kind != processorNode && !n.topic.repartition && n.topic.pattern == nil {
				topics = append(topics, n.topic.name)
			}
		}
	}
	slices.Sort(topics)
	return slices.Compact(topics)
}

func (t *Topology) subtopology(name string) (*subtopology, bool) {
	for _, s := range t.subtopologies {
		if s.name == name && s.pattern() == nil {
			return s, true
		}
	}
	s, ok := t.matched[name]
	return s, ok
}
