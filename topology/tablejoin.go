package topology

import (
	"fmt"
	"slices"
	"strings"
)

// JoinTables returns the table with the result of f for each key that is in both tables. It has a
// change for each change of one table while the other has the key; a delete on either side deletes
// the key.
//
// The timestamp of a change is the later one of both sides. Both tables are read by the same task,
// so their topics need the same number of partitions, and the same partitioner. f is called again
// for old values, so it must return the same result for the same values.
//
// A change of a versioned table that is out of order is counted as "out-of-order" and left out: the
// results are those of the newest values. The table of the results is not versioned.
func JoinTables[K, L, R, V any](
	left Table[K, L], right Table[K, R], name string, f func(key K, l L, r R) (V, error), opts ...NodeOption,
) Table[K, V] {
	j := tableJoin[K, L, R, V]{needLeft: true, needRight: true}
	if f != nil {
		j.join = func(key K, l Option[L], r Option[R]) (V, error) { return f(key, l.value, r.value) }
	}
	return j.add(left, right, name, "JoinTables", opts)
}

// LeftJoinTables is [JoinTables] for all keys of the left table: if the right one does not have the
// key, r is absent.
func LeftJoinTables[K, L, R, V any](
	left Table[K, L], right Table[K, R], name string, f func(key K, l L, r Option[R]) (V, error),
	opts ...NodeOption,
) Table[K, V] {
	j := tableJoin[K, L, R, V]{needLeft: true}
	if f != nil {
		j.join = func(key K, l Option[L], r Option[R]) (V, error) { return f(key, l.value, r) }
	}
	return j.add(left, right, name, "LeftJoinTables", opts)
}

// OuterJoinTables is [JoinTables] for the keys of at least one of the tables; f is never called
// with both sides absent.
func OuterJoinTables[K, L, R, V any](
	left Table[K, L], right Table[K, R], name string, f func(key K, l Option[L], r Option[R]) (V, error),
	opts ...NodeOption,
) Table[K, V] {
	return tableJoin[K, L, R, V]{join: f}.add(left, right, name, "OuterJoinTables", opts)
}

// tableJoin is a join of two tables by their key: a node with two parents that keeps nothing. A
// change of one side looks into the other one.
type tableJoin[K, L, R, V any] struct {
	join                func(key K, l Option[L], r Option[R]) (V, error)
	needLeft, needRight bool
}

// joinEntries is a join in a graph.
type joinEntries[K, L, R any] struct {
	left  Emit[K, Change[L]]
	right Emit[K, Change[R]]
}

func (j tableJoin[K, L, R, V]) add(
	left Table[K, L], right Table[K, R], name, what string, opts []NodeOption,
) Table[K, V] {
	b := left.builder(what + "(" + name + ")")
	right.builder(what + "(" + name + ")")
	n := b.add(&node{kind: processorNode, name: name, pos: caller(), looksOnly: true}, opts)
	if j.join == nil {
		b.mistakeAt(n.pos, name, errNilFunc)
	}
	if right.b != b {
		b.mistakeAt(n.pos, name, fmt.Errorf("a table cannot be joined: %w", errForeign))
		return Table[K, V]{b: b, port: addPort[K, Change[V]](b, n, ""), view: view[K, V]{wantOld: func() {}}}
	}
	left.wantRows()
	right.wantRows()
	n.stores = unionOf(left.view.stores, right.view.stores)
	// Where one side is enough, only its old value tells a delete from a key that was never there.
	if !j.needRight {
		left.wantOld()
	}
	if !j.needRight && !j.needLeft {
		right.wantOld()
	}
	n.clause(KeyAssumption, "entries with the same key are joined; both tables have the same partitions").
		clause(OutOfOrder, "each change meets what the other table has at that moment, whatever the timestamps")
	old := new(bool)
	p := addPort[K, Change[V]](b, n, "")
	entries := opening(n, p, func(t *Setup, next Emit[K, Change[V]]) joinEntries[K, L, R] {
		return joinEntries[K, L, R]{
			left:  j.entry(left.leavesOut(t), right.view.open(t), *old, next),
			right: j.flip().entry(right.leavesOut(t), left.view.open(t), *old, next),
		}
	})
	connect(b, left.port, n, entrance(n, entries, func(e joinEntries[K, L, R]) Emit[K, Change[L]] { return e.left }))
	connect(b, right.port, n, entrance(n, entries, func(e joinEntries[K, L, R]) Emit[K, Change[R]] { return e.right }))
	return Table[K, V]{b: b, port: p, view: view[K, V]{
		stores: n.stores,
		open: func(t *Setup) getter[K, V] {
			return j.getter(left.view.open(t), right.view.open(t))
		},
		wantOld: func() {
			left.view.wantOld()
			right.view.wantOld()
			*old = true
		},
		key:   left.view.key,
		value: codecOf[V](left.view.value),
	}}
}

// unionOf returns the stores of both, each once.
func unionOf(a, b []storeInfo) []storeInfo {
	stores := slices.Concat(a, b)
	slices.SortStableFunc(stores, func(a, b storeInfo) int { return strings.Compare(a.name, b.name) })
	return slices.CompactFunc(stores, func(a, b storeInfo) bool { return a.name == b.name })
}

// result returns the value of a key with those sides, absent if the join has none.
func (j tableJoin[K, L, R, V]) result(key K, l Option[L], r Option[R]) (Option[V], error) {
	if j.needLeft && !l.ok || j.needRight && !r.ok || !l.ok && !r.ok {
		return Option[V]{}, nil
	}
	v, err := j.join(key, l, r)
	return Option[V]{v, err == nil}, err
}

// entry processes a change of the left table.
func (j tableJoin[K, L, R, V]) entry(
	own outOfOrder, other getter[K, R], keepOld bool, next Emit[K, Change[V]],
) Emit[K, Change[L]] {
	return func(c *Context, r Record[K, Change[L]]) error {
		if own.stops(r.Value.OutOfOrder) {
			return nil
		}
		v, ms, ok, err := other(r.Key)
		if err != nil {
			return err
		}
		if !ok && (j.needRight || !r.Value.New.ok && !r.Value.Old.ok) {
			return nil
		}
		side := Option[R]{v, ok}
		var change Change[V]
		if change.New, err = j.result(r.Key, r.Value.New, side); err != nil {
			return err
		}
		if keepOld {
			if change.Old, err = j.result(r.Key, r.Value.Old, side); err != nil {
				return err
			}
		}
		if ok {
			r.Timestamp = max(r.Timestamp, ms)
		}
		return next(c, WithValue(r, change))
	}
}

// flip returns the same join with the sides exchanged.
func (j tableJoin[K, L, R, V]) flip() tableJoin[K, R, L, V] {
	return tableJoin[K, R, L, V]{
		needLeft: j.needRight, needRight: j.needLeft,
		join: func(key K, r Option[R], l Option[L]) (V, error) { return j.join(key, l, r) },
	}
}

// getter returns the getter of the joined table.
func (j tableJoin[K, L, R, V]) getter(left getter[K, L], right getter[K, R]) getter[K, V] {
	return func(key K) (none V, ms int64, ok bool, err error) {
		l, leftMS, inLeft, err := left(key)
		if err != nil || !inLeft && j.needLeft {
			return none, 0, false, err
		}
		r, rightMS, inRight, err := right(key)
		if err != nil {
			return none, 0, false, err
		}
		v, err := j.result(key, Option[L]{l, inLeft}, Option[R]{r, inRight})
		if inLeft {
			ms = leftMS
		}
		if inRight {
			ms = max(ms, rightMS)
		}
		return v.value, ms, v.ok, err
	}
}
