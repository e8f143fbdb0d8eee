package topology

import (
	"bytes"
	"fmt"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology/graph"
)

// TableGroup is the entries of a table under another key, as input of [CountTable], [ReduceTable]
// and [AggregateTable]. Several of them may use it.
type TableGroup[K, V any] struct {
	// stream has the changes of the entries under a key. Old leaves it, New comes to it.
	stream Stream[K, Change[V]]
}

// GroupTable groups the entries of a table under keys that f returns; f also returns the value to
// aggregate. An entry is in one group at a time. When its value changes, the result of f for the
// old value leaves its group, before the result for the new value enters its group. So f is called
// for old values again, and must return the same result for the same entry. An entry for which f
// returns a null key or value is left out.
//
// A change of a versioned table that is out of order leaves the groups as they are.
//
// The changes go through a topic, <application>-<name>-repartition, as in [Stream.Repartition].
// Their format there is that of Kafka Streams (KIP-904).
func GroupTable[K, V, K2, V2 any](
	t Table[K, V], name string, key schemas.Codec[K2], value schemas.Codec[V2],
	f func(key K, value V) (K2, V2, error), opts ...RepartitionOption,
) TableGroup[K2, V2] {
	t.builder("GroupTable(" + name + ")")
	t.wantOld()
	s := addOperator(t.changes(), name, "GroupTable", f != nil, nil,
		func(_ *Graph, _ *node, next Emit[K2, Change[V2]]) Emit[K, Change[V]] {
			r := regrouping[K, V, K2, V2]{key: key, f: f, next: next, nullKey: nullOf[K2](), nullValue: nullOf[V2]()}
			return r.regroup
		})
	changes := schemas.Codec[Change[V2]](nil)
	if value != nil {
		changes = changeCodec[V2]{value}
	}
	pos := caller()
	var ref topicRef
	for _, opt := range opts {
		if opt == nil {
			continue // a mistake where the option is used
		}
		if err := opt.applyRepartition(&ref); err == nil && ref.chooser != nil {
			t.b.mistakeAt(pos, name, fmt.Errorf("partitioner %s: a group is in the partition of its key", ref.partitioner))
			return TableGroup[K2, V2]{stream: addRepartition(s, Topic(name, key, changes), pos, nil)}
		}
	}
	return TableGroup[K2, V2]{stream: addRepartition(s, Topic(name, key, changes), pos, opts)}
}

// regrouping is what the node of [GroupTable] does in a graph.
type regrouping[K, V, K2, V2 any] struct {
	key       schemas.Codec[K2]
	f         func(key K, value V) (K2, V2, error)
	next      Emit[K2, Change[V2]]
	nullKey   func(K2) bool
	nullValue func(V2) bool
	// before and after are the buffers of keys that are compared.
	before, after []byte
}

func (x *regrouping[K, V, K2, V2]) regroup(c *Context, r Record[K, Change[V]]) error {
	if r.Value.OutOfOrder {
		return nil // the entry has a newer value, which is in its group
	}
	newKey, newValue, err := x.entry(r.Key, r.Value.New)
	if err != nil {
		return err
	}
	oldKey, oldValue, err := x.entry(r.Key, r.Value.Old)
	if err != nil {
		return err
	}
	if newValue.ok && oldValue.ok {
		same, err := x.same(oldKey, newKey)
		if err != nil {
			return err
		}
		if same {
			return x.next(c, WithKey(WithValue(r, Change[V2]{Old: oldValue, New: newValue}), newKey))
		}
	}
	if oldValue.ok {
		if err := x.next(c, WithKey(WithValue(r, Change[V2]{Old: oldValue}), oldKey)); err != nil {
			return err
		}
	}
	if newValue.ok {
		return x.next(c, WithKey(WithValue(r, Change[V2]{New: newValue}), newKey))
	}
	return nil
}

// entry returns the key and the value that f makes of a value, absent if there is none.
func (x *regrouping[K, V, K2, V2]) entry(key K, v Option[V]) (k K2, e Option[V2], err error) {
	if !v.ok {
		return k, e, nil
	}
	k, value, err := x.f(key, v.value)
	if err != nil || x.nullKey != nil && x.nullKey(k) || x.nullValue != nil && x.nullValue(value) {
		return k, e, err
	}
	return k, Some(value), nil
}

// same reports whether two keys are the same, which is what their bytes say.
func (x *regrouping[K, V, K2, V2]) same(a, b K2) (bool, error) {
	var err error
	if x.before, err = x.key.Append(x.before[:0], a); err == nil {
		x.after, err = x.key.Append(x.after[:0], b)
	}
	if err != nil {
		return false, &graph.PartError{Part: "key", Err: err}
	}
	return bytes.Equal(x.before, x.after), nil
}

// CountTable returns the table of how many entries each group has.
//
// The following holds for all aggregations of tables. The node is named after the store. The
// timestamp of an aggregate is the largest of those of the changes in it. An entry that leaves its
// group is taken off the aggregate only if there is one; an aggregate of which all entries have
// left stays, unless the function that takes them off returns [ErrRemove].
func CountTable[K, V any, S TableRows[K, int64]](
	g TableGroup[K, V], store Store[S], opts ...NodeOption,
) Table[K, int64] {
	return aggregateGroup(g, tableStoreOf[K, int64](store), "CountTable", true, opts, groupSteps[K, V, int64]{
		add:      func(n int64, _ bool, _ K, _ V) (int64, error) { return n + 1, nil },
		subtract: func(n int64, _ K, _ V) (int64, error) { return n - 1, nil },
	})
}

// ReduceTable returns a table with one value for each group. The first value of a group is taken as
// it is. add combines the value so far with one that enters the group, subtract removes one that
// leaves it. Both may return [ErrRemove].
func ReduceTable[K, V any, S TableRows[K, V]](
	g TableGroup[K, V], store Store[S], add, subtract func(sofar V, key K, value V) (V, error),
	opts ...NodeOption,
) Table[K, V] {
	return aggregateGroup(g, tableStoreOf[K, V](store), "ReduceTable", add != nil && subtract != nil, opts, groupSteps[K, V, V]{
		add: func(sofar V, ok bool, key K, value V) (V, error) {
			if !ok {
				return value, nil
			}
			return add(sofar, key, value)
		},
		subtract: subtract,
	})
}

// AggregateTable returns a table with one aggregate for each group. add gets the aggregate so far
// and a value that enters the group, subtract gets a value that leaves it. Before the first value
// the aggregate is the result of initial, or the zero A if initial is nil. Both may change the
// aggregate that they get, and may return [ErrRemove].
func AggregateTable[K, V, A any, S TableRows[K, A]](
	g TableGroup[K, V], store Store[S], initial func() A,
	add, subtract func(sofar A, key K, value V) (A, error), opts ...NodeOption,
) Table[K, A] {
	return aggregateGroup(g, tableStoreOf[K, A](store), "AggregateTable", add != nil && subtract != nil, opts, groupSteps[K, V, A]{
		add: func(sofar A, ok bool, key K, value V) (A, error) {
			if !ok && initial != nil {
				sofar = initial()
			}
			return add(sofar, key, value)
		},
		subtract: subtract,
	})
}

// groupSteps are the steps of an aggregation of a group; ok is false if there is no aggregate so
// far.
type groupSteps[K, V, A any] struct {
	add      func(sofar A, ok bool, key K, value V) (A, error)
	subtract func(sofar A, key K, value V) (A, error)
}

// aggregateGroup adds the node that takes one or two steps for each change of a group.
func aggregateGroup[K, V, A any](
	g TableGroup[K, V], store tableStore[K, A], what string, defined bool, opts []NodeOption,
	steps groupSteps[K, V, A],
) Table[K, A] {
	old := new(bool)
	p := addStateful(g.stream, store, what, defined, opts, func(t *Setup, next Emit[K, Change[A]]) Emit[K, Change[V]] {
		rows, twice := store.keep(t, next), *old && shares[A]()
		return func(c *Context, r Record[K, Change[V]]) error {
			sofar, ms, ok, err := rows.Get(r.Key)
			before := sofar
			if twice && err == nil {
				before, _, _, err = rows.Get(r.Key)
			}
			if err != nil {
				return err
			}
			change := Change[A]{Old: Option[A]{before, ok}}
			if change.New, err = steps.take(Option[A]{sofar, ok}, r.Key, r.Value); err != nil {
				return err
			}
			if ok {
				r.Timestamp = max(r.Timestamp, ms)
			}
			return rows.change(c, WithValue(r, change))
		}
	})
	p.node.clause(KeyAssumption, "an entry of the table is in one group at a time").
		clause(OnDuplicate, "a value that comes again is taken off its aggregate and added again")
	return Table[K, A]{b: g.stream.b, port: p, view: store.view(old)}
}

func (s groupSteps[K, V, A]) take(sofar Option[A], key K, change Change[V]) (Option[A], error) {
	var err error
	if change.Old.ok && sofar.ok {
		if sofar, err = result(s.subtract(sofar.value, key, change.Old.value)); err != nil {
			return sofar, err
		}
	}
	if change.New.ok {
		return result(s.add(sofar.value, sofar.ok, key, change.New.value))
	}
	return sofar, nil
}
