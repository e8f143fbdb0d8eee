package pipeline

import (
	"fmt"

	"github.com/onceward/onceward/cmd/internal/yamldoc"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// aggregation is a step that keeps a document for each key, or for each key and window. Its
// functions return nil to remove it.
type aggregation struct {
	name    string
	windows windowSpec
	rows    rowsIn
	// by is the key of the groups of a table.
	by *expression

	initial func() *document
	fold    func(sofar *document, r record) (*document, error)
	// merge combines sessions that become one.
	merge func(k key, sofar, other *document) (*document, error)
	// add and subtract take rows of a table in, and out again.
	add, subtract func(sofar *document, k key, row *document) (*document, error)
}

// The suffixes of the names of an aggregation.
const (
	closingSuffix = "-closing"
	groupSuffix   = "-by"
)

// readAggregation reads what counts and other aggregations have in common.
func (r *reader) readAggregation(m yamldoc.Mapping) aggregation {
	a := aggregation{name: r.name(m), windows: readWindows(m), rows: readRowsIn(m)}
	windows, by := m.Optional("windows"), m.Optional("by")
	a.by = r.compileIn(ofRows, by, "by", wantStringOrNull)
	switch in := r.input(); in.shape {
	case aStream:
		if by.Present() {
			by.Mistake("only the rows of a table are grouped, and %s is a stream; put a step rekey before this one, and remove by", in)
		}
	case aTable:
		m.Required("by", "write the key of the group that a row of the table "+in.String()+" belongs to")
		if windows.Present() {
			windows.Mistake("records are in windows, and %s is a table; put a step changes before this one, or remove windows", in)
		}
		if a.name != "" {
			for _, suffix := range []string{groupSuffix, groupSuffix + "-repartition-sink", groupSuffix + "-repartition-source"} {
				r.claim(a.name+suffix, m.Required("name"))
			}
		}
	default: // noted for the step
	}
	switch {
	case a.windows.kind == "":
		r.passes(aTable)
	case a.windows.closed:
		r.passes(aStream)
		r.out.windowed = true
		r.claimWindows(a.name, m, closingSuffix)
	default:
		r.passes(someWindows)
		r.claimWindows(a.name, m)
	}
	return a
}

func readAggregate(r *reader, v yamldoc.Value) step {
	m := r.mapping(v, "name", "initial", "value", "windows", "emit", "merge", "by", "subtract", inMemory)
	a := r.readAggregation(m)
	a.initial = r.readInitial(m.Required("initial", `write the aggregate of no records, such as '{"sum": 0}'`))
	merge, subtract := m.Optional("merge"), m.Optional("subtract")
	if a.windows.kind == "sessions" {
		merge = m.Required("merge", "write the aggregate of two sessions that become one: sofar and other")
	} else if merge.Present() {
		merge.Mistake("only sessions become one; remove it, or add windows: {sessions: ...}")
	}
	merging := r.compileIn(ofMerges, merge, "merge", wantObject)
	a.merge = func(k key, sofar, other *document) (*document, error) {
		return merging.Object(&record{Key: k}, binding{varSofar, optional(sofar)}, binding{varOther, optional(other)})
	}
	if r.input().shape == aTable {
		value := r.compileIn(ofGroups, m.Required("value"), "value", wantObjectOrNull)
		subtracted := r.compileIn(ofGroups, m.Required("subtract", "write the aggregate without a row that leaves the group"),
			"subtract", wantObjectOrNull)
		a.add, a.subtract = value.row, subtracted.row
		return a
	}
	if subtract.Present() && r.input().shape == aStream {
		subtract.Mistake("no record of a stream is taken back; remove it, or put a step table before this one")
	}
	value := r.compileIn(ofAggregates, m.Required("value"), "value", wantObjectOrNull)
	a.fold = func(sofar *document, rec record) (*document, error) {
		return removing(value.Object(&rec, binding{varSofar, optional(sofar)}))
	}
	return a
}

// row is an expression as a step of an aggregation of rows.
func (e *expression) row(sofar *document, k key, row *document) (*document, error) {
	return removing(e.Object(rowOf(k, row), binding{varSofar, optional(sofar)}))
}

// removing has a null remove the aggregate.
func removing(d *document, err error) (*document, error) {
	if err == nil && d == nil {
		return nil, topology.ErrRemove
	}
	return d, err
}

// readInitial reads the aggregate of no records.
func (r *reader) readInitial(v yamldoc.Value) func() *document {
	e := r.compileIn(ofNothing, v, "initial", wantObject)
	if e == nil {
		return nil
	}
	d, err := e.Object(&record{})
	if err != nil {
		v.Mistake("the expression cannot be evaluated: %s", schemas.ReasonOf(err))
		return nil
	}
	return func() *document { return &document{raw: d.raw} }
}

func readCount(r *reader, v yamldoc.Value) step {
	a := r.readAggregation(r.mapping(v, "name", "windows", "emit", "by", inMemory))
	a.fold = func(sofar *document, _ record) (*document, error) { return counted(countIn(sofar) + 1), nil }
	a.merge = func(_ key, sofar, other *document) (*document, error) {
		return counted(countIn(sofar) + countIn(other)), nil
	}
	a.add = func(sofar *document, _ key, _ *document) (*document, error) { return counted(countIn(sofar) + 1), nil }
	a.subtract = func(sofar *document, _ key, _ *document) (*document, error) { return counted(countIn(sofar) - 1), nil }
	return a
}

// counted is the document of a count, and countIn the count in it, 0 for none.
func counted(n int64) *document { return &document{raw: fmt.Appendf(nil, `{"count":%d}`, n)} }

func countIn(d *document) int64 {
	if d == nil {
		return 0
	}
	fields, _ := d.Tree().(map[string]any)
	n, _ := fields["count"].(int64)
	return n
}

func (a aggregation) declare(in flow, _ []flow) flow {
	keys, values := schemas.Codec[key](keyCodec{}), schemas.Codec[*document](documentCodec{})
	switch {
	case in.shape == aTable:
		group := func(k key, d *document) (key, *document, error) {
			to, err := a.by.Key(rowOf(k, d))
			return to, d, err
		}
		g := topology.GroupTable(in.table, a.name+groupSuffix, nullableKeys(), values, group)
		return ofTable(topology.AggregateTable(g, tableStore(a.name, a.rows), a.initial, a.add, a.subtract))
	case a.windows.kind == "":
		return ofTable(topology.Aggregate(in.stream, tableStore(a.name, a.rows), a.initial, a.fold))
	case a.windows.kind == "sessions":
		store := placed(a.rows, topology.SessionStore(a.name, keys, values, a.windows.sessions.Retention()))
		t := topology.AggregateSessions(in.stream, a.windows.sessions, store, a.initial, a.fold, a.merge)
		return a.results(t.Table, t.Closed)
	default:
		store := placed(a.rows, topology.WindowStore(a.name, keys, values, a.windows.windows.Retention()))
		t := topology.AggregateWindows(in.stream, a.windows.windows, store, a.initial, a.fold)
		return a.results(t.Table, t.Closed)
	}
}

// results are what an aggregation in windows passes on.
func (a aggregation) results(
	updates topology.Table[windowedKey, *document], closed func() topology.Stream[windowedKey, *document],
) flow {
	if a.windows.closed {
		return ofStream(windowRecords(closed(), a.name, optional))
	}
	return ofWindows(a.name, updates)
}
