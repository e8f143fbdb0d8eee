package topology

import (
	"fmt"
	"slices"
	"time"

	"github.com/onceward/onceward/topology/graph"
)

// SourceOption is an option of [From] and of [FromPattern].
type SourceOption interface {
	applySource(b *Builder, s *sourceSettings)
}

type sourceSettings struct {
	start                 graph.Start
	keepDeadLetterHeaders bool
	// eventTime is a func(Record[K, V]) (time.Time, error), or nil; noEventTime says that EventTime
	// was given nil.
	eventTime   any
	noEventTime bool
	invalid     InvalidTimestamp
	// skipNullKeys leaves out what has no key.
	skipNullKeys bool
	// parks is ParkKeys, delays are those of RetryTopics.
	parks  bool
	delays []time.Duration
	// restores is RestoreFromTopic.
	restores bool
	errors   []ErrorOption
}

type sourceOption func(s *sourceSettings)

func (o sourceOption) applySource(_ *Builder, s *sourceSettings) { o(s) }

// StartEarliest makes a new application start with the first record of each partition. This is the
// default.
func StartEarliest() SourceOption {
	return sourceOption(func(s *sourceSettings) { s.start = graph.Start{} })
}

// StartLatest makes a new application start at the end of each partition.
func StartLatest() SourceOption {
	return sourceOption(func(s *sourceSettings) { s.start = graph.Start{From: graph.Latest} })
}

// StartAt makes a new application start with the first record of each partition whose timestamp is
// at or after t.
func StartAt(t time.Time) SourceOption {
	return sourceOption(func(s *sourceSettings) { s.start = graph.Start{From: graph.AtTime, Time: t} })
}

// KeepDeadLetterHeaders shows the dead-letter headers of input records to the topology, and so
// passes them on. It is for topologies that read a dead-letter topic. Other sources hide them,
// because the output of a redriven record is no dead letter. See [graph.ParseDeadLetter].
func KeepDeadLetterHeaders() SourceOption {
	return sourceOption(func(s *sourceSettings) { s.keepDeadLetterHeaders = true })
}

// SkipNullKeys leaves out records with a null key, and counts them as "null-key" of the source.
// Otherwise a null key is a failure, unless the codec of the key is [Nullable]. The timestamp of a
// skipped record moves the stream time, unless a record with a key would fail because of it. In a
// source with an [EventTime] it does not: the function is not called for skipped records.
func SkipNullKeys() SourceOption {
	return sourceOption(func(s *sourceSettings) { s.skipNullKeys = true })
}

// sourceEntry remembers the source of a topic.
type sourceEntry struct {
	node     *node
	settings sourceSettings
	// stream is a Stream of the source's types, and topic the TopicOf whose codecs it reads with.
	stream, topic any
}

// From returns the stream of a topic's records. Several calls for one topic give one source; each
// call needs the same codecs and the same options.
func From[K, V any](b *Builder, t TopicOf[K, V], opts ...SourceOption) Stream[K, V] {
	if b == nil {
		panic("topology: From(" + t.name + ") without a Builder; NewBuilder makes one")
	}
	pos := caller()
	var settings sourceSettings
	for _, opt := range opts {
		if opt == nil {
			b.mistakeAt(pos, t.name, errNilOption)
			continue
		}
		opt.applySource(b, &settings)
	}
	if first, ok := b.sources[t.name]; ok {
		if s, ok := sameSource(first, t, settings); ok {
			return s
		}
		b.mistakeAt(pos, t.name, fmt.Errorf(
			"the topic is read twice with different types, codecs or options; the first source is at %s:%d",
			first.node.pos.file, first.node.pos.line))
		n := &node{kind: sourceNode, name: t.name + graph.SourceSuffix, pos: pos}
		return Stream[K, V]{b: b, port: addPort[K, V](b, n, "")}
	}
	if err := graph.CheckTopicName(t.name); err != nil {
		b.mistakeAt(pos, t.name, fmt.Errorf("source topic: %w", err))
	}
	f, err := t.formats()
	if err != nil {
		b.mistakeAt(pos, t.name, err)
	}
	eventTime, err := eventTimeOf[K, V](&settings)
	if err != nil {
		b.mistakeAt(pos, t.name, err)
	}
	partitioner, err := t.partitionedBy()
	if err != nil {
		b.mistakeAt(pos, t.name, err)
	}
	s := addSource(b, t, topicRef{name: t.name, formats: f, partitioner: partitioner}, pos, eventTime).notByKey()
	n := s.port.node
	n.start = settings.start
	n.keepDeadLetterHeaders = settings.keepDeadLetterHeaders
	n.invalid, n.skipNullKeys = settings.invalid, settings.skipNullKeys
	if settings.parks {
		n.park()
	}
	n.addRetryTopics(b, settings.delays)
	n.restores = settings.restores
	b.checkRestores(pos, t.name, settings)
	for _, opt := range settings.errors {
		opt.applyNode(b, n)
	}
	b.sources[t.name] = sourceEntry{node: n, settings: settings, stream: s, topic: t}
	return s
}

func sameSource[K, V any](first sourceEntry, t TopicOf[K, V], settings sourceSettings) (Stream[K, V], bool) {
	s, ok := first.stream.(Stream[K, V])
	if !ok {
		return s, false
	}
	f, err := t.formats()
	a := first.settings
	partitioner, _ := t.partitionedBy()
	read, _ := first.topic.(TopicOf[K, V])
	same := err == nil && f == first.node.topic.formats && t.sameLenders(&read) && partitioner == first.node.topic.partitioner &&
		a.start.From == settings.start.From && a.start.Time.Equal(settings.start.Time) &&
		a.keepDeadLetterHeaders == settings.keepDeadLetterHeaders && a.skipNullKeys == settings.skipNullKeys &&
		a.invalid == settings.invalid && a.restores == settings.restores &&
		a.parks == settings.parks && slices.Equal(a.delays, settings.delays) &&
		a.eventTime == nil && settings.eventTime == nil && // functions cannot be compared
		slices.Equal(a.errors, settings.errors)
	return s, same
}

// addSource adds the node that reads ref with the codecs of t. eventTime may be nil.
func addSource[K, V any](
	b *Builder, t TopicOf[K, V], ref topicRef, pos position, eventTime func(r Record[K, V]) (time.Time, error),
) Stream[K, V] {
	n := b.add(&node{kind: sourceNode, name: ref.local() + graph.SourceSuffix, pos: pos, topic: ref}, nil)
	n.rows = t.rows()
	n.keyCodec, n.valueCodec = t.key.codec, t.value.codec
	if ref.partitioner != "" {
		n.clause(KeyAssumption, partitionedClause(ref.partitioner))
	}
	p := addPort[K, V](b, n, "")
	n.read = func(g *Graph) (graphSource, error) {
		next, err := link(g, p)
		if err != nil {
			return graphSource{}, err
		}
		x := &intake[K, V]{graph: g, node: n, topic: t, next: next, clock: clock[K, V]{
			graph: g, eventTime: eventTime, invalid: n.invalid,
			skipped: &Counter{graph: g, node: n.name, outcome: countInvalidTimestamp},
		}}
		if n.skipNullKeys {
			x.nullKeys = &Counter{graph: g, node: n.name, outcome: countNullKey}
		}
		if n.restores {
			x.invalidModes = &Counter{graph: g, node: n.name, outcome: countInvalidMode}
		}
		topic := n.topic.on(g.topology.application)
		if n.topic.pattern != nil {
			topic = g.id.Subtopology
		}
		s := graphSource{
			topic: topic, internal: n.topic.repartition, restores: n.restores, run: x.read,
		}
		if eventTime != nil {
			s.eventTime = x.peek
		}
		return s, nil
	}
	return Stream[K, V]{b: b, port: p}
}
