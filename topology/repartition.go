package topology

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology/graph"
)

// RepartitionOption is an option of [Stream.Repartition], [RepartitionWith] and [GroupBy].
type RepartitionOption interface{ applyRepartition(ref *topicRef) error }

type repartitionOption func(ref *topicRef) error

func (o repartitionOption) applyRepartition(ref *topicRef) error { return o(ref) }

// Partitions sets the number of partitions of a repartition topic. Without it the topic has as many
// as it needs: those of the topics that are read together with it, or the largest number among the
// sources that feed it.
func Partitions(n int32) RepartitionOption {
	return repartitionOption(func(ref *topicRef) error {
		if n < 1 {
			return fmt.Errorf("Partitions(%d): a topic has at least one partition", n)
		}
		ref.partitions = n
		return nil
	})
}

// Repartition sends the stream through a topic of its own, <application>-<name>-repartition, so
// that all records with one key meet in one task again after the key has changed. What follows is
// another subtopology, unless a store or another source ties it to this one. There the records come
// from that topic ([Record.Source]), unless they keep what they came from before ([KeepOrigin]).
//
// Keys and values are written with the codecs of the topic that the stream comes from. If that
// topic has keys or values of another Go type, Build reports a mistake: [RepartitionWith] takes the
// codecs.
//
// A [Partitioner] as an option chooses the partitions. The stream from the topic is then not
// partitioned by its keys, so an operator that keeps state by key wants [Stream.Copartitioned]
// before it. That is right if the partitioner goes by the key alone and no other topic is joined.
func (s Stream[K, V]) Repartition(name string, opts ...RepartitionOption) Stream[K, V] {
	b, pos := s.builder("Repartition("+name+")"), caller()
	key, keyErr := inheritedCodec[K](s.port.node.keyCodec, "keys")
	value, valueErr := inheritedCodec[V](s.port.node.valueCodec, "values")
	return repartition(s, b, pos, name, key, value, errors.Join(keyErr, valueErr), opts)
}

// RepartitionWith is [Stream.Repartition] with codecs for the topic.
func RepartitionWith[K, V any](
	s Stream[K, V], name string, key schemas.Codec[K], value schemas.Codec[V], opts ...RepartitionOption,
) Stream[K, V] {
	b, pos := s.builder("RepartitionWith("+name+")"), caller()
	return repartition(s, b, pos, name, key, value, nil, opts)
}

// GroupBy gives each record the key that f returns, and sends it through a repartition topic of
// that name. So an aggregation of the new key sees all records of the key. It is [SelectKey] and
// [Stream.Repartition] in one. The node that selects is called <name>-key. Values are written with
// the codec of the topic that the stream comes from. If that topic has values of another Go type,
// Build reports a mistake: write SelectKey and [RepartitionWith] then.
func GroupBy[K, V, K2 any](
	s Stream[K, V], name string, key schemas.Codec[K2], f func(key K, value V) (K2, error), opts ...RepartitionOption,
) Stream[K2, V] {
	b, pos := s.builder("GroupBy("+name+")"), caller()
	selected := addStep(s, name+keySuffix, "GroupBy", f != nil, nil,
		func(g *Graph, n *node, next Emit[K2, V]) Emit[K, V] {
			return func(c *Context, r Record[K, V]) error {
				caller := g.take(n)
				k, err := f(r.Key, r.Value)
				if err == nil {
					err = next(c, WithKey(r, k))
				}
				return g.leave(n, caller, err)
			}
		})
	value, err := inheritedCodec[V](s.port.node.valueCodec, "values")
	return repartition(selected, b, pos, name, key, value, err, opts)
}

// inheritedCodec returns the codec of a source topic if it is one for T; what says what it encodes.
func inheritedCodec[T any](codec any, what string) (schemas.Codec[T], error) {
	if c, ok := codec.(schemas.Codec[T]); ok {
		return c, nil
	}
	return nil, fmt.Errorf("the stream comes from no topic with %s of type %s, so their codec is not known; use RepartitionWith",
		what, reflect.TypeFor[T]())
}

// repartition adds a repartitioning, or the mistake in it; err is what is known to be wrong with
// the codecs.
func repartition[K, V any](
	s Stream[K, V], b *Builder, pos position, name string, key schemas.Codec[K], value schemas.Codec[V], err error,
	opts []RepartitionOption,
) Stream[K, V] {
	if nameErr := graph.CheckName(name); nameErr != nil {
		b.mistakeAt(pos, name, fmt.Errorf("name of the repartitioning: %w", nameErr))
	}
	if err != nil {
		b.mistakeAt(pos, name, err)
		n := &node{kind: sourceNode, name: name + graph.RepartitionSuffix + graph.SourceSuffix, pos: pos}
		return Stream[K, V]{b: b, port: addPort[K, V](b, n, "")}
	}
	return addRepartition(s, Topic(name, key, value), pos, opts)
}

// addRepartition adds the sink and the source of a repartition topic; t has the name that the user
// gave.
func addRepartition[K, V any](s Stream[K, V], t TopicOf[K, V], pos position, opts []RepartitionOption) Stream[K, V] {
	return addRepartitionTo(s, t, pos, opts, nil)
}

// addRepartitionTo is addRepartition with a partitioner of the operator's own, unless to is nil.
func addRepartitionTo[K, V any](
	s Stream[K, V], t TopicOf[K, V], pos position, opts []RepartitionOption, to *Partitioner[K, V],
) Stream[K, V] {
	b, ref := s.b, topicRef{name: t.name, repartition: true}
	for _, opt := range opts {
		err := errNilOption
		if opt != nil {
			err = opt.applyRepartition(&ref)
		}
		if err != nil {
			b.mistakeAt(pos, t.name, err)
		}
	}
	if ref.chooser != nil {
		if chooser, ok := ref.chooser.(Partitioner[K, V]); ok {
			to = &chooser
		} else {
			b.mistakeAt(pos, t.name, fmt.Errorf("partitioner %s is %s, and the records need %s",
				ref.partitioner, reflect.TypeOf(ref.chooser), reflect.TypeFor[Partitioner[K, V]]()))
		}
	}
	addSinkTo(b, s.port, t, ref.local()+sinkSuffix, ref, pos, nil, to)
	ref.formats, _ = t.formats()
	out := addSource(b, t, ref, pos, nil).notByKey()
	if ref.parks {
		out.port.node.park()
	}
	if ref.keepsOrigin {
		out.port.node.clause(OnPoison, keepsOriginClause)
	}
	return out
}

// The suffixes that make names of nodes. They are those of Kafka Streams.
const (
	sinkSuffix = "-sink"
	keySuffix  = "-key"
)
