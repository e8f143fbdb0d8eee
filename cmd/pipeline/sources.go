package pipeline

import (
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/cmd/internal/yamldoc"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// source is where records come from.
type source struct {
	shape shape
	// name is that of a table and of its store, and that of a source by pattern.
	name  string
	topic string
	// pattern is what the names of the topics have to match, for a source by pattern.
	pattern string
	start   topology.SourceOption
	rows    rowsIn
}

// sourceKinds are the kinds of sources.
var sourceKinds = []string{"stream", "table", "global_table"}

// sources reads the source of a pipeline, or the list of several.
func (r *reader) sources(root yamldoc.Mapping) []source {
	list := root.Optional("sources")
	if !list.Present() {
		s := r.streamSource(root.Required("source"))
		r.previous = len(r.places) - 1 // the first step reads it
		return []source{s}
	}
	if one := root.Optional("source"); one.Present() {
		one.Mistake("there are sources, too; write the source there: - stream: {topic: ...}")
	}
	var sources []source
	for _, v := range list.List() {
		entries := v.Mapping(sourceKinds...).Entries()
		switch {
		case len(entries) > 1:
			r.file.Mistake(entries[1].KeyPosition, "%s: a source has one kind, and %s is a second one; begin another source with \"- \"",
				v.Path(), entries[1].Key)
		case len(entries) == 0 && v.IsEmptyMapping():
			v.Mistake("a source needs a kind; possible: %s", strings.Join(sourceKinds, ", "))
		case len(entries) == 1:
			sources = append(sources, r.source(entries[0]))
		}
	}
	if len(sources) == 1 && sources[0].shape == aStream {
		list.Mistake("the only source is a stream; write source: {%s}", sources[0].keys())
	}
	return sources
}

func (r *reader) source(e yamldoc.Entry) source {
	switch e.Key {
	case "table":
		return r.tableSource(e.Value, aTable)
	case "global_table":
		return r.tableSource(e.Value, aGlobalTable)
	default:
		return r.streamSource(e.Value)
	}
}

func (r *reader) streamSource(v yamldoc.Value) source {
	m := v.Mapping("topic", "name", "pattern", "key", "value", "start")
	if m.Optional("pattern").Present() {
		return r.patternSource(v, m)
	}
	if name := m.Optional("name"); name.Present() {
		name.Mistake("a stream of one topic is named after it; remove name, or write a pattern in place of the topic")
	}
	s := source{shape: aStream, topic: r.topic(m), start: startOf(m.Optional("start"))}
	r.add(place{name: s.topic, at: v.Position(), shape: aStream})
	return s
}

func (r *reader) tableSource(v yamldoc.Value, shape shape) source {
	m := v.Mapping("name", "topic", "key", "value", inMemory)
	s := source{shape: shape, name: r.name(m), topic: r.topic(m), rows: readRowsIn(m)}
	if shape == aGlobalTable && s.rows.memory {
		m.Optional(inMemory).Mistake("the rows of a global table are on the disk; remove %s", inMemory)
	}
	r.add(place{name: s.name, at: v.Position(), shape: shape})
	return s
}

// readFormats reads how the records of a source are encoded.
func readFormats(m yamldoc.Mapping) {
	m.Optional("key").Choice("string")
	m.Optional("value").Choice("json")
}

// topic reads the topic of a source, and how its records are encoded.
func (r *reader) topic(m yamldoc.Mapping) string {
	v := m.Required("topic")
	readFormats(m)
	topic := v.Text()
	if topic == "" {
		return ""
	}
	if first, read := r.topics[topic]; read {
		v.Mistake("the topic is a source already, in line %d; let the steps read that one", first.Position().Line)
		return topic
	}
	if i := slices.IndexFunc(r.patterns, func(p patternOf) bool { return p.name == topic }); i >= 0 {
		v.Mistake("%q is the name of the source by pattern in line %d; rename that one", topic, r.patterns[i].at.Position().Line)
		return topic
	}
	r.topics[topic] = v
	r.claim(topic+"-source", v)
	return topic
}

// checkUnread notes a mistake for each of several sources that no step reads.
func (r *reader) checkUnread(sources []source) {
	if len(sources) < 2 {
		return
	}
	for _, p := range r.places[:min(len(sources), len(r.places))] {
		if !p.read && p.name != "" {
			r.file.Mistake(p.at, "no step reads the source %s; name it in reads or with, or remove it", p.name)
		}
	}
}

func startOf(v yamldoc.Value) topology.SourceOption {
	switch text := v.Text(); text {
	case "", "earliest":
		return topology.StartEarliest()
	case "latest":
		return topology.StartLatest()
	default:
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			v.Mistake("%q is no start; possible: earliest, latest, or a time such as 2026-01-31T08:00:00Z", text)
		}
		return topology.StartAt(at)
	}
}

func (s source) declare(b *topology.Builder) flow {
	switch s.shape {
	case aTable:
		return ofTable(topology.TableFrom(b, rowsOf(s.topic), tableStore(s.name, s.rows)))
	case aGlobalTable:
		return flow{shape: aGlobalTable, global: topology.GlobalTableFrom(b, rowsOf(s.topic), tableStore(s.name, s.rows))}
	default:
		if s.pattern != "" {
			return ofStream(topology.FromPattern(b, s.name, s.pattern, nullableKeys(), nullableValues()))
		}
		return ofStream(topology.From(b, topicOf(s.topic), s.start))
	}
}

// rowsOf is the topic of a table: a null deletes its key.
func rowsOf(topic string) topology.TopicOf[key, *document] {
	return topology.Topic(topic, nullableKeys(), schemas.Codec[*document](documentCodec{}))
}
