package topology

import (
	"fmt"
	"slices"
)

// JoinStreamTable emits each record of a stream with the value that f returns for it and for the
// row of its key in a table. A record without a row is dropped.
//
// The join uses the table as it is when the record is processed. It uses a versioned table
// ([VersionedStore]) as it was at the timestamp of the record, by the changes that have come so
// far; [JoinStreamTableWithGrace] waits for later ones. A task takes the records of both sides in
// the order of their timestamps, as far as they have been fetched. A change of the table emits
// nothing, and counts for later records. The stream and the topics of the table need the same
// number of partitions and the same partitioner. If an operator may have changed the key, Build
// requires [Stream.Repartition] before the join; see [Stream.Copartitioned].
//
// Records with a null key or a null value are left out, and counted as "null-key" and "null-value".
// Timestamp and headers are those of the record of the stream. The join stores nothing. It is the
// join of KStream and KTable in Kafka Streams.
func JoinStreamTable[K, V, T, V2 any](
	s Stream[K, V], t Table[K, T], name string, f func(key K, value V, row T) (V2, error), opts ...NodeOption,
) Stream[K, V2] {
	j := streamTableJoin[K, V, T, V2]{needRow: true}
	if f != nil {
		j.join = func(key K, v V, row Option[T]) (V2, error) { return f(key, v, row.value) }
	}
	return j.add(s, t, name, "JoinStreamTable", opts)
}

// LeftJoinStreamTable is [JoinStreamTable] for all records: if the table has no row for the key,
// row is absent. A record with a null key has no row (KIP-962).
func LeftJoinStreamTable[K, V, T, V2 any](
	s Stream[K, V], t Table[K, T], name string, f func(key K, value V, row Option[T]) (V2, error), opts ...NodeOption,
) Stream[K, V2] {
	return streamTableJoin[K, V, T, V2]{join: f}.add(s, t, name, "LeftJoinStreamTable", opts)
}

// streamTableJoin is a join of a stream and a table by their key: a node that looks into the stores
// of the table and keeps nothing.
type streamTableJoin[K, V, T, V2 any] struct {
	join    func(key K, value V, row Option[T]) (V2, error)
	needRow bool
	// wait is nil if records do not wait.
	wait *joinWait[K, V]
}

func (j streamTableJoin[K, V, T, V2]) add(
	s Stream[K, V], t Table[K, T], name, what string, opts []NodeOption,
) Stream[K, V2] {
	b := s.builder(what + "(" + name + ")")
	t.builder(what + "(" + name + ")")
	n := b.add(&node{kind: processorNode, name: name, pos: caller(), looksOnly: true}, opts)
	if j.join == nil {
		b.mistakeAt(n.pos, name, errNilFunc)
	}
	p := addPort[K, V2](b, n, "")
	joined := Stream[K, V2]{b: b, port: p}
	if t.b != b {
		b.mistakeAt(n.pos, name, fmt.Errorf("a table cannot be joined: %w", errForeign))
		return joined
	}
	t.wantRows()
	n.stores = slices.Clone(t.view.stores)
	versioned := t.view.asOf != nil
	if j.wait != nil {
		j.wait.declare(b, n, versioned, t.view.stores)
	}
	b.checkKeyed(n, s.rekeyed)
	n.clause(KeyAssumption, "a record meets the row with its key; the stream and the topics of the table have the same partitions").
		clause(OnDuplicate, "a record that comes again is joined again").
		clause(OutOfOrder, j.order(versioned))
	open := opening(n, p, func(setup *Setup, next Emit[K, V2]) Emit[K, V] { return j.entry(setup, t.view.lookup(setup), next) })
	connect(b, s.port, n, entrance(n, open, onlyEntrance))
	return joined
}

// order is what the contract says of records out of order.
func (j streamTableJoin[K, V, T, V2]) order(versioned bool) string {
	switch {
	case j.wait != nil:
		return "each record meets what the table had at its timestamp, when stream time has passed that by " + j.wait.grace.String() +
			"; a record that comes later than that is joined at once"
	case versioned:
		return "each record meets what the table had at its timestamp, as far as the changes of the table have come by then"
	}
	return "each record meets what the table has at that moment, whatever the timestamps"
}

// lookup returns what finds the row for a record of a stream: the one of its time if the table is
// versioned.
func (v view[K, V]) lookup(t *Setup) asOfGetter[K, V] {
	if v.asOf != nil {
		return v.asOf(t)
	}
	get := v.open(t)
	return func(key K, _ int64) (V, int64, bool, error) { return get(key) }
}

// entry processes a record.
func (j streamTableJoin[K, V, T, V2]) entry(t *Setup, rows asOfGetter[K, T], next Emit[K, V2]) Emit[K, V] {
	gate := newGate[K, V](t, true)
	nullKey := gate.nullKey
	if !j.needRow {
		gate.nullKey = nil // the record passes without a row
	}
	meet := func(c *Context, r Record[K, V]) error {
		var row Option[T]
		var err error
		if row.value, _, row.ok, err = rows(r.Key, r.Timestamp); err != nil {
			return err
		}
		return j.pass(c, r, row, next)
	}
	if j.wait != nil {
		meet = j.wait.delayed(t, meet)
	}
	return func(c *Context, r Record[K, V]) error {
		switch {
		case gate.stops(&r):
			return nil
		case nullKey != nil && nullKey(r.Key):
			return j.pass(c, r, Option[T]{}, next)
		}
		return meet(c, r)
	}
}

// pass emits a record joined with its row.
func (j streamTableJoin[K, V, T, V2]) pass(c *Context, r Record[K, V], row Option[T], next Emit[K, V2]) error {
	if j.needRow && !row.ok {
		return nil
	}
	v, err := j.join(r.Key, r.Value, row)
	if err != nil {
		return err
	}
	return next(c, WithValue(r, v))
}
