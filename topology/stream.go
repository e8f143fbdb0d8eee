package topology

import (
	"errors"
	"fmt"

	"github.com/onceward/onceward/topology/graph"
)

// Stream is a stream of typed records at one place of a topology that is being built. Operators
// that keep the types are methods; operators that change them are functions. Each operator has a
// name that is unique in the topology. The name stays when other operators are added or removed.
//
// A stream may be used any number of times: every operator on it gets every record, in the order of
// the declarations. A stream that nothing uses ends there.
//
// The zero Stream belongs to no builder. Using it panics, because no builder can report the
// mistake.
type Stream[K, V any] struct {
	b    *Builder
	port *port[K, V]
	// rekeyed is the operator that may have changed the key since the records were last partitioned
	// by it, nil if none has.
	rekeyed *node
}

var errForeign = errors.New("it belongs to another Builder")

// builder returns the builder of s; declaring is what the caller is about to do.
func (s Stream[K, V]) builder(declaring string) *Builder {
	if s.b == nil {
		panic("topology: " + declaring + " uses the zero Stream; streams come from From and from operators")
	}
	return s.b
}

// Into writes the stream to a topic. The partition follows from the key as Kafka's default
// partitioner has it (murmur2); a null key goes to the partition with the number of the task,
// modulo the number of partitions. A topic with a partitioner ([TopicOf.PartitionedBy]) is asked
// instead. Timestamp and headers are the record's.
//
// The sink is named after the topic. A second one for the same topic needs [Stream.IntoNamed].
func (s Stream[K, V]) Into(t TopicOf[K, V], opts ...NodeOption) {
	b := s.builder("Into(" + t.name + ")")
	addSink(b, s.port, t, t.name+sinkSuffix, topicRef{name: t.name}, caller(), opts)
}

// IntoNamed is [Stream.Into] with a name for the sink.
func (s Stream[K, V]) IntoNamed(name string, t TopicOf[K, V], opts ...NodeOption) {
	b, pos := s.builder("IntoNamed("+name+")"), caller()
	if err := graph.CheckName(name); err != nil {
		b.mistakeAt(pos, name, fmt.Errorf("name of the sink: %w", err))
	}
	addSink(b, s.port, t, name, topicRef{name: t.name}, pos, opts)
}

func addSink[K, V any](
	b *Builder, p *port[K, V], t TopicOf[K, V], name string, ref topicRef, pos position, opts []NodeOption,
) {
	partitioner, err := t.partitionedBy()
	if err != nil {
		b.mistakeAt(pos, name, err)
	}
	ref.partitioner = partitioner
	addSinkTo(b, p, t, name, ref, pos, opts, t.partitioner)
}

// addSinkTo is addSink with a partitioner, unless to is nil.
func addSinkTo[K, V any](
	b *Builder, p *port[K, V], t TopicOf[K, V], name string, ref topicRef, pos position, opts []NodeOption, to *Partitioner[K, V],
) {
	f, err := t.formats()
	if err != nil {
		b.mistakeAt(pos, name, err)
	}
	ref.formats = f
	if !ref.repartition {
		if err := graph.CheckTopicName(ref.name); err != nil {
			b.mistakeAt(pos, name, fmt.Errorf("sink topic: %w", err))
		}
	}
	n := b.add(&node{kind: sinkNode, name: name, pos: pos, topic: ref, rows: t.rows()}, opts)
	if ref.partitioner != "" {
		n.clause(KeyAssumption, partitionedClause(ref.partitioner))
	}
	connect(b, p, n, once(n, func(g *Graph) (Emit[K, V], error) {
		s, err := g.newSink(n)
		if err != nil {
			return nil, err
		}
		if to != nil {
			return func(c *Context, r Record[K, V]) error {
				if err := writeOutput(g, n, s, &t, &r); err != nil {
					return err
				}
				return redirect(g, n, s, to, &r)
			}, nil
		}
		return func(c *Context, r Record[K, V]) error { return writeOutput(g, n, s, &t, &r) }, nil
	}))
}
