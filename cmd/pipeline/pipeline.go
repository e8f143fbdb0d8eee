package pipeline

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"cel.dev/cel-go/cel"

	"github.com/onceward/onceward/cmd/internal/yamldoc"
	"github.com/onceward/onceward/topology"
)

// reader reads one file.
type reader struct {
	file *yamldoc.File
	env  *cel.Env
	// evidence is the topic of evidence, missing if there is none.
	evidence yamldoc.Value
	// decides says that there is a step that decides.
	decides bool
	// names are the places of the names that nodes and stores of the topology will have.
	names map[string]yamldoc.Value
	// sinks are the places of sink steps by their topics.
	sinks map[string]yamldoc.Position
}

func newReader(f *yamldoc.File) (*reader, error) {
	env, err := newEnv()
	if err != nil {
		return nil, fmt.Errorf("pipeline: the expression language: %w", err)
	}
	return &reader{
		file: f, env: env, names: map[string]yamldoc.Value{}, sinks: map[string]yamldoc.Position{},
	}, nil
}

// pipeline is a file that was read without mistakes.
type pipeline struct {
	name        yamldoc.Value
	deadLetters yamldoc.Value
	source      source
	steps       []step
}

// step is one step of a pipeline. It adds itself to the topology behind a stream, and returns the
// stream for the next step.
type step interface {
	declare(s stream) stream
}

func (r *reader) pipeline() pipeline {
	root := r.file.Root().Mapping("name", "dead_letters", "evidence", "source", "steps")
	p := pipeline{name: root.Required("name"), deadLetters: root.Optional("dead_letters")}
	r.evidence = root.Optional("evidence")
	p.name.Text()
	p.deadLetters.Text()
	p.source = r.source(root.Required("source"))
	steps := root.Required("steps")
	for _, v := range steps.List() {
		if s := r.step(v); s != nil {
			p.steps = append(p.steps, s)
		}
	}
	if r.evidence.Present() && !r.decides {
		r.evidence.Mistake("no step decides anything; remove evidence, or add dedupe, project, ledger or transition")
	}
	return p
}

// step reads a step: a mapping with the kind as its only key.
func (r *reader) step(v yamldoc.Value) step {
	entries := v.Mapping(kindNames...).Entries()
	if len(entries) > 1 {
		second := entries[1]
		r.file.Mistake(second.KeyPosition, "%s: a step has one kind, and %s is a second one; begin another step "+
			"with \"- \"", v.Path(), second.Key)
		return nil
	}
	if len(entries) == 0 {
		if v.IsEmptyMapping() {
			v.Mistake("a step needs a kind; possible: %s", strings.Join(kindNames, ", "))
		}
		return nil
	}
	return kinds[entries[0].Key](r, entries[0].Value)
}

// claim notes that a node or a store with that name comes from v, and says if another one has it.
// The builder would say so too, but with the places of this program.
func (r *reader) claim(name string, v yamldoc.Value) {
	first, taken := r.names[name]
	if !taken {
		r.names[name] = v
		return
	}
	v.Mistake("the name %q is taken in line %d; names are unique in a pipeline", name, first.Position().Line)
}

// build declares the topology. Mistakes that only the builder knows are noted at their places in
// the file.
func (p pipeline) build(r *reader) *topology.Topology {
	var opts []topology.BuilderOption
	if p.deadLetters.Present() {
		opts = append(opts, topology.DeadLetters(p.deadLetters.Text()))
	}
	b := topology.NewBuilder(p.name.Text(), opts...)
	s := p.source.declare(b)
	for _, step := range p.steps {
		s = step.declare(s)
	}
	t, err := b.Build()
	wrong, ok := errors.AsType[*topology.BuildError](err)
	if !ok {
		return t
	}
	p.note(r, wrong.Mistakes)
	return nil
}

// note notes at least one of the mistakes of the builder, and of those that follow from each other
// the first: a name that is wrong for a node is wrong for its stores, and for the sinks that are
// named after it.
func (p pipeline) note(r *reader, mistakes []*topology.Mistake) {
	told := map[yamldoc.Position]bool{}
	for _, derived := range []bool{false, true} {
		for _, m := range mistakes {
			place := p.placeOf(r, m)
			isDerived := strings.HasPrefix(m.Err.Error(), "name of the sink:")
			if isDerived == derived && !told[place.Position()] && !(derived && len(told) > 0) {
				place.Mistake("%s", oneLine(m.Err.Error()))
				told[place.Position()] = true
			}
		}
	}
}

// placeOf returns the value that a mistake of the builder is about.
func (p pipeline) placeOf(r *reader, m *topology.Mistake) yamldoc.Value {
	if v, ok := r.names[m.Node]; ok {
		return v
	}
	if m.Node == p.source.topic {
		return p.source.place
	}
	if topic := p.deadLetters.Text(); topic != "" && strings.Contains(m.Err.Error(), topic) {
		return p.deadLetters
	}
	return p.name
}

// source is where records come from.
type source struct {
	topic string
	place yamldoc.Value
	start topology.SourceOption
}

func (r *reader) source(v yamldoc.Value) source {
	m := v.Mapping("topic", "key", "value", "start")
	topic := m.Required("topic")
	s := source{topic: topic.Text(), place: topic, start: startOf(m.Optional("start"))}
	m.Optional("key").Choice("string")
	m.Optional("value").Choice("json")
	r.claim(s.topic+"-source", topic)
	return s
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

func (s source) declare(b *topology.Builder) stream {
	return topology.From(b, topicOf(s.topic), s.start)
}
