package pipeline

import (
	"slices"
	"strings"

	"github.com/onceward/onceward/cmd/internal/yamldoc"
	"github.com/onceward/onceward/topology"
)

// shape is what a source or a step passes on.
type shape uint8

const (
	// unknown is the shape behind a mistake. Every step takes it, so that one mistake is enough.
	unknown shape = iota
	// aStream is records.
	aStream
	// aTable is the newest value of each key.
	aTable
	// aGlobalTable is a table of all partitions of a topic.
	aGlobalTable
	// someWindows is a table with a row for each key and window.
	someWindows
)

// String returns the shape as messages name it.
func (s shape) String() string {
	return [...]string{"unknown", "a stream", "a table", "a global table", "a table of windows"}[s]
}

// place is a source or a step of the file, for the steps that read it.
type place struct {
	// name is empty for a sink.
	name  string
	at    yamldoc.Position
	shape shape
	// windowed says that the keys of the records name windows, so that records of one key of the
	// source are in several partitions.
	windowed bool
	// unkept says that the rows of the table are in no store, so that they cannot be looked up.
	unkept bool
	// pattern is the source by pattern whose tasks pass the records on, empty if other tasks do.
	pattern string
	// read says that a step reads the place.
	read bool
}

// String names the place in messages.
func (p *place) String() string {
	if p.name == "" {
		return "the step before"
	}
	return p.name
}

// flow is what a source or a step of the topology passes on. It has the part of its shape.
type flow struct {
	stream  stream
	table   topology.Table[key, *document]
	global  topology.GlobalTable[key, *document]
	windows *windowed
	shape   shape
}

func ofStream(s stream) flow { return flow{shape: aStream, stream: s} }

func ofTable(t topology.Table[key, *document]) flow { return flow{shape: aTable, table: t} }

// records returns the records of a stream, or the values after each change of a table.
func (f flow) records() stream {
	switch f.shape {
	case aTable:
		return f.table.Stream()
	case someWindows:
		return f.windows.records()
	default:
		return f.stream
	}
}

// step is one step of a pipeline. It adds itself to the topology behind in, and returns what the
// next step reads. before has what the sources and the steps before it pass on.
type step interface {
	declare(in flow, before []flow) flow
}

// streamStep is a step that reads a stream and passes on a stream.
type streamStep interface {
	declare(s stream) stream
}

// onStream is a streamStep as a step.
type onStream struct{ streamStep }

func (o onStream) declare(in flow, _ []flow) flow { return ofStream(o.streamStep.declare(in.stream)) }

// streaming is the reader of a streamStep.
func streaming(read func(r *reader, v yamldoc.Value) streamStep) func(r *reader, v yamldoc.Value) step {
	return func(r *reader, v yamldoc.Value) step { return onStream{read(r, v)} }
}

// plannedStep is a step with the place that it reads.
type plannedStep struct {
	step step
	in   int
}

// add notes a place that later steps can read. A name that two sources or two steps have is a
// mistake of its own, and stands for the first one.
func (r *reader) add(p place) {
	first := r.placesOf[p.name]
	if p.name != "" && (len(first) == 0 || r.sourceCount > 0 && len(first) == 1 && first[0] < r.sourceCount) {
		r.placesOf[p.name] = append(first, len(r.places))
	}
	r.places = append(r.places, &p)
}

// noPlace is the index of a place that there is not.
const noPlace = -1

// mapping reads the keys of a step, and what the step reads: the key reads, or else the step
// before.
func (r *reader) mapping(v yamldoc.Value, known ...string) yamldoc.Mapping {
	m := v.Mapping(append(known, "reads")...)
	r.reads = v
	switch reads := m.Optional("reads"); {
	case reads.Present():
		r.in, r.reads = r.find(reads), reads
	case r.previous != noPlace:
		r.in = r.previous
	case v.IsMapping() && len(r.placesOf) > 0:
		v.Mistake("the key \"reads\" is missing; the first step names the source that it reads: %s", r.possible())
	}
	if r.in != noPlace {
		in := r.places[r.in]
		in.read = true
		r.out.shape, r.out.windowed, r.out.unkept, r.out.pattern = in.shape, in.windowed, in.unkept, in.pattern // unless the step says otherwise
	}
	return m
}

// input is the place that the current step reads.
func (r *reader) input() *place {
	if r.in == noPlace {
		return &place{}
	}
	return r.places[r.in]
}

// find returns the index of the place that v names.
func (r *reader) find(v yamldoc.Value) int {
	name := v.Text()
	if name == "" {
		return noPlace
	}
	switch found := r.placesOf[name]; len(found) {
	case 0:
		v.Mistake("there is no source and no earlier step %q; possible: %s", name, r.possible())
	case 1:
		r.places[found[0]].read = true
		return found[0]
	default:
		v.Mistake("%q is the name of the source in line %d and of the step in line %d; rename the step", name,
			r.places[found[0]].at.Line, r.places[found[1]].at.Line)
	}
	return noPlace
}

// possible lists the names that a step can read.
func (r *reader) possible() string {
	var names []string
	for _, p := range r.places {
		if p.name != "" && !slices.Contains(names, p.name) {
			names = append(names, p.name)
		}
	}
	return strings.Join(names, ", ")
}

// passes says what the current step passes on, for the steps that read it.
func (r *reader) passes(s shape) {
	r.out.shape, r.out.windowed, r.out.unkept, r.out.pattern = s, false, false, ""
}

// checkInput notes a mistake if the current step, of that kind, cannot read its input.
func (r *reader) checkInput(k kind) {
	in, at := r.input(), r.reads
	switch {
	case in.shape == unknown:
	case in.shape == aGlobalTable:
		at.Mistake("%s is a global table, which no step reads; a join names it in with", in)
	case slices.Contains(k.reads, in.shape):
		if k.looks {
			r.checkKept(at, in)
		}
		if k.keyed && in.windowed {
			at.Mistake("the step keeps state by key, and the keys of %s name windows; put a step rekey: {key: event.key} between", in)
		}
		if k.keyed {
			r.checkTasks(at, in)
		}
	case slices.Contains(k.reads, aStream):
		at.Mistake("the step reads a stream, and %s is %s; put a step changes between", in, in.shape)
	default:
		at.Mistake("the step reads a table, and %s is %s; put a step table between", in, in.shape)
	}
}

// checkKept notes a mistake if a step looks up rows that are in no store. at names the place in.
func (r *reader) checkKept(at yamldoc.Value, in *place) {
	if in.unkept {
		at.Mistake("the results of the join %s are in no store, and this step looks them up; put the steps changes and table behind the join", in)
	}
}
