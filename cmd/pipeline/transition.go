package pipeline

import (
	"github.com/onceward/onceward/cmd/internal/yamldoc"
	"github.com/onceward/onceward/processors/transition"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// refused are the transitions that a guard has refused.
type refused = topology.Stream[key, transition.Refused[string, value]]

type guard struct {
	name              string
	id, from, to      *expression
	version           *expression
	machine           transition.Machine[string]
	accepted, refused branch
	evidence          evidenceOf
}

func readTransition(r *reader, v yamldoc.Value) streamStep {
	m := r.mapping(v, "name", "id", "from", "to", "version", "initial", "next", "into", "refused")
	s := guard{name: r.name(m, "-aggregates", "-transitions")}
	s.id = r.compile(m.Required("id"), "id", wantString)
	s.from = r.compile(m.Required("from"), "from", wantStringOrNull)
	s.to = r.compile(m.Required("to"), "to", wantString)
	s.version = r.compile(m.Optional("version"), "version", wantInt)
	s.machine = readMachine(m.Required("initial"), m.Required("next"))
	s.accepted = r.branch(m.Optional("into"), s.name)
	s.refused = r.branch(m.Optional("refused"), s.name)
	s.evidence = r.evidenceOf(s.name)
	return s
}

// readMachine reads the states in which an aggregate may begin, and those that follow each one.
func readMachine(initial, next yamldoc.Value) transition.Machine[string] {
	m := transition.Machine[string]{Next: map[string][]string{}}
	entries := next.Mapping().Entries()
	for _, e := range entries {
		m.Next[e.Key] = nil
	}
	statesOf := func(v yamldoc.Value) (states []string) {
		for _, state := range v.List() {
			name := state.Text()
			if _, ok := m.Next[name]; !ok && name != "" && next.IsMapping() {
				state.Mistake("%q is no key of next, which has every state; a final one has the list []", name)
			}
			states = append(states, name)
		}
		return states
	}
	m.Initial = statesOf(initial)
	for _, e := range entries {
		if !e.Value.IsEmptyList() { // that of a final state is
			m.Next[e.Key] = statesOf(e.Value)
		}
	}
	return m
}

func (g guard) declare(s stream) stream {
	opts := []transition.Option{transition.Key[key](keyCodec{})}
	if g.version != nil {
		opts = append(opts, transition.Versioned())
	}
	if g.refused.topic != "" {
		opts = append(opts, transition.EmitRefused())
	}
	guarded := transition.Guard(s, g.name, g.machine, g.transition, opts...)
	into(g.accepted, guarded.Facts, schemas.JSON[transition.Fact[string]]())
	into(g.refused, func() refused { return guarded.Refused() }, refusedCodec())
	g.evidence.record(guarded.Decisions)
	return guarded.Accepted()
}

func (g guard) transition(r record) (t transition.Transition[string], err error) {
	if t.ID, err = g.id.Text(&r); err != nil {
		return t, err
	}
	if t.From, err = g.from.TextOrNull(&r); err != nil {
		return t, err
	}
	if t.To, err = g.to.Text(&r); err != nil || g.version == nil {
		return t, err
	}
	t.Version, err = g.version.Int(&r)
	return t, err
}

// refusedCodec writes a null value as null: an Option has no JSON form of its own.
func refusedCodec() schemas.Codec[transition.Refused[string, value]] {
	return through(
		func(r transition.Refused[string, value]) transition.Refused[string, *document] {
			return transition.Refused[string, *document]{
				Refusal: r.Refusal, Reason: r.Reason, Transition: r.Transition, State: r.State, Version: r.Version,
				Value: r.Value.Or(nil),
			}
		},
		func(r transition.Refused[string, *document]) transition.Refused[string, value] {
			return transition.Refused[string, value]{
				Refusal: r.Refusal, Reason: r.Reason, Transition: r.Transition, State: r.State, Version: r.Version,
				Value: optional(r.Value),
			}
		})
}
