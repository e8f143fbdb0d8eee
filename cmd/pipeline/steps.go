package pipeline

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/onceward/onceward/cmd/internal/yamldoc"
	"github.com/onceward/onceward/processors/envelope"
	"github.com/onceward/onceward/processors/inbox"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// kind is a kind of steps.
type kind struct {
	// read reads a step.
	read func(r *reader, v yamldoc.Value) step
	// reads are the shapes that the step takes.
	reads []shape
	// keyed says that the step keeps state by the key of the records.
	keyed bool
	// looks says that the step looks up rows of the table that it reads, or values from before.
	looks bool
}

// The shapes that kinds of steps take.
var (
	streamsOnly     = []shape{aStream}
	streamsOrTables = []shape{aStream, aTable}
	tablesOrWindows = []shape{aTable, someWindows}
)

// kinds are the kinds of steps by their keys.
var kinds = map[string]kind{
	"aggregate":  {read: readAggregate, reads: streamsOrTables, keyed: true, looks: true},
	"caused":     {read: streaming(readCaused), reads: streamsOnly},
	"changes":    {read: readChanges, reads: tablesOrWindows},
	"count":      {read: readCount, reads: streamsOrTables, keyed: true, looks: true},
	"dedupe":     {read: streaming(readDedupe), reads: streamsOnly, keyed: true},
	"filter":     {read: readFilter, reads: streamsOrTables, looks: true},
	"join":       {read: readJoin, reads: streamsOrTables, looks: true},
	"ledger":     {read: streaming(readLedger), reads: streamsOnly, keyed: true},
	"map":        {read: readMap, reads: streamsOrTables},
	"merge":      {read: readMerge, reads: streamsOnly},
	"project":    {read: streaming(readProject), reads: streamsOnly, keyed: true},
	"rekey":      {read: streaming(readRekey), reads: streamsOnly},
	"sink":       {read: readSink, reads: []shape{aStream, aTable, someWindows}},
	"suppress":   {read: readSuppress, reads: tablesOrWindows, looks: true},
	"table":      {read: readTable, reads: streamsOnly, keyed: true},
	"transition": {read: streaming(readTransition), reads: streamsOnly, keyed: true},
}

var kindNames = slices.Sorted(maps.Keys(kinds))

// name reads the name of a step, which is that of its node, and claims the names that are made of
// it.
func (r *reader) name(m yamldoc.Mapping, suffixes ...string) string {
	v := m.Required("name")
	name := v.Text()
	if name == "" {
		return ""
	}
	r.out.name = name
	for _, suffix := range append([]string{""}, suffixes...) {
		r.claim(name+suffix, v)
	}
	return name
}

// branch is a topic to which a step writes beside the stream. The zero branch is none.
type branch struct{ sink, topic string }

// branch reads an optional topic. Its sink is named after the step and not after the topic, so that
// several steps can write to one topic.
func (r *reader) branch(v yamldoc.Value, step string) branch {
	b := branch{topic: v.Text()}
	if b.topic == "" || step == "" {
		return branch{}
	}
	r.outputs = append(r.outputs, v)
	b.sink = step + "-" + v.Key() + "-sink"
	r.claim(b.sink, v)
	return b
}

// into writes s to the topic of b if there is one.
func into[V any](b branch, s func() topology.Stream[key, V], codec schemas.Codec[V]) {
	if b.topic != "" {
		s().IntoNamed(b.sink, topology.Topic(b.topic, nullableKeys(), codec))
	}
}

type dedupe struct {
	name                                            string
	id                                              *expression
	opts                                            []inbox.Option
	duplicates, conflicts, late, missing, malformed branch
	evidence                                        evidenceOf
}

func readDedupe(r *reader, v yamldoc.Value) streamStep {
	m := r.mapping(v, "name", "id", "duplicates", "conflicts", "missing", "malformed", "retain", "longer_topics", "late", "globally", "keep_origin")
	s := dedupe{name: r.name(m), opts: []inbox.Option{inbox.PayloadHash(payloadHash)}}
	s.id = r.compile(m.Required("id"), "id", wantString)
	s.duplicates = r.branch(m.Optional("duplicates"), s.name)
	s.conflicts = r.branch(m.Optional("conflicts"), s.name)
	s.missing = r.branch(m.Optional("missing"), s.name)
	s.malformed = r.branch(m.Optional("malformed"), s.name)
	s.evidence = r.evidenceOf(s.name)
	s.readRetention(r, m)
	s.emit(s.conflicts, inbox.EmitConflicts())
	s.emit(s.late, inbox.EmitLate())
	s.emit(s.missing, inbox.EmitMissing())
	s.emit(s.malformed, inbox.EmitMalformed())
	global, keep := m.Optional("globally"), m.Optional("keep_origin")
	globally, keeps := global.Bool(), keep.Bool()
	if keeps {
		s.opts = append(s.opts, inbox.KeepOrigin())
	}
	if keeps && !globally {
		keep.Mistake("without globally there is no topic in which the origin could be lost; add globally, or remove %s", keep.Key())
	}
	if globally && s.name != "" {
		s.opts = append(s.opts, inbox.Globally(nullableKeys(), nullableValues()))
		for _, suffix := range []string{"-by-id", "-repartition-sink", "-repartition-source", "-back-repartition-sink",
			"-back-repartition-source"} {
			r.claim(s.name+suffix, global)
		}
	}
	return s
}

// emit gives the inbox an option that emits records, if the file names a topic for them.
func (d *dedupe) emit(b branch, option inbox.Option) {
	if b.topic != "" {
		d.opts = append(d.opts, option)
	}
}

// forever is the retention of an inbox that keeps every id.
const forever = "forever"

// readRetention reads how long ids are kept, and the reaction to older records.
func (d *dedupe) readRetention(r *reader, m yamldoc.Mapping) {
	retain, topics, late := m.Required("retain", "write forever, or a time such as 168h after which ids expire"), m.Optional("longer_topics"), m.Optional("late")
	tolerate := topics.Choice("refuse", "tolerate") == "tolerate"
	d.late = r.branch(late, d.name)
	text := retain.Text()
	switch text {
	case "":
		return
	case forever:
		for _, v := range []yamldoc.Value{topics, late} {
			if v.Present() {
				v.Mistake("with retain: forever no id expires; write a time such as 168h in retain, or remove %s", v.Key())
			}
		}
		d.opts = append(d.opts, inbox.Forever())
		return
	}
	retention, err := time.ParseDuration(text)
	if err != nil || retention < time.Millisecond || retention%time.Millisecond != 0 {
		retain.Mistake("must be forever, or a time of whole milliseconds, such as 168h or 30m, and is %q", text)
		return
	}
	d.opts = append(d.opts, inbox.Retain(retention))
	if tolerate {
		d.opts = append(d.opts, inbox.TolerateLongerTopics())
	}
}

func (d dedupe) declare(s stream) stream {
	id := func(r record) (string, error) { return d.id.Text(&r) }
	in := inbox.Dedupe(s, d.name, id, d.opts...)
	into(d.duplicates, in.Duplicates, nullableValues())
	into(d.conflicts, in.Conflicts, nullableValues())
	into(d.late, in.Late, nullableValues())
	into(d.missing, in.Missing, nullableValues())
	into(d.malformed, in.Malformed, nullableValues())
	d.evidence.record(in.Decisions)
	return in.Accepted()
}

type filter struct {
	name  string
	where *expression
}

func readFilter(r *reader, v yamldoc.Value) step {
	m := r.mapping(v, "name", "where")
	return filter{name: r.name(m), where: r.compileIn(r.ofInput(), m.Required("where"), "where", wantBool)}
}

func (f filter) declare(in flow, _ []flow) flow {
	if in.shape == aTable {
		return ofTable(in.table.Filter(f.name, func(k key, d *document) (bool, error) {
			return f.where.Bool(rowOf(k, d))
		}))
	}
	return ofStream(in.stream.Filter(f.name, func(r record) (bool, error) { return f.where.Bool(&r) }))
}

type mapping struct {
	name  string
	value *expression
}

func readMap(r *reader, v yamldoc.Value) step {
	m := r.mapping(v, "name", "value")
	return mapping{name: r.name(m), value: r.compileIn(r.ofInput(), m.Required("value"), "value", wantObject)}
}

func (m mapping) declare(in flow, _ []flow) flow {
	if in.shape == aTable {
		return ofTable(topology.MapTable(in.table, m.name, func(k key, d *document) (*document, error) {
			return m.value.Object(rowOf(k, d))
		}))
	}
	return ofStream(topology.MapValuesWithRecord(in.stream, m.name, func(r record) (value, error) {
		d, err := m.value.Object(&r)
		if err != nil {
			return value{}, err
		}
		return topology.Some(d), nil
	}))
}

// rowOf is a row of a table as a record, for expressions.
func rowOf(k key, d *document) *record { return &record{Key: k, Value: optional(d)} }

type rekey struct {
	name  string
	key   *expression
	topic []topology.RepartitionOption
}

func readRekey(r *reader, v yamldoc.Value) streamStep {
	m := r.mapping(v, "name", "key", "partitions", "keep_origin")
	partitions := m.Optional("partitions")
	if pattern := r.input().pattern; pattern != "" {
		partitions = m.Required("partitions", "write how many the topic of the step has, such as 6; no number follows from the pattern "+pattern)
	}
	r.passes(aStream)
	k := rekey{
		name: r.name(m, "-repartition-sink", "-repartition-source"),
		key:  r.compile(m.Required("key"), "key", wantString),
	}
	if n := bound(partitions, math.MaxInt32); n > 0 {
		k.topic = append(k.topic, topology.Partitions(int32(n)))
	}
	if m.Optional("keep_origin").Bool() {
		k.topic = append(k.topic, topology.KeepOrigin())
	}
	return k
}

func (k rekey) declare(s stream) stream {
	rekeyed := topology.SelectKey(s, k.name, func(r record) (key, error) {
		text, err := k.key.Text(&r)
		if err != nil {
			return key{}, err
		}
		return topology.Some(text), nil
	})
	return topology.RepartitionWith(rekeyed, k.name, nullableKeys(), nullableValues(), k.topic...)
}

type caused struct {
	name  string
	cause *expression
}

func readCaused(r *reader, v yamldoc.Value) streamStep {
	m := r.mapping(v, "name", "cause")
	return caused{name: r.name(m), cause: r.compile(m.Required("cause"), "cause", wantString)}
}

func (c caused) declare(s stream) stream {
	return envelope.Caused(s, c.name, func(r record) (string, error) { return c.cause.Text(&r) })
}

type sink struct {
	topic    string
	feedback bool
}

func readSink(r *reader, v yamldoc.Value) step {
	m := r.mapping(v, "topic", "feedback")
	topic := m.Required("topic")
	s := sink{topic.Text(), m.Optional("feedback").Bool()}
	if s.topic == "" {
		return s
	}
	if first, ok := r.sinks[s.topic]; ok {
		topic.Mistake("there is a sink for the topic in line %d; a record would be written twice, so remove this one, or merge the streams before it", first.Line)
		return s
	}
	r.sinks[s.topic] = topic.Position()
	r.outputs = append(r.outputs, topic)
	r.claim(s.topic+"-sink", topic)
	return s
}

func (k sink) declare(in flow, _ []flow) flow {
	var opts []topology.NodeOption
	if k.feedback {
		opts = append(opts, topology.Feedback())
	}
	in.records().Into(topicOf(k.topic), opts...)
	return in
}
