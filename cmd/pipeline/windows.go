package pipeline

import (
	"strings"
	"time"

	"github.com/onceward/onceward/cmd/internal/yamldoc"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// windowedKey is the key of a row of a table of windows.
type windowedKey = topology.Windowed[key]

// windowKinds are the keys that say which windows there are.
var windowKinds = []string{"tumbling", "hopping", "sliding", "sessions"}

// windowSpec are the windows of an aggregation. The zero value is none.
type windowSpec struct {
	// kind is one of windowKinds.
	kind     string
	windows  topology.Windows
	sessions topology.SessionWindows
	// closed says that results are emitted when windows close.
	closed bool
}

// readWindows reads the windows of an aggregation, and when it emits.
func readWindows(m yamldoc.Mapping) windowSpec {
	v, emit := m.Optional("windows"), m.Optional("emit")
	w := windowSpec{closed: emit.Choice("updates", "closed") == "closed"}
	if !v.Present() {
		if emit.Present() {
			emit.Mistake("there are no windows that could close; add windows, or remove emit")
		}
		return w
	}
	spec := v.Mapping("tumbling", "hopping", "sliding", "sessions", "advance", "grace")
	advance := spec.Optional("advance")
	every, grace := duration(advance, time.Millisecond), duration(spec.Optional("grace"), 0)
	for _, kind := range windowKinds {
		size := spec.Optional(kind)
		if !size.Present() {
			continue
		}
		if w.kind != "" {
			size.Mistake("windows have one kind, and these are %s; keep one", w.kind)
			continue
		}
		w.kind = kind
		length := duration(size, time.Millisecond)
		switch kind {
		case "tumbling":
			w.windows = topology.Tumbling(length).Grace(grace)
		case "hopping":
			spec.Required("advance", "write how long after each other windows begin, such as 10s")
			w.windows = topology.Hopping(length, every).Grace(grace)
			if length > 0 && every > length {
				advance.Mistake("must be at most the size of the windows, %s, or records would be in none", length)
			}
		case "sliding":
			w.windows = topology.Sliding(length).Grace(grace)
		case "sessions":
			w.sessions = topology.Sessions(length).Grace(grace)
		}
	}
	if w.kind == "" && v.IsMapping() {
		v.Mistake("has no kind of windows; add one of %s, such as tumbling: 1m", strings.Join(windowKinds, ", "))
	}
	if advance.Present() && w.kind != "" && w.kind != "hopping" {
		advance.Mistake("only hopping windows advance; remove it")
	}
	return w
}

// claimWindows claims the names that belong to an aggregation in windows beside its own.
func (r *reader) claimWindows(step string, m yamldoc.Mapping, suffixes ...string) {
	if step == "" {
		return
	}
	for _, suffix := range append(suffixes, windowsSuffix) {
		r.claim(step+suffix, m.Required("name"))
	}
}

// windowsSuffix makes the name of the node that writes windows into records.
const windowsSuffix = "-windows"

// windowed is a table of windows in a topology.
type windowed struct {
	// name is that of the step.
	name  string
	table topology.Table[windowedKey, *document]
	// out are the changes as records, once a step has asked for them.
	out  stream
	made bool
}

func ofWindows(name string, t topology.Table[windowedKey, *document]) flow {
	return flow{shape: someWindows, windows: &windowed{name: name, table: t}}
}

func (w *windowed) records() stream {
	if !w.made {
		w.out, w.made = windowRecords(w.table.Stream(), w.name, func(v value) value { return v }), true
	}
	return w.out
}

// windowRow is a row of a table of windows, as it is written to topics and seen by expressions.
type windowRow struct {
	Key   string    `json:"key"`
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
	Value *document `json:"value"`
}

var (
	windowKeys = topology.WindowedTextCodec(schemas.Codec[key](keyCodec{}))
	windowRows = schemas.JSON[windowRow]()
)

// windowRecords makes records of the rows of windows. The key is text with the times of the window.
func windowRecords[V any](s topology.Stream[windowedKey, V], step string, valueOf func(V) value) stream {
	return topology.Map(s, step+windowsSuffix, func(r topology.Record[windowedKey, V]) (record, error) {
		name, err := windowKeys.Append(nil, r.Key)
		if err != nil {
			return record{}, topology.Fail(topology.Validation, err)
		}
		var out value
		if d, ok := valueOf(r.Value).Get(); ok {
			raw, err := windowRows.Append(nil, windowRow{
				Key: r.Key.Key.Or(""), Start: time.UnixMilli(r.Key.Start).UTC(), End: time.UnixMilli(r.Key.End).UTC(), Value: d,
			})
			if err != nil {
				return record{}, topology.Fail(topology.Validation, err)
			}
			out = topology.Some(&document{raw: raw})
		}
		return topology.WithKey(topology.WithValue(r, out), topology.Some(string(name))), nil
	})
}
