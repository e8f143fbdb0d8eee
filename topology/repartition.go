package topology

import (
	"fmt"

	"github.com/onceward/onceward/schemas"
)

// RepartitionOption is an option of [Repartition].
type RepartitionOption interface{ applyRepartition(ref *topicRef) error }

type repartitionOption func(ref *topicRef) error

func (o repartitionOption) applyRepartition(ref *topicRef) error { return o(ref) }

// Partitions sets the number of partitions of a repartition topic. Without it the topic has as many as it
// needs: those of the topics that are read together with it, or the largest number among the sources that
// feed it.
func Partitions(n int32) RepartitionOption {
	return repartitionOption(func(ref *topicRef) error {
		if n < 1 {
			return fmt.Errorf("Partitions(%d): a topic has at least one partition", n)
		}
		ref.partitions = n
		return nil
	})
}

// Repartition sends the stream through a topic of its own, <application>-<name>-repartition, so that all
// records with one key meet in one task again after the key has changed. What follows is another
// subtopology, unless a store or another source ties it to this one. There the records come from that topic
// ([Record.Source]), unless they keep what they came from before ([KeepOrigin]).
func Repartition[K, V any](
	s Stream[K, V], name string, key schemas.Codec[K], value schemas.Codec[V], opts ...RepartitionOption,
) Stream[K, V] {
	b, pos := s.builder("Repartition("+name+")"), caller()
	if err := checkName(name); err != nil {
		b.mistakeAt(pos, name, fmt.Errorf("name of the repartitioning: %w", err))
	}
	return addRepartition(s, Topic(name, key, value), pos, opts)
}

// addRepartition adds the sink and the source of a repartition topic; t has the name that the user gave.
func addRepartition[K, V any](s Stream[K, V], t TopicOf[K, V], pos position, opts []RepartitionOption) Stream[K, V] {
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
	addSink(b, s.port, t, ref.local()+sinkSuffix, ref, pos, nil)
	ref.formats, _ = t.formats()
	out := addSource(b, t, ref, pos, nil)
	if ref.parks {
		out.port.node.park()
	}
	if ref.keepsOrigin {
		out.port.node.clause(OnPoison, keepsOriginClause)
	}
	return out
}

// The suffixes that make names of nodes and internal topics; those of the topics are Kafka Streams'.
const (
	sourceSuffix      = "-source"
	sinkSuffix        = "-sink"
	repartitionSuffix = "-repartition"
	changelogSuffix   = "-changelog"
	roundsSuffix      = "-rounds"
)
