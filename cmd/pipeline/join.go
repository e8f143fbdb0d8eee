package pipeline

import (
	"slices"
	"strings"

	"github.com/onceward/onceward/cmd/internal/yamldoc"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// The types of joins.
const (
	inner = "inner"
	left  = "left"
	outer = "outer"
)

// joinForm is what a join of two shapes has.
type joinForm struct {
	left, right shape
	// foreign is for the form with a foreign key.
	foreign bool
	// types are the types that there are, the default first.
	types []string
	// keys are those of the step that belong to this form only.
	keys []string
	// keyed says that both sides meet by their key.
	keyed bool
	// declare adds the join to the topology.
	declare func(j join, in, with flow) flow
}

// by says in messages how the rows are found, where that makes a difference.
func (f joinForm) by() string {
	if f.foreign {
		return " by a foreign key"
	}
	return ""
}

var joinForms = []joinForm{
	{aStream, aStream, false, []string{inner, left, outer}, []string{"within", "before", "after", "grace"}, true, join.streams},
	{aStream, aTable, false, []string{inner, left}, nil, true, join.streamTable},
	{aStream, aGlobalTable, false, []string{inner, left}, []string{"key"}, false, join.streamGlobal},
	{aTable, aTable, false, []string{inner, left, outer}, nil, false, join.tables},
	{aTable, aTable, true, []string{inner, left}, []string{"foreign_key"}, false, join.foreign},
}

// join is a join of what the step reads with what it names in with.
type join struct {
	name, kind string
	with       int
	value      *expression
	// key chooses the row of a global table, and foreignKey that of the right table.
	key, foreignKey *expression
	windows         topology.JoinWindows
	form            joinForm
}

func readJoin(r *reader, v yamldoc.Value) step {
	m := r.mapping(v, "name", "with", "type", "value", "key", "foreign_key", "within", "before", "after", "grace")
	j := join{name: r.name(m), with: noPlace}
	with, kind := m.Required("with", "write the source or the step to join with"), m.Optional("type")
	j.value = r.compileIn(ofJoins, m.Required("value"), "value", wantObject)
	if with.Present() {
		j.with = r.find(with)
	}
	if j.with == noPlace || r.input().shape == unknown || r.places[j.with].shape == unknown {
		j.kind = kind.Choice(inner, left, outer)
		r.out.shape = unknown
		return j
	}
	other := r.places[j.with]
	form, ok := formOf(r.input(), other, m.Optional("foreign_key").Present())
	if !ok {
		r.notJoined(with, other)
		return j
	}
	j.form = form
	if j.kind = kind.Choice(inner, left, outer); !slices.Contains(form.types, j.kind) && j.kind != "" {
		kind.Mistake("a join of %s with %s%s is %s, and this one is %s", form.left, form.right, form.by(),
			strings.Join(form.types, " or "), j.kind)
	}
	r.checkKeys(m, form, other)
	if form.keyed && (r.input().windowed || other.windowed) {
		v.Mistake("both sides are joined by key, and the keys of one of them name windows; put a step rekey: {key: event.key} behind it")
	}
	if slices.Contains(form.keys, "key") {
		j.key = r.compile(m.Required("key", "write the key of the row of "+other.String()+", or null for none"), "key", wantStringOrNull)
	}
	j.foreignKey = r.compileIn(ofRows, m.Optional("foreign_key"), "foreign_key", wantStringOrNull)
	if slices.Contains(form.keys, "within") {
		j.windows = readJoinWindows(m)
	}
	r.claimJoin(j, m)
	r.checkKept(with, other)
	pattern := r.input().pattern
	if form.right != aGlobalTable {
		r.checkTasks(r.reads, r.input())
		r.checkTasks(with, other)
		pattern = ""
	}
	r.passes(form.left)
	r.out.unkept, r.out.pattern = form.foreign, pattern
	r.out.windowed = !form.keyed && r.input().windowed
	return j
}

// formOf returns the form of a join of two places.
func formOf(in, with *place, foreign bool) (joinForm, bool) {
	i := slices.IndexFunc(joinForms, func(f joinForm) bool {
		return f.left == in.shape && f.right == with.shape && (f.foreign == foreign || f.left != aTable)
	})
	if i < 0 {
		return joinForm{}, false
	}
	return joinForms[i], true
}

// notJoined says why the input cannot be joined with a place.
func (r *reader) notJoined(with yamldoc.Value, other *place) {
	in := r.input()
	switch {
	case in.shape == aGlobalTable || in.shape == someWindows: // noted for the step
	case other.shape == someWindows:
		with.Mistake("%s is a table of windows, which is not joined; put the steps changes and rekey behind it", other)
	case in.shape == aTable && other.shape == aStream:
		with.Mistake("%s is a table and %s is a stream; let the join read the stream, or put a step table behind it", in, other)
	default:
		with.Mistake("%s is a table and %s is a global table, which streams are joined with; put a step changes before the join, or "+
			"make it a source of kind table", in, other)
	}
}

// checkKeys notes the keys of the step that belong to another form of join.
func (r *reader) checkKeys(m yamldoc.Mapping, form joinForm, other *place) {
	for _, f := range joinForms {
		for _, key := range f.keys {
			if v := m.Optional(key); v.Present() && !slices.Contains(form.keys, key) {
				v.Mistake("belongs to a join of %s with %s, and this one joins %s with %s; remove it", f.left, f.right, form.left, form.right)
			}
		}
	}
}

// readJoinWindows reads how far apart the records of two streams may be.
func readJoinWindows(m yamldoc.Mapping) topology.JoinWindows {
	within, before, after := m.Optional("within"), m.Optional("before"), m.Optional("after")
	w := topology.Within(duration(within, 0)).Grace(duration(m.Optional("grace"), 0))
	switch {
	case within.Present():
		for _, v := range []yamldoc.Value{before, after} {
			if v.Present() {
				v.Mistake("within is before and after in one; remove within, or %s", v.Key())
			}
		}
	case !before.Present() && !after.Present():
		m.Required("within", "write how far apart the timestamps of two records may be, such as 5m, or before and after")
	default:
		m.Required("before", "write how much older a record of the other stream may be, such as 5m or 0s")
		m.Required("after", "write how much younger a record of the other stream may be, such as 5m or 0s")
		b, a := duration(before, -century), duration(after, -century)
		if b+a < 0 {
			after.Mistake("the window ends before it begins: before and after are %s and %s", b, a)
		}
		w = w.Before(b).After(a)
	}
	return w
}

// claimJoin claims the names that belong to a join beside its own.
func (r *reader) claimJoin(j join, m yamldoc.Mapping) {
	var suffixes []string
	switch {
	case j.name == "":
	case j.form.foreign:
		suffixes = []string{
			"-subscriptions", "-subscriptions-repartition-sink", "-subscriptions-repartition-source",
			"-answers-repartition-sink", "-answers-repartition-source",
		}
	case j.form.right == aStream:
		suffixes = []string{"-left", "-right"}
		if j.kind != inner {
			suffixes = append(suffixes, closingSuffix)
		}
	}
	for _, suffix := range suffixes {
		r.claim(j.name+suffix, m.Required("name"))
	}
}

func (j join) declare(in flow, before []flow) flow { return j.form.declare(j, in, before[j.with]) }

// result evaluates the value of the join for both sides. An absent one is null.
func (j join) result(k key, l, r value) (*document, error) {
	return j.value.Object(&record{Key: k, Value: l}, binding{varOther, r})
}

// streamed is result for joins that pass on streams.
func (j join) streamed(k key, l, r value) (value, error) {
	d, err := j.result(k, l, r)
	if err != nil {
		return value{}, err
	}
	return topology.Some(d), nil
}

func (j join) streams(in, with flow) flow {
	keys, values := schemas.Codec[key](keyCodec{}), schemas.Codec[value](recordCodec{})
	switch j.kind {
	case left:
		return ofStream(topology.LeftJoinStreams(in.stream, with.stream, j.name, j.windows, keys, values, values,
			func(k key, l value, r topology.Option[value]) (value, error) { return j.streamed(k, l, r.Or(value{})) }))
	case outer:
		return ofStream(topology.OuterJoinStreams(in.stream, with.stream, j.name, j.windows, keys, values, values,
			func(k key, l, r topology.Option[value]) (value, error) {
				return j.streamed(k, l.Or(value{}), r.Or(value{}))
			}))
	default:
		return ofStream(topology.JoinStreams(in.stream, with.stream, j.name, j.windows, keys, values, values, j.streamed))
	}
}

func (j join) streamTable(in, with flow) flow {
	if j.kind == left {
		return ofStream(topology.LeftJoinStreamTable(in.stream, with.table, j.name,
			func(k key, v value, row value) (value, error) { return j.streamed(k, v, row) }))
	}
	return ofStream(topology.JoinStreamTable(in.stream, with.table, j.name,
		func(k key, v value, row *document) (value, error) { return j.streamed(k, v, optional(row)) }))
}

func (j join) streamGlobal(in, with flow) flow {
	chosen := func(r record) (topology.Option[key], error) {
		k, err := j.key.Key(&r)
		return present(k), err
	}
	if j.kind == left {
		return ofStream(topology.LeftJoinGlobalTable(in.stream, with.global, j.name, chosen,
			func(k key, v value, row value) (value, error) { return j.streamed(k, v, row) }))
	}
	return ofStream(topology.JoinGlobalTable(in.stream, with.global, j.name, chosen,
		func(k key, v value, row *document) (value, error) { return j.streamed(k, v, optional(row)) }))
}

func (j join) tables(in, with flow) flow {
	switch j.kind {
	case left:
		return ofTable(topology.LeftJoinTables(in.table, with.table, j.name,
			func(k key, l *document, r value) (*document, error) { return j.result(k, optional(l), r) }))
	case outer:
		return ofTable(topology.OuterJoinTables(in.table, with.table, j.name, j.result))
	default:
		return ofTable(topology.JoinTables(in.table, with.table, j.name,
			func(k key, l, r *document) (*document, error) { return j.result(k, optional(l), optional(r)) }))
	}
}

func (j join) foreign(in, with flow) flow {
	chosen := func(k key, l *document) (topology.Option[key], error) {
		to, err := j.foreignKey.Key(rowOf(k, l))
		return present(to), err
	}
	if j.kind == left {
		return ofTable(topology.LeftJoinForeignKey(in.table, with.table, j.name, chosen,
			func(k key, l *document, r value) (*document, error) { return j.result(k, optional(l), r) }))
	}
	return ofTable(topology.JoinForeignKey(in.table, with.table, j.name, chosen,
		func(k key, l, r *document) (*document, error) { return j.result(k, optional(l), optional(r)) }))
}

// present is a key as that of a row, absent if it is null.
func present(k key) topology.Option[key] {
	if _, ok := k.Get(); !ok {
		return topology.None[key]()
	}
	return topology.Some(k)
}

// recordCodec is the codec of the values of records in stores, where no value is null: joins leave
// nulls out before.
type recordCodec struct{}

func (recordCodec) Name() string { return documentCodec{}.Name() }

func (recordCodec) Append(dst []byte, v value) ([]byte, error) {
	return documentCodec{}.Append(dst, v.Or(nil))
}

func (recordCodec) Decode(b []byte) (value, error) {
	d, err := documentCodec{}.Decode(b)
	if err != nil {
		return value{}, err
	}
	return topology.Some(d), nil
}
