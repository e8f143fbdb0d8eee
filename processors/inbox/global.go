package inbox

import (
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// Globally finds a duplicate in whatever partition and under whatever key it comes: records go
// through a topic that is partitioned by the id, <application>-<name>-repartition, and accepted
// ones back through <application>-<name>-back-repartition, so that what follows has all records of
// a key in one task again ([StayByID] leaves that out). The order of the records of a key is not
// kept on the way, since those with other ids are in other partitions. K and V must be the types of
// the stream, and the codecs those of its topic.
func Globally[K, V any](keys schemas.Codec[K], values schemas.Codec[V]) Option {
	return func(s *settings) error {
		switch {
		case keys == nil || values == nil:
			return errors.New("Globally: a codec is nil")
		case s.scope != nil:
			return errors.New("Globally: the scope is declared twice")
		}
		s.scope = detour[K, V]{keys: keys, values: values}
		return nil
	}
}

// ByKey finds a duplicate where both copies have the same record key, as copies of one message
// have. It is the default, and here to be said.
func ByKey() Option {
	return func(s *settings) error {
		if s.scope != nil {
			return errors.New("ByKey: the scope is declared twice")
		}
		s.scope = byKey{}
		return nil
	}
}

// StayByID leaves the accepted records of an inbox that works [Globally] in the partition of their
// id. It saves a topic where nothing behind keeps state by key; Build refuses what does, as it does
// behind Duplicates, Conflicts and Late, which always stay there.
func StayByID() Option {
	return func(s *settings) error {
		s.stayByID = true
		return nil
	}
}

// KeepOrigin gives the topics of an inbox that works [Globally] the option of that name
// (topology.KeepOrigin): the inbox and what follows know which record of the input each record is,
// and evidence and dead letters say it.
func KeepOrigin() Option {
	return func(s *settings) error {
		s.keepsOrigin = true
		return nil
	}
}

type byKey struct{}

var (
	errStay   = errors.New("StayByID without Globally: the records are where their keys are")
	errOrigin = errors.New("KeepOrigin without Globally: there is no topic in which the origin could be lost")
)

// detour is the way of a record to the task of its id, and back.
type detour[K, V any] struct {
	keys   schemas.Codec[K]
	values schemas.Codec[V]
	// topics are the options of the topics on the way.
	topics []topology.RepartitionOption
}

// detourOf returns the declared detour with its types; ok is false if there is none. The error is a
// mistake of the declaration.
func detourOf[K, V any](set *settings) (d detour[K, V], ok bool, err error) {
	switch scope := set.scope.(type) {
	case nil, byKey:
		return d, false, nil
	case detour[K, V]:
		if set.keepsOrigin {
			scope.topics = []topology.RepartitionOption{topology.KeepOrigin()}
		}
		return scope, true, nil
	}
	return d, false, fmt.Errorf("Globally: the codecs are for other types than those of the stream, whose keys are %s "+
		"and values %s", reflect.TypeFor[K](), reflect.TypeFor[V]())
}

// headerMalformed goes along with a record whose id is malformed, and says why. It ends where the
// detour ends.
const headerMalformed = "onceward.inbox.malformed"

// identified is a record with its id in place of its key; the id is absent where a record has none
// that could be used.
type identified[V any] = topology.Record[topology.Option[string], V]

// keyTopic encodes and decodes keys as topics do, nulls included.
func (d detour[K, V]) keyTopic() topology.TopicOf[K, []byte] {
	return topology.Topic("", d.keys, schemas.Bytes())
}

// there returns s, partitioned by the id. Null is the id of a record that needs none, and of one
// without a usable id that is emitted, so that one node decides about all records and reports all
// decisions.
func (d detour[K, V]) there(
	s topology.Stream[K, V], name string, id reader[K, V], set *settings,
) topology.Stream[topology.Option[string], V] {
	keys := d.keyTopic()
	var probes atomic.Int64 // tasks share it: as many ids in all are enough
	identify := func(r topology.Record[K, V]) (identified[V], error) {
		text, err := id(r)
		if err == nil && probes.Load() < probesMax {
			probes.Add(1)
			if err := probe(id, r, text); err != nil {
				return identified[V]{}, err
			}
		}
		u := unusableID(text, err)
		if u != nil && !(u.missing && set.allowMissing) && !set.emitsUnusable(u) {
			return identified[V]{}, u.err
		}
		key, _, err := keys.Encode(r.Key, nil)
		if err != nil {
			return identified[V]{}, err
		}
		along := topology.WithKey(withoutHeader(withoutHeader(r, graph.HeaderOwnKey), headerMalformed), topology.None[string]()).
			WithHeader(graph.HeaderOwnKey, key)
		switch {
		case u == nil:
			along.Key = topology.Some(text)
		case !u.missing:
			along = along.WithHeader(headerMalformed, []byte(u.reason()))
		}
		return along, nil
	}
	ids := topology.Nullable(schemas.String())
	return topology.RepartitionWith(topology.Map(s, name+"-by-id", identify, set.Reactions()...), name, ids, d.values, d.topics...)
}

// handler returns what the node at the end of the detour does: what h does, with the key that the
// record had.
func (d detour[K, V]) handler(h *handler[K, V]) topology.Handler[topology.Option[string], V] {
	keys := d.keyTopic()
	return func(c *topology.Context, r identified[V]) error {
		var key K
		if b, _ := r.Header(graph.HeaderOwnKey); b != nil {
			var err error
			if key, _, err = keys.Decode(append([]byte{}, b...), nil); err != nil {
				return err
			}
		}
		restored := topology.WithKey(withoutHeader(r, graph.HeaderOwnKey), key)
		if why, malformed := r.Header(headerMalformed); malformed {
			restored = withoutHeader(restored, headerMalformed)
			return h.isUnusable(c, &restored, unusableID("", schemas.Reason(why)))
		}
		return h.decide(c, &restored, r.Key.Or(""))
	}
}

// back returns s, partitioned by the key.
func (d detour[K, V]) back(s topology.Stream[K, V], name string) topology.Stream[K, V] {
	return topology.RepartitionWith(s, name+"-back", d.keys, d.values, d.topics...)
}
