package pipeline

import (
	"math"
	"time"

	"github.com/onceward/onceward/cmd/internal/yamldoc"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
)

// tableStore is the store of a table.
func tableStore(name string, rows rowsIn) topology.Store[state.Timestamped[key, *document]] {
	store := topology.TimestampedStore(name, schemas.Codec[key](keyCodec{}), schemas.Codec[*document](documentCodec{}))
	return placed(rows, store)
}

// table makes a table of a stream.
type table struct {
	name string
	rows rowsIn
}

func readTable(r *reader, v yamldoc.Value) step {
	m := r.mapping(v, "name", inMemory)
	r.passes(aTable)
	return table{name: r.name(m), rows: readRowsIn(m)}
}

func (t table) declare(in flow, _ []flow) flow {
	return ofTable(topology.ToTableWithDeletes(in.stream, tableStore(t.name, t.rows)))
}

// changes makes a stream of a table.
type changes struct{}

func readChanges(r *reader, v yamldoc.Value) step {
	m := r.mapping(v, "name")
	r.passes(aStream)
	r.out.windowed = r.input().shape == someWindows
	r.name(m)
	return changes{}
}

func (changes) declare(in flow, _ []flow) flow { return ofStream(in.records()) }

// suppress holds the changes of a table back.
type suppress struct {
	name  string
	until topology.Suppression
}

func readSuppress(r *reader, v yamldoc.Value) step {
	m := r.mapping(v, "name", "limit", "max_records", "max_bytes")
	s := suppress{name: r.name(m)}
	if r.input().shape == someWindows {
		r.claimWindows(s.name, m)
	}
	s.until = topology.UntilTimeLimit(duration(m.Required("limit", "write how long the first change of a key waits, such as 10s"), time.Millisecond)).
		MaxRecords(bound(m.Optional("max_records"), math.MaxInt64)).MaxBytes(bound(m.Optional("max_bytes"), math.MaxInt64))
	return s
}

func (s suppress) declare(in flow, _ []flow) flow {
	values := schemas.Codec[*document](documentCodec{})
	if in.shape == someWindows {
		held := in.windows.table.Suppress(s.name, topology.WindowedTextCodec(schemas.Codec[key](keyCodec{})), values, s.until)
		return ofWindows(s.name, held)
	}
	return ofTable(in.table.Suppress(s.name, schemas.Codec[key](keyCodec{}), values, s.until))
}

// merge makes one stream of several.
type merge struct {
	name string
	with []int
}

func readMerge(r *reader, v yamldoc.Value) step {
	m := r.mapping(v, "name", "with")
	s := merge{name: r.name(m)}
	seen, mixed := map[int]bool{r.in: true}, false
	for _, with := range m.Required("with").List() {
		i := r.find(with)
		if i == noPlace {
			continue
		}
		other := r.places[i]
		switch {
		case other.shape != aStream && other.shape != unknown:
			with.Mistake("only streams are merged, and %s is %s", other, other.shape)
		case seen[i]:
			with.Mistake("%s is merged twice, which would double its records; remove it", other)
		case other.pattern != r.input().pattern:
			r.checkTasks(with, other)
			mixed = true
		}
		seen[i] = true
		r.out.windowed = r.out.windowed || other.windowed
		s.with = append(s.with, i)
	}
	if mixed {
		r.checkTasks(r.reads, r.input())
	}
	return s
}

func (m merge) declare(in flow, before []flow) flow {
	others := make([]stream, len(m.with))
	for i, at := range m.with {
		others[i] = before[at].stream
	}
	return ofStream(in.stream.Merge(m.name, others...))
}
