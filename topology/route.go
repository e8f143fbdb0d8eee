package topology

import (
	"errors"
	"fmt"

	"github.com/onceward/onceward/schemas"
)

// IntoOneOf writes each record to the one of the topics that choose returns: which topic is decided
// by the record, and which topics there are when the topology is declared. So they can be looked at
// before anything runs, their number of partitions stays the same while a round is tried again, and
// a record cannot invent a topic. A topic that is none of them, or an error, fails the record; the
// class of the former is Config.
//
// The node has one sink for each topic, named after both: <name>.<topic>. What is said of
// [Stream.Into] holds for each.
func (s Stream[K, V]) IntoOneOf(
	name string, choose func(r Record[K, V]) (TopicOf[K, V], error), topics []TopicOf[K, V], opts ...NodeOption,
) {
	b := s.builder("IntoOneOf(" + name + ")")
	n := b.add(&node{kind: processorNode, name: name, pos: caller()}, opts)
	if choose == nil {
		b.mistakeAt(n.pos, name, errNilFunc)
	}
	if len(topics) == 0 {
		b.mistakeAt(n.pos, name, errors.New("there is no topic to choose"))
	}
	ports := make(map[string]*port[K, V], len(topics))
	for _, t := range topics {
		if ports[t.name] != nil {
			b.mistakeAt(n.pos, name, fmt.Errorf("topic %s is named twice", t.name))
			continue
		}
		p := addPort[K, V](b, n, t.name)
		addSink(b, p, t, name+"."+t.name, topicRef{name: t.name}, n.pos, nil)
		ports[t.name] = p
	}
	connect(b, s.port, n, once(n, func(g *Graph) (Emit[K, V], error) {
		sinks := make(map[string]Emit[K, V], len(ports))
		for topic, p := range ports {
			next, err := link(g, p)
			if err != nil {
				return nil, err
			}
			sinks[topic] = next
		}
		return guard(g, n, func(c *Context, r Record[K, V]) error {
			t, err := choose(r)
			if err != nil {
				return err
			}
			next, ok := sinks[t.name]
			if !ok {
				return Fail(Config, errOtherTopic)
			}
			return next(c, r)
		}), nil
	}))
}

// errOtherTopic does not name the topic, which may be made of the record.
const errOtherTopic = schemas.Reason("the topic that was chosen is none of those that IntoOneOf was given")
