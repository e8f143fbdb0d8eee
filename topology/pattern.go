package topology

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology/graph"
)

// FromPattern returns the stream of the records of all topics whose whole names match a regular
// expression, in the syntax of package regexp. Topics that are created while the topology runs are
// found within seconds, and read from their first records.
//
// Each topic is a subtopology of its own, named after the topic: its tasks are the partitions of
// the topic, and its commits name no other topic. So the topics may have different numbers of
// partitions, and one that is deleted stops its own tasks only. Operators without state follow
// directly. An operator with state, or a second source, needs [Stream.Repartition] with
// [Partitions] before it:
//
//	events := topology.FromPattern(b, "events", `events\..*`, key, value)
//	counts := topology.Count(events.Repartition("events-by-key", topology.Partitions(12)), store)
//
// The records of one key in one topic keep their order. Records of different topics have none.
//
// The name is that of the source. The topics are no part of the fingerprint. The pattern must not
// match another source, a sink, a global table, or the dead-letter topic of the topology. No source
// by pattern reads internal topics of the application or of Kafka. A topic that two patterns match
// is not read, and is an alert of the runtime.
//
// [StartAt], [StartLatest], [ParkKeys], [RetryTopics] and [RestoreFromTopic] are refused.
func FromPattern[K, V any](
	b *Builder, name, expression string, key schemas.Codec[K], value schemas.Codec[V], opts ...SourceOption,
) Stream[K, V] {
	if b == nil {
		panic("topology: FromPattern(" + name + ") without a Builder; NewBuilder makes one")
	}
	pos := caller()
	mistake := func(err error) {
		if err != nil {
			b.mistakeAt(pos, name, err)
		}
	}
	var settings sourceSettings
	for _, opt := range opts {
		if opt == nil {
			mistake(errNilOption)
			continue
		}
		opt.applySource(b, &settings)
	}
	if err := graph.CheckName(name); err != nil {
		mistake(fmt.Errorf("name of the source: %w", err))
	}
	names, err := newPattern(expression)
	mistake(err)
	mistake(settings.checkForPattern())
	t := Topic(name, key, value)
	f, err := t.formats()
	mistake(err)
	eventTime, err := eventTimeOf[K, V](&settings)
	mistake(err)
	s := addSource(b, t, topicRef{name: name, formats: f, pattern: names}, pos, eventTime)
	n := s.port.node
	n.keepDeadLetterHeaders, n.invalid, n.skipNullKeys = settings.keepDeadLetterHeaders, settings.invalid, settings.skipNullKeys
	for _, opt := range settings.errors {
		opt.applyNode(b, n)
	}
	b.patterns = append(b.patterns, n)
	return s
}

// pattern is what the names of topics have to match.
type pattern struct {
	expression string
	// whole matches a whole name. It matches nothing if the expression is wrong.
	whole  *regexp.Regexp
	prefix string
}

func newPattern(expression string) (*pattern, error) {
	p := &pattern{expression: expression, whole: regexp.MustCompile(`[^\s\S]`)}
	if expression == "" {
		return p, errors.New("the pattern is empty")
	}
	// Alone first: an expression that is wrong could be right inside of the group.
	if _, err := regexp.Compile(expression); err != nil {
		return p, fmt.Errorf("the pattern is no regular expression of Go: %w", err)
	}
	whole, err := regexp.Compile(`\A(?:` + expression + `)\z`)
	if err != nil {
		return p, fmt.Errorf("the pattern is no regular expression of Go: %w", err)
	}
	p.whole = whole
	// Without the anchor more names match, and all of them begin with the prefix.
	if open, err := regexp.Compile(strings.TrimPrefix(expression, "^")); err == nil {
		p.prefix, _ = open.LiteralPrefix()
	}
	return p, nil
}

func (p *pattern) matches(topic string) bool { return p.whole.MatchString(topic) }

// checkForPattern refuses options that a source by pattern does not have.
func (s *sourceSettings) checkForPattern() error {
	switch {
	case s.start.From != graph.Earliest:
		return errors.New("a source by pattern reads each topic from its first record: what a new topic gets before it is found would be " +
			"left out otherwise; filter the records by their timestamps")
	case s.parks:
		return errors.New("ParkKeys needs a store, and the tasks of a source by pattern have none; give the option to a Repartition behind it")
	case len(s.delays) > 0:
		return errors.New("RetryTopics: a source by pattern has no retry topics; its failures are retried in place or become dead letters")
	case s.restores:
		return errors.New("RestoreFromTopic: a table is restored from one topic")
	}
	return nil
}

// checkPatterns looks for patterns that match topics with another use, and for what the tasks of a
// source by pattern cannot have.
func (b *Builder) checkPatterns(subtopologies []*subtopology) {
	for _, source := range b.patterns {
		b.checkPatternNames(source)
	}
	for _, s := range subtopologies {
		if source := s.pattern(); source != nil {
			b.checkPatternTasks(s, source, subtopologies)
		}
	}
}

func (b *Builder) checkPatternNames(source *node) {
	refuse := func(topic, use string) {
		if source.topic.pattern.matches(topic) {
			b.mistakeAt(source.pos, source.name, fmt.Errorf("the pattern %s matches %s, which is %s",
				source.topic.pattern.expression, topic, use))
		}
	}
	for _, n := range b.nodes {
		at := fmt.Sprintf("(%s:%d)", n.pos.file, n.pos.line)
		switch {
		case n.kind == processorNode || n.topic.pattern != nil:
		case n.kind == sinkNode && !n.topic.repartition:
			refuse(n.topic.name, "the topic of the sink "+n.name+" "+at)
		case n.kind == sourceNode && !n.topic.repartition:
			refuse(n.topic.name, "read by a source of its own "+at)
		case n.kind == sourceNode && n.of == nil:
			refuse(n.topic.name, "the name of a repartitioning "+at+"; both would name a subtopology, so rename the repartitioning")
		}
	}
	for _, g := range b.globals {
		refuse(g.topic, fmt.Sprintf("the topic of the global table %s (%s:%d)", g.store.name, g.pos.file, g.pos.line))
	}
	if b.deadLetters != "" {
		refuse(b.deadLetters, "the dead-letter topic of this topology; a dead letter that fails would come back for ever")
	}
}

// checkPatternTasks refuses state and further sources in the subtopology of a source by pattern, of
// which each topic has tasks of its own.
func (b *Builder) checkPatternTasks(s *subtopology, source *node, subtopologies []*subtopology) {
	own := fmt.Sprintf("each topic of the source by pattern %s (%s:%d) has tasks of its own", source.topic.name, source.pos.file, source.pos.line)
	for _, n := range s.nodes {
		switch {
		case n.kind == sourceNode && n != source:
			b.mistakeAt(n.pos, n.name, fmt.Errorf("its records come together with those of a pattern, and %s; send one of the streams through "+
				"Repartition", own))
		case len(n.stores) > 0:
			b.mistakeAt(n.pos, n.name, fmt.Errorf("it keeps state, and %s; put Repartition before it", own))
		case n.kind == sinkNode && n.topic.repartition && !fixesPartitions(n.topic.name, subtopologies):
			b.mistakeAt(n.pos, n.topic.name, fmt.Errorf("the number of partitions does not follow from a pattern, because %s and topics come "+
				"and go; give it with Partitions", own))
		}
	}
}

// fixesPartitions reports whether the number of partitions of a repartition topic is declared, or
// is that of a topic which is read together with it.
func fixesPartitions(repartition string, subtopologies []*subtopology) bool {
	for _, s := range subtopologies {
		reads := slices.ContainsFunc(s.sources, func(n *node) bool { return n.topic.repartition && n.topic.name == repartition })
		if reads {
			return slices.ContainsFunc(s.sources, func(n *node) bool {
				return n.topic.partitions > 0 || !n.topic.repartition && n.topic.pattern == nil
			})
		}
	}
	return true // a mistake elsewhere
}

// pattern returns the source by pattern of a subtopology, nil if it has none.
func (s *subtopology) pattern() *node {
	i := slices.IndexFunc(s.sources, func(n *node) bool { return n.topic.pattern != nil })
	if i < 0 {
		return nil
	}
	return s.sources[i]
}

// Patterns returns the sources by pattern, sorted by name. The caller may change the result.
func (t *Topology) Patterns() []graph.Pattern {
	var patterns []graph.Pattern
	for _, s := range t.subtopologies {
		if n := s.pattern(); n != nil {
			patterns = append(patterns, graph.Pattern{
				Name: n.topic.name, Expression: n.topic.pattern.expression, Prefix: n.topic.pattern.prefix,
				KeyFormat: n.topic.formats.key, ValueFormat: n.topic.formats.value,
			})
		}
	}
	return patterns
}

// PatternsOf returns the names of the sources by pattern that match a topic, sorted. A topic with
// several of them is read by none. Internal topics of the application have none, also those of
// earlier versions of the topology.
func (t *Topology) PatternsOf(topic string) []string {
	var names []string
	for _, s := range t.patternsOf(topic) {
		names = append(names, s.name)
	}
	return names
}

func (t *Topology) patternsOf(topic string) (matching []*subtopology) {
	if t.reserves(topic) {
		return nil
	}
	for _, s := range t.subtopologies {
		if n := s.pattern(); n != nil && n.topic.pattern.matches(topic) {
			matching = append(matching, s)
		}
	}
	return matching
}

// WithTopics returns the topology with these topics as those that its sources by pattern read, and
// no others. A runtime calls it with the topics of the cluster. Fingerprint and description stay as
// they are. A topic that not exactly one source matches is an error.
func (t *Topology) WithTopics(topics []string) (*Topology, error) {
	other := *t
	other.matched = map[string]*subtopology{}
	for _, topic := range topics {
		matching := t.patternsOf(topic)
		if len(matching) != 1 {
			return nil, fmt.Errorf("topology %s: topic %s is matched by %d sources by pattern, and one has to match it", t.name, topic, len(matching))
		}
		other.matched[topic] = matching[0]
	}
	return &other, nil
}

// Matched returns the topics that the sources by pattern read, sorted: those given to WithTopics.
func (t *Topology) Matched() []string { return slices.Sorted(maps.Keys(t.matched)) }
