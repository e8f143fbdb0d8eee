package pipeline

import (
	"errors"
	"fmt"
	"strings"

	"github.com/onceward/onceward/cmd/internal/yamldoc"
	"github.com/onceward/onceward/topology"
)

// reader reads one file.
type reader struct {
	file *yamldoc.File
	// languages are those of expressions, by their variables.
	languages map[string]*language
	// evidence is the topic of evidence, missing if there is none.
	evidence yamldoc.Value
	// decides says that there is a step that decides.
	decides bool
	// names are the places of the names that nodes and stores of the topology will have.
	names map[string]yamldoc.Value
	// topics are the places of the topics of sources.
	topics map[string]yamldoc.Value
	// patterns are the sources by pattern.
	patterns []patternOf
	// sinks are the places of sink steps by their topics.
	sinks map[string]yamldoc.Position
	// outputs are the places of the topics that steps write.
	outputs []yamldoc.Value

	// places are the sources and steps so far, and placesOf their indexes by name.
	places   []*place
	placesOf map[string][]int
	// sourceCount is how many of the places are sources; 0 while sources are read.
	sourceCount int
	// previous is the place before the current step, in the one that the step reads, and out what
	// it passes on. reads is where the file says what the step reads.
	previous, in int
	reads        yamldoc.Value
	out          place
}

func newReader(f *yamldoc.File) (*reader, error) {
	r := &reader{
		file: f, languages: map[string]*language{}, names: map[string]yamldoc.Value{}, topics: map[string]yamldoc.Value{},
		sinks: map[string]yamldoc.Position{}, placesOf: map[string][]int{}, previous: noPlace, in: noPlace,
	}
	if err := r.learn(); err != nil {
		return nil, fmt.Errorf("pipeline: the expression language: %w", err)
	}
	return r, nil
}

// pipeline is a file that was read without mistakes.
type pipeline struct {
	name        yamldoc.Value
	deadLetters yamldoc.Value
	sources     []source
	steps       []plannedStep
}

func (r *reader) pipeline() pipeline {
	root := r.file.Root().Mapping("name", "dead_letters", "evidence", "source", "sources", "steps")
	p := pipeline{name: root.Required("name"), deadLetters: root.Optional("dead_letters")}
	r.evidence = root.Optional("evidence")
	p.name.Text()
	p.deadLetters.Text()
	p.sources = r.sources(root)
	r.sourceCount = len(r.places)
	steps := root.Required("steps")
	for _, v := range steps.List() {
		p.steps = append(p.steps, r.step(v))
	}
	r.checkUnread(p.sources)
	r.checkPatterns(p.deadLetters)
	if r.evidence.Present() && !r.decides {
		r.evidence.Mistake("no step decides anything; remove evidence, or add dedupe, project, ledger or transition")
	}
	return p
}

// step reads a step: a mapping with the kind as its only key.
func (r *reader) step(v yamldoc.Value) plannedStep {
	r.in, r.out = noPlace, place{at: v.Position()}
	defer func() {
		r.previous = len(r.places)
		r.add(r.out)
	}()
	entries := v.Mapping(kindNames...).Entries()
	if len(entries) > 1 {
		second := entries[1]
		r.file.Mistake(second.KeyPosition, "%s: a step has one kind, and %s is a second one; begin another step "+
			"with \"- \"", v.Path(), second.Key)
		return plannedStep{}
	}
	if len(entries) == 0 {
		if v.IsEmptyMapping() {
			v.Mistake("a step needs a kind; possible: %s", strings.Join(kindNames, ", "))
		}
		return plannedStep{}
	}
	k, body := kinds[entries[0].Key], entries[0].Value
	s := k.read(r, body)
	r.checkInput(k)
	return plannedStep{step: s, in: r.in}
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
	var flows []flow
	for _, s := range p.sources {
		flows = append(flows, s.declare(b))
	}
	for _, s := range p.steps {
		flows = append(flows, s.step.declare(flows[s.in], flows))
	}
	t, err := b.Build()
	wrong, ok := errors.AsType[*topology.BuildError](err)
	if !ok {
		return t
	}
	p.note(r, wrong.Mistakes)
	return nil
}

// note notes at least one of the mistakes of the builder. Among mistakes that follow from each
// other it notes the first: a wrong name of a node is also wrong for its stores and sinks.
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
	if v, ok := r.topics[m.Node]; ok {
		return v
	}
	if topic := p.deadLetters.Text(); topic != "" && strings.Contains(m.Err.Error(), topic) {
		return p.deadLetters
	}
	return p.name
}
