package topology

import (
	"fmt"
	"slices"
)

// JoinStreamTable passes on each record of a stream with the value that f makes of it and of the
// row that the table has for its key. A record without a row ends there.
//
// The table is as it is when the record is processed. A task takes the records of both sides in the
// order of their timestamps, as far as they have been fetched. A change of the table passes nothing
// on. It joins with records that come after it. The stream and the topics of the table need the
// same number of partitions and the same partitioner. Where an operator may have changed the key,
// Build wants [Stream.Repartition] before the join; see [Stream.Copartitioned].
//
// Records with a null key or a null value are left out, and counted as "null-key" and "null-value".
// Timestamp and headers are those of the record of the stream. The join keeps nothing. It is the
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

// LeftJoinStreamTable is [JoinStreamTable] for all records: where the table has no row for the key,
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
	b.checkKeyed(n, s.rekeyed)
	n.clause(KeyAssumption, "a record meets the row with its key; the stream and the topics of the table have the same partitions").
		clause(OnDuplicate, "a record that comes again is joined again").
		clause(OutOfOrder, "each record meets what the table has at that moment, whatever the timestamps")
	open := opening(n, p, func(setup *Setup, next Emit[K, V2]) Emit[K, V] { return j.entry(setup, t.view.open(setup), next) })
	connect(b, s.port, n, entrance(n, open, onlyEntrance))
	return joined
}

// entry is what the node does with a record.
func (j streamTableJoin[K, V, T, V2]) entry(t *Setup, rows getter[K, T], next Emit[K, V2]) Emit[K, V] {
	gate := newGate[K, V](t, true)
	nullKey := gate.nullKey
	if !j.needRow {
		gate.nullKey = nil // the record passes without a row
	}
	return func(c *Context, r Record[K, V]) error {
		if gate.stops(&r) {
			return nil
		}
		var row Option[T]
		if nullKey == nil || !nullKey(r.Key) {
			var err error
			if row.value, _, row.ok, err = rows(r.Key); err != nil {
				return err
			}
		}
		return j.pass(c, r, row, next)
	}
}

// pass passes a record on with the row that it meets.
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
