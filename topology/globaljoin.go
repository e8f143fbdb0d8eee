package topology

import "fmt"

// JoinGlobalTable passes on each record of a stream with the value that f makes of it and of the
// row of a global table. key chooses the key of that row. A record without a row ends there, and so
// does one without a key.
//
// The table is as it is when the record is processed; see [GlobalTableFrom] for what that means. A
// change of the table passes nothing on. The stream and the topic of the table may have different
// partitions and different keys, so the join needs no [Stream.Repartition].
//
// Records without a key of the table are left out and counted as "null-key", records with a null
// value as "null-value". A null key of the record itself is as good as any other. Key, timestamp
// and headers are those of the record of the stream. The join keeps nothing. It is the join of
// KStream and GlobalKTable in Kafka Streams.
func JoinGlobalTable[K, V, TK, T, V2 any](
	s Stream[K, V], t GlobalTable[TK, T], name string, key func(r Record[K, V]) (Option[TK], error),
	f func(key K, value V, row T) (V2, error), opts ...NodeOption,
) Stream[K, V2] {
	j := globalTableJoin[K, V, TK, T, V2]{key: key}
	j.needRow = true
	if f != nil {
		j.join = func(key K, v V, row Option[T]) (V2, error) { return f(key, v, row.value) }
	}
	return j.add(s, t, name, "JoinGlobalTable", opts)
}

// LeftJoinGlobalTable is [JoinGlobalTable] for all records: where the table has no row, or there is
// no key for it, row is absent.
func LeftJoinGlobalTable[K, V, TK, T, V2 any](
	s Stream[K, V], t GlobalTable[TK, T], name string, key func(r Record[K, V]) (Option[TK], error),
	f func(key K, value V, row Option[T]) (V2, error), opts ...NodeOption,
) Stream[K, V2] {
	j := globalTableJoin[K, V, TK, T, V2]{key: key}
	j.join = f
	return j.add(s, t, name, "LeftJoinGlobalTable", opts)
}

// globalTableJoin is a join of a stream and a global table: a node that looks into the rows of the
// process.
type globalTableJoin[K, V, TK, T, V2 any] struct {
	streamTableJoin[K, V, T, V2]

	key func(r Record[K, V]) (Option[TK], error)
}

func (j globalTableJoin[K, V, TK, T, V2]) add(
	s Stream[K, V], t GlobalTable[TK, T], name, what string, opts []NodeOption,
) Stream[K, V2] {
	b := s.builder(what + "(" + name + ")")
	t.builder(what + "(" + name + ")")
	n := b.add(&node{kind: processorNode, name: name, pos: caller(), looksOnly: true}, opts)
	if j.key == nil || j.join == nil {
		b.mistakeAt(n.pos, name, errNilFunc)
	}
	p := addPort[K, V2](b, n, "")
	joined := Stream[K, V2]{b: b, port: p, rekeyed: s.rekeyed}
	if t.b != b {
		b.mistakeAt(n.pos, name, fmt.Errorf("a global table cannot be joined: %w", errForeign))
		return joined
	}
	info, _ := t.store.info() // what is wrong with it is noted where it is declared
	n.globals = []storeInfo{info}
	n.clause(KeyAssumption, "a record meets the row whose key is chosen from it; the record and the row may be of any partitions").
		clause(OnDuplicate, "a record that comes again is joined again, with the row of then").
		clause(OutOfOrder, "each record meets what this process has of the global table at that moment, whatever the timestamps").
		clause(OnReplay, "a record that is read again meets the rows of now: no commit names the position of the global table")
	open := opening(n, p, func(setup *Setup, next Emit[K, V2]) Emit[K, V] { return j.entry(setup, t.store.In(setup).Get, next) })
	connect(b, s.port, n, entrance(n, open, onlyEntrance))
	return joined
}

// entry is what the node does with a record.
func (j globalTableJoin[K, V, TK, T, V2]) entry(t *Setup, rows getter[TK, T], next Emit[K, V2]) Emit[K, V] {
	gate := newGate[K, V](t, true)
	gate.nullKey = nil // the key of the record is not that of the row
	null := nullOf[TK]()
	return func(c *Context, r Record[K, V]) error {
		if gate.stops(&r) {
			return nil
		}
		key, err := j.key(r)
		if err != nil {
			return err
		}
		var row Option[T]
		switch chosen, ok := key.Get(); {
		case ok && (null == nil || !null(chosen)):
			if row.value, _, row.ok, err = rows(chosen); err != nil {
				return err
			}
		case j.needRow:
			gate.nullKeys.Inc()
			return nil
		}
		return j.pass(c, r, row, next)
	}
}
