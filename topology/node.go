package topology

import (
	"maps"
	"slices"
	"time"

	"github.com/onceward/onceward/topology/graph"
)

type nodeKind uint8

const (
	sourceNode nodeKind = iota
	processorNode
	sinkNode
)

func (k nodeKind) String() string {
	switch k {
	case sourceNode:
		return "Source"
	case processorNode:
		return "Processor"
	default:
		return "Sink"
	}
}

// node is one node of a topology. It is written while the topology is built and never afterwards.
type node struct {
	kind     nodeKind
	name     string
	pos      position
	policies map[Class]Policy
	// parents are the outlets that feed the node.
	parents []*outlet
	outlets []*outlet
	stores  []storeInfo
	// globals are the stores of the global tables that the node looks into.
	globals []storeInfo
	// rekeyed is that of the streams of the outlets that the user has declared.
	rekeyed *node
	// windows describes the windows of the node; empty if it makes none.
	windows string
	// suppression says how long the node holds changes back; empty if it does not.
	suppression string
	// grace says how long records of a join wait; empty if they do not.
	grace string
	// clauses are what the node says about itself.
	clauses []Clause
	// dedupeWindow is nil if the node has declared no dedupe window.
	dedupeWindow *graph.DedupeWindow

	// topic is what a source reads or a sink writes.
	topic topicRef
	// start, keepDeadLetterHeaders, skipNullKeys and invalid are for sources.
	start                 graph.Start
	keepDeadLetterHeaders bool
	skipNullKeys          bool
	invalid               InvalidTimestamp
	// keyCodec and valueCodec are those of the topic of the node's records, as schemas.Codec of
	// some type. They are nil if the records come from no topic.
	keyCodec, valueCodec any
	// rows are the codecs of a source or a sink.
	rows graph.Rows
	// delay and of are for the source of a delayed retry topic: how long its records wait, and the
	// source that they come from. retries are those of a source, in the order of RetryTopics.
	delay   time.Duration
	of      *node
	retries []*node
	// parked is the store of records that wait, empty for a source that has none.
	parked string
	// restores says that tables are restored from the topic of the source, and tables are those.
	restores bool
	tables   []restoredTable
	// looksOnly says that the node writes to none of its stores but the one that it is named after.
	looksOnly bool
	// feedback says that a sink writes to a source of the topology on purpose.
	feedback bool
	// deadEnd says that the node fails every record.
	deadEnd bool
	// read makes a source in g.
	read func(g *Graph) (graphSource, error)
	// instantiate makes any other node in g; it does nothing if the node is there.
	instantiate func(g *Graph) error
	// incomplete names the missing part of the node; empty when it is complete.
	incomplete string
	// checks find mistakes in the declaration that show only once everything is declared.
	checks []func() error
}

// topicRef names a topic before the application id is known.
type topicRef struct {
	// name is the topic, or the name that the user gave to the repartitioning.
	name        string
	repartition bool
	// partitions is the declared number of a repartition topic, 0 if there is none.
	partitions int32
	// parks and keepsOrigin say that ParkKeys and KeepOrigin were given to a repartition topic.
	parks, keepsOrigin bool
	formats            formats
	// partitioner is the name of the partitioner, empty for Kafka's default one.
	partitioner string
	// pattern is set for a source by pattern. The topic is then each one that matches, and name is
	// that of the source.
	pattern *pattern
	// chooser is the Partitioner given to a repartition topic, of some types; nil if there is none.
	chooser any
}

// local returns the name without the application id.
func (t topicRef) local() string {
	if t.repartition {
		return t.name + graph.RepartitionSuffix
	}
	return t.name
}

// on returns the name on the cluster.
func (t topicRef) on(application string) string {
	if t.repartition {
		return application + "-" + t.local()
	}
	return t.name
}

// outlet is where records leave a node. port adds the types.
type outlet struct {
	node *node
	// name is empty where a node has only one.
	name     string
	children []*node
	// noDeadEnd says why nothing that leaves here can become a dead letter; empty if it can.
	noDeadEnd string
}

// port is an outlet with its types, and with the functions that make its children for a graph.
type port[K, V any] struct {
	outlet
	next []func(g *Graph) (Emit[K, V], error)
}

// Emit passes a record on to the next nodes. The error is nil or a failure of this record further
// down. Such a failure fails the whole record, even if the caller ignores it.
type Emit[K, V any] func(c *Context, r Record[K, V]) error

// addPort adds an outlet to n. After Build the outlet is a loose one, so that the topology stays as
// it is.
func addPort[K, V any](b *Builder, n *node, name string) *port[K, V] {
	p := &port[K, V]{outlet: outlet{node: n, name: name}}
	if !b.closed {
		n.outlets = append(n.outlets, &p.outlet)
	}
	return p
}

// connect makes n a child of p; entry makes the child in a graph, once. After Build it does
// nothing.
func connect[K, V any](b *Builder, p *port[K, V], n *node, entry func(g *Graph) (Emit[K, V], error)) {
	if b.closed {
		return
	}
	n.instantiate = func(g *Graph) error {
		_, err := entry(g)
		return err
	}
	if n.keyCodec == nil && n.valueCodec == nil {
		n.keyCodec, n.valueCodec = p.node.keyCodec, p.node.valueCodec
	}
	p.children = append(p.children, n)
	n.parents = append(n.parents, &p.outlet)
	p.next = append(p.next, entry)
}

// once returns build as a function that builds at most once for a graph: a node with several
// parents is one node.
func once[E any](n *node, build func(g *Graph) (E, error)) func(g *Graph) (E, error) {
	return func(g *Graph) (E, error) {
		if entries, ok := g.entries[n].(E); ok {
			return entries, nil
		}
		entries, err := build(g)
		if err == nil {
			g.entries[n] = entries
		}
		return entries, err
	}
}

// opening returns what a node of this package with the output p is in a graph. open gets the
// function that passes a record on, and returns the ways into the node. It notes mistakes in t.
func opening[E, K2, V2 any](n *node, p *port[K2, V2], open func(t *Setup, next Emit[K2, V2]) E) func(g *Graph) (E, error) {
	return once(n, func(g *Graph) (entries E, err error) {
		next, err := link(g, p)
		if err != nil {
			return entries, err
		}
		err = g.prepare(n, func(t *Setup) { entries = open(t, next) })
		return entries, err
	})
}

// entrance returns the entry of a node that choose picks.
func entrance[E, K, V any](n *node, entries func(g *Graph) (E, error), choose func(E) Emit[K, V]) func(g *Graph) (Emit[K, V], error) {
	return func(g *Graph) (Emit[K, V], error) {
		e, err := entries(g)
		if err != nil {
			return nil, err
		}
		return guard(g, n, choose(e)), nil
	}
}

// onlyEntrance is for a node with one way in.
func onlyEntrance[K, V any](entry Emit[K, V]) Emit[K, V] { return entry }

// link returns what passes a record to all children of p, in the order in which they were
// connected.
func link[K, V any](g *Graph, p *port[K, V]) (Emit[K, V], error) {
	entries := make([]Emit[K, V], len(p.next))
	for i, next := range p.next {
		entry, err := next(g)
		if err != nil {
			return nil, err
		}
		entries[i] = entry
	}
	switch len(entries) {
	case 0:
		return func(*Context, Record[K, V]) error { return nil }, nil
	case 1:
		return entries[0], nil
	}
	return func(c *Context, r Record[K, V]) error {
		for _, entry := range entries {
			if err := entry(c, r); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// parentNames and childNames are sorted and without repetitions.
func (n *node) parentNames() []string {
	names := map[string]bool{}
	for _, p := range n.parents {
		names[p.node.name] = true
	}
	return slices.Sorted(maps.Keys(names))
}

func (n *node) childNames() []string {
	names := map[string]bool{}
	for _, o := range n.outlets {
		for _, child := range o.children {
			names[child.name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

func (n *node) storeNames() []string { return namesOf(n.stores) }

func (n *node) globalNames() []string { return namesOf(n.globals) }

// namesOf returns the names of stores, sorted and without repetitions.
func namesOf(stores []storeInfo) []string {
	names := make([]string, len(stores))
	for i, s := range stores {
		names[i] = s.name
	}
	slices.Sort(names)
	return slices.Compact(names)
}
