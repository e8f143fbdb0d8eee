package topology

import (
	"errors"
	"fmt"

	"github.com/onceward/onceward/topology/graph"
)

// Builder collects the declarations of one topology. Declaring never fails: the builder notes
// mistakes, and Build returns all mistakes. A Builder is not safe for concurrent use.
type Builder struct {
	name        string
	pos         position
	application string
	deadLetters string
	stacks      bool
	policies    [classes]Policy
	nodes       []*node
	names       map[string]*node
	sources     map[string]sourceEntry
	globals     []*globalTable
	// patterns are the sources by pattern.
	patterns []*node
	mistakes []*Mistake
	// closed is set by Build.
	closed bool
	built  *Topology
}

// BuilderOption is an option of [NewBuilder].
type BuilderOption interface{ applyBuilder(b *Builder) }

type builderOption func(b *Builder)

func (o builderOption) applyBuilder(b *Builder) { o(b) }

// NewBuilder begins a topology. The name is also the default of the application id, which names the
// consumer group and prefixes internal topics, so it is as stable as the state: see
// [Topology.WithApplication].
func NewBuilder(name string, opts ...BuilderOption) *Builder {
	b := &Builder{
		name:        name,
		pos:         caller(),
		application: name,
		policies:    defaultPolicies,
		names:       map[string]*node{},
		sources:     map[string]sourceEntry{},
	}
	if err := graph.CheckName(name); err != nil {
		b.mistakeAt(b.pos, "", fmt.Errorf("name of the topology: %w", err))
	}
	for _, opt := range opts {
		if opt == nil {
			b.mistakeAt(b.pos, "", errNilOption)
			continue
		}
		opt.applyBuilder(b)
	}
	return b
}

// DeadLetters names the topic for records that failed and are not tried again. Without it, such a
// record stops its task. The topology must not read the topic itself, or a dead letter could fail
// for ever.
func DeadLetters(topic string) BuilderOption {
	return builderOption(func(b *Builder) {
		if err := graph.CheckTopicName(topic); err != nil {
			b.mistakeAt(b.pos, "", fmt.Errorf("dead-letter topic: %w", err))
			return
		}
		b.deadLetters = topic
	})
}

// DeadLetterStacks adds the stacks of panics to dead letters, as __streams.errors.stacktrace, cut
// to 4 KiB. They contain functions, files and lines, but no values. By default dead letters do not
// publish the shape of the program.
func DeadLetterStacks() BuilderOption { return builderOption(func(b *Builder) { b.stacks = true }) }

// NodeOption is an option of an operator.
type NodeOption interface{ applyNode(b *Builder, n *node) }

var (
	errNilOption = errors.New("an option is nil")
	errNilFunc   = errors.New("the function is nil")
	errClosed    = errors.New("declared after Build; a topology does not change")
)

func (b *Builder) mistakeAt(pos position, node string, err error) {
	b.mistakes = append(b.mistakes, &Mistake{Node: node, File: pos.file, Line: pos.line, Err: err})
}

// add notes a node. A node with a bad name is kept, so that what hangs on it is checked too.
func (b *Builder) add(n *node, opts []NodeOption) *node {
	n.policies = map[Class]Policy{}
	if b.closed {
		b.mistakeAt(n.pos, n.name, errClosed)
		return n
	}
	b.nodes = append(b.nodes, n)
	b.claim(n.name, n)
	for _, opt := range opts {
		if opt == nil {
			b.mistakeAt(n.pos, n.name, errNilOption)
			continue
		}
		opt.applyNode(b, n)
	}
	return n
}

func (b *Builder) claim(name string, n *node) {
	if n.kind == processorNode {
		// The names of sources and sinks are made of topics, which are checked as such.
		if err := graph.CheckName(name); err != nil {
			b.mistakeAt(n.pos, name, fmt.Errorf("name of the node: %w", err))
			return
		}
	}
	first, taken := b.names[name]
	if !taken {
		b.names[name] = n
		return
	}
	err := fmt.Errorf("the name is taken by the node declared at %s:%d; names are unique in a topology",
		first.pos.file, first.pos.line)
	if n.kind == sinkNode && !n.topic.repartition {
		err = fmt.Errorf("%w (a second sink of one topic is declared with IntoNamed)", err)
	}
	b.mistakeAt(n.pos, name, err)
}

// claimOutlet checks the name of an outlet of n before it is added.
func (b *Builder) claimOutlet(n *node, name string, pos position) {
	at := n.name + "." + name
	if b.closed {
		b.mistakeAt(pos, at, errClosed)
		return
	}
	if err := graph.CheckName(name); err != nil {
		b.mistakeAt(pos, at, fmt.Errorf("name of the outlet: %w", err))
	}
	for _, o := range n.outlets {
		if o.name == name {
			b.mistakeAt(pos, at, errors.New("the node has an outlet of that name"))
			return
		}
	}
}
