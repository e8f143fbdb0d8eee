package topology

import (
	"errors"
	"slices"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
)

// TableFrom returns the table of a topic: each record is the newest value of its key, and a null
// deletes the key, whether the codec of the topic is [Nullable] or not. A record with a null key is
// left out ([SkipNullKeys]). Values replace each other in the order of the topic, whatever their
// timestamps are; in a [VersionedStore] the order is that of the timestamps.
//
// The store has a changelog of its own, unless [RestoreFromTopic] says that the topic is as good.
//
// The node is named after the store. The rules of [From] hold for the source. A topic that is
// read as a table is not read as a stream beside it: [Table.Stream] has its records.
func TableFrom[K, V any, S TableRows[K, V]](
	b *Builder, topic TopicOf[K, V], store Store[S], opts ...SourceOption,
) Table[K, V] {
	if b != nil {
		checkTableTopic(b, caller(), topic.name, topic)
	}
	s := From(b, withDeletes(topic), append(slices.Clone(opts), SkipNullKeys())...)
	if source := s.port.node; source.restores && !b.closed {
		newest, ok := any(store).(Store[state.Timestamped[K, V]])
		if !ok {
			b.mistakeAt(caller(), store.name, errRestoresVersions)
		}
		read := withDeletes(topic)
		if first, ok := b.sources[topic.name].topic.(TopicOf[K, Option[V]]); ok {
			read = first // other codecs of the same names could read something else
		}
		rows := graph.NewSourceRows(func() graph.RowReader { return readRows(read, newest) }, writtenKey(&read.key))
		source.tables = append(source.tables, restoredTable{store: store.name, rows: rows})
	}
	return collect(s, tableStoreOf[K, V](store), "TableFrom", nil,
		func(v Option[V]) (V, bool) { return v.value, v.ok })
}

var errRestoresVersions = errors.New("RestoreFromTopic: a versioned table has a changelog of its own, because the topic does not " +
	"say what was late; leave the option out")

// ToTable returns the table of a stream: each record is the newest value of its key. The node is
// named after the store. [ToTableWithDeletes] is for streams with records that delete.
//
// A key that an operator has changed needs a [Stream.Repartition] before it becomes a table's.
func ToTable[K, V any, S TableRows[K, V]](s Stream[K, V], store Store[S], opts ...NodeOption) Table[K, V] {
	null := nullOf[V]()
	return collect(s, tableStoreOf[K, V](store), "ToTable", opts, func(v V) (V, bool) { return v, null == nil || !null(v) })
}

// ToTableWithDeletes is [ToTable] for a stream in which the absent Option deletes a key.
func ToTableWithDeletes[K, V any, S TableRows[K, V]](
	s Stream[K, Option[V]], store Store[S], opts ...NodeOption,
) Table[K, V] {
	return collect(s, tableStoreOf[K, V](store), "ToTableWithDeletes", opts, func(v Option[V]) (V, bool) { return v.value, v.ok })
}

// collect adds the node that keeps the newest value of each key. value returns the value in a
// record, and false if there is none.
func collect[K, In, V any](
	s Stream[K, In], store tableStore[K, V], what string, opts []NodeOption, value func(In) (V, bool),
) Table[K, V] {
	old := new(bool)
	p := addStateful(s, store, what, true, opts, func(t *Setup, next Emit[K, Change[V]]) Emit[K, In] {
		rows, gate, keepOld := store.keep(t, next), newGate[K, In](t, false), *old
		return func(c *Context, r Record[K, In]) error {
			if gate.stops(&r) {
				return nil
			}
			var change Change[V]
			if keepOld {
				before, _, ok, err := rows.Get(r.Key)
				if err != nil {
					return err
				}
				change.Old = Option[V]{before, ok}
			}
			v, ok := value(r.Value)
			change.New = Option[V]{v, ok}
			return rows.change(c, WithValue(r, change))
		}
	})
	p.node.clause(KeyAssumption, "a record is the newest value of its key; one with a null key is left out").
		clause(OnDuplicate, "a value that comes again replaces itself, and is a change once more")
	store.clauseOrder(p.node, "values replace each other in the order of their offsets, whatever their timestamps")
	return Table[K, V]{b: s.b, port: p, view: store.view(old)}
}
