package topology

import (
	"errors"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
)

// Table is the newest value of each key at one place of a topology that is being built, and the
// stream of its changes. Every table is based on one with a store: a topic read by [TableFrom], a
// stream collected by [ToTable], or an aggregation. [Table.Filter], [MapTable] and the joins make
// tables from tables and store nothing: a join computes their rows from the stores.
//
// A change passes through the operators depth first, as a record does, at the time of the record
// that made it. The operators see other tables as they are at that moment.
//
// A table in a [VersionedStore] is versioned, and so is what [Table.Filter] and [MapTable] make of
// it. See [VersionedStore] for what is different then.
//
// A table may be used any number of times. The zero Table belongs to no builder. Using it panics.
type Table[K, V any] struct {
	b    *Builder
	port *port[K, Change[V]]
	view view[K, V]
}

// Change is the effect of one record on the value of a key. Old and New are both absent if a key
// without a value was deleted.
type Change[V any] struct {
	// Old is the value before, absent if there was none. It is filled in where something asks for
	// it: for [Table.Changes] and wherever the operators of this package need it.
	Old Option[V]
	// New is the value now, absent if it was deleted.
	New Option[V]
	// OutOfOrder says that the table is versioned and that the key has a newer value, which is Old:
	// New was the value for a time in the past.
	OutOfOrder bool
}

// getter returns the value of a key, and its time in milliseconds since the epoch.
type getter[K, V any] func(key K) (value V, ms int64, ok bool, err error)

// view is how other nodes look into a table.
type view[K, V any] struct {
	// stores are those that a getter reads. A node names them before it opens one.
	stores []storeInfo
	// open returns the getter for the node that t prepares.
	open func(t *Setup) getter[K, V]
	// asOf returns what looks into the history. It is nil unless the table is versioned.
	asOf func(t *Setup) asOfGetter[K, V]
	// wantOld has the changes carry old values.
	wantOld func()
	// wantRows says that a node is going to look into the table. It is nil where that is no
	// mistake.
	wantRows func()
	// key and value are the codecs of what a getter returns; nil where none is known.
	key   schemas.Codec[K]
	value schemas.Codec[V]
}

// builder returns the builder of t; declaring is what the caller is about to do.
func (t Table[K, V]) builder(declaring string) *Builder {
	if t.b == nil {
		panic("topology: " + declaring + " uses the zero Table; tables come from TableFrom, ToTable and from operators")
	}
	return t.b
}

// changes returns the changes as a stream. Their keys are those that the table is kept by.
func (t Table[K, V]) changes() Stream[K, Change[V]] {
	return Stream[K, Change[V]]{b: t.b, port: t.port}
}

// wantOld has the changes carry old values.
func (t Table[K, V]) wantOld() {
	if !t.b.closed {
		t.view.wantOld()
	}
}

// wantRows says that a node is going to look into t.
func (t Table[K, V]) wantRows() {
	if t.view.wantRows != nil && !t.b.closed {
		t.view.wantRows()
	}
}

// Changes returns the stream of the changes, with the values before and after.
func (t Table[K, V]) Changes() Stream[K, Change[V]] {
	t.builder("Changes")
	t.wantOld()
	return t.changes()
}

// Stream returns the stream of the values after each change; the absent Option says that the key
// was deleted. Timestamps are those of the values: of a join the later one of both sides, of an
// aggregation the latest of the records in it. The values of a versioned table come as they were
// processed, also those that are older than the newest one of their key.
func (t Table[K, V]) Stream() Stream[K, Option[V]] {
	b := t.builder("Stream")
	p := addPort[K, Option[V]](b, t.port.node, newOutlet)
	if !b.closed {
		t.port.next = append(t.port.next, func(g *Graph) (Emit[K, Change[V]], error) {
			next, err := link(g, p)
			return func(c *Context, r Record[K, Change[V]]) error { return next(c, WithValue(r, r.Value.New)) }, err
		})
	}
	return Stream[K, Option[V]]{b: b, port: p}
}

// newOutlet is the name of the outlet of [Table.Stream].
const newOutlet = "new"

// Into writes the value after each change to a topic, and a null for a deleted key, whether the
// codec of the topic is [Nullable] or not. Otherwise it works as Stream().Into; see [Stream.Into].
// The topic has no partitioner ([TopicOf.PartitionedBy]), because a null has no value to go by.
func (t Table[K, V]) Into(topic TopicOf[K, V], opts ...NodeOption) {
	checkTableTopic(t.builder("Into("+topic.name+")"), caller(), topic.name+sinkSuffix, topic)
	t.Stream().Into(withDeletes(topic), opts...)
}

// IntoNamed is [Table.Into] with a name for the sink.
func (t Table[K, V]) IntoNamed(name string, topic TopicOf[K, V], opts ...NodeOption) {
	checkTableTopic(t.builder("IntoNamed("+name+")"), caller(), name, topic)
	t.Stream().IntoNamed(name, withDeletes(topic), opts...)
}

// ErrRemove is what the functions of aggregations return to remove the entry of the key. The next
// record of the key starts a new aggregate.
var ErrRemove = errors.New("topology: remove the entry")

// setRow makes v the value of key, or removes the row if there is none.
func setRow[K, V any](rows state.Timestamped[K, V], key K, v Option[V], ms int64) error {
	if !v.ok {
		return rows.Delete(key)
	}
	return rows.Put(key, v.value, ms)
}
