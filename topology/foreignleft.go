package topology

import (
	"bytes"

	"github.com/onceward/onceward/topology/graph"
)

// foreignLeft is the left side of a join by a foreign key in a graph.
type foreignLeft[K, L, F, R, V any] struct {
	foreignJoin[K, L, F, R, V]
	partition int32
	rows      getter[K, L]
	late      outOfOrder
	result    Emit[K, Change[V]]
	subscribe Emit[F, subscription[K]]
	nullKey   func(F) bool
	// nullForeignKeys and lateAnswers count rows and answers without a result.
	nullForeignKeys, lateAnswers *Counter
	// value, before and after are the buffers of values that are hashed and of foreign keys that
	// are compared.
	value, before, after []byte
}

func (j foreignJoin[K, L, F, R, V]) leftSide(
	t *Setup, rows getter[K, L], late outOfOrder, result Emit[K, Change[V]], subscribe Emit[F, subscription[K]],
) *foreignLeft[K, L, F, R, V] {
	return &foreignLeft[K, L, F, R, V]{
		foreignJoin: j, partition: t.Task().Partition, rows: rows, late: late, result: result, subscribe: subscribe, nullKey: nullOf[F](),
		nullForeignKeys: t.Counter(countNullForeignKey), lateAnswers: t.Counter(countLateAnswer),
	}
}

// change subscribes the row of a change of the left table. One result needs no answer, and is
// emitted at once: that of a left join for a row without a foreign key.
func (x *foreignLeft[K, L, F, R, V]) change(c *Context, r Record[K, Change[L]]) error {
	if x.late.stops(r.Value.OutOfOrder) {
		return nil
	}
	before, err := x.foreignOf(r.Key, r.Value.Old)
	if err != nil {
		return err
	}
	after, err := x.foreignOf(r.Key, r.Value.New)
	if err != nil {
		return err
	}
	moved, err := x.moved(before, after)
	if err != nil {
		return err
	}
	switch {
	case after.ok:
		kind := subscribe
		if moved || x.left {
			// The last result has to be deleted, or there is a result without a row of the right
			// table.
			kind = subscribeAlways
		}
		if moved {
			if err := x.send(c, &r, before.value, leave); err != nil {
				return err
			}
		}
		return x.send(c, &r, after.value, kind)
	case x.left:
		if before.ok {
			if err := x.send(c, &r, before.value, leave); err != nil {
				return err
			}
		}
		if !r.Value.New.ok && !r.Value.Old.ok {
			return nil // a delete of a key that was not there
		}
		return x.emit(c, r.Key, &r.Value.New, Option[R]{}, WithValue(r, Change[V]{}))
	}
	if r.Value.New.ok {
		x.nullForeignKeys.Inc()
	}
	if before.ok {
		return x.send(c, &r, before.value, leaveAnswered)
	}
	return nil
}

// foreignOf returns the foreign key of a value, absent if there is none.
func (x *foreignLeft[K, L, F, R, V]) foreignOf(key K, v Option[L]) (foreign Option[F], err error) {
	if !v.ok {
		return foreign, nil
	}
	foreign, err = x.foreignKey(key, v.value)
	if err != nil || !foreign.ok || x.nullKey != nil && x.nullKey(foreign.value) {
		return Option[F]{}, err
	}
	return foreign, nil
}

// moved reports whether the foreign key has changed. It compares the bytes.
func (x *foreignLeft[K, L, F, R, V]) moved(before, after Option[F]) (bool, error) {
	if !after.ok {
		return before.ok, nil
	}
	var err error
	if x.after, err = x.foreign.Append(x.after[:0], after.value); err != nil {
		return false, &graph.PartError{Part: "foreign key", Err: err}
	}
	if !before.ok {
		return false, nil
	}
	if x.before, err = x.foreign.Append(x.before[:0], before.value); err != nil {
		return false, &graph.PartError{Part: "foreign key", Err: err}
	}
	return !bytes.Equal(x.before, x.after), nil
}

// send sends a subscription for the value that the change has made.
func (x *foreignLeft[K, L, F, R, V]) send(c *Context, r *Record[K, Change[L]], foreign F, kind subscriptionKind) error {
	s := subscription[K]{Kind: kind, Partition: x.partition, Key: r.Key}
	if kind.hasHash() {
		var err error
		if s.Hash, err = x.hash(r.Value.New.value); err != nil {
			return err
		}
	}
	return x.subscribe(c, WithKey(WithValue(*r, s), foreign))
}

func (x *foreignLeft[K, L, F, R, V]) hash(v L) (h valueHash, err error) {
	if x.value, err = x.leftValue.Append(x.value[:0], v); err != nil {
		return h, &graph.PartError{Part: "value", Err: err}
	}
	return hashOf(x.value), nil
}

// answer makes a result of an answer, unless the answer is late: the left table has another value
// by now.
func (x *foreignLeft[K, L, F, R, V]) answer(c *Context, r Record[K, answer[R]]) error {
	var now Option[L]
	var err error
	var ms int64
	if now.value, ms, now.ok, err = x.rows(r.Key); err != nil {
		return err
	}
	var hash valueHash
	if now.ok {
		if hash, err = x.hash(now.value); err != nil {
			return err
		}
	}
	if r.Value.Kind != answerLeft && now.ok && hash == r.Value.Hash {
		return x.emit(c, r.Key, &now, Option[R]{r.Value.Value, r.Value.Kind == answerRow}, WithValue(r, Change[V]{}))
	}
	foreign, err := x.foreignOf(r.Key, now)
	if err != nil {
		return err
	}
	if r.Value.Kind == answerLeft && !foreign.ok {
		// The left row has no foreign key, so that it has no result.
		return x.result(c, WithValue(r, Change[V]{}))
	}
	x.lateAnswers.Inc()
	if !foreign.ok || x.left {
		return nil // the answer that ends the last result is still to come, or was there
	}
	// The skipped answer may have been the one that deletes the last result. The present
	// subscription is not answered if there is no row. So this asks whether there is one.
	r.Timestamp = ms
	s := subscription[K]{Kind: confirm, Partition: x.partition, Hash: hash, Key: r.Key}
	return x.subscribe(c, WithKey(WithValue(r, s), foreign.value))
}

// emit emits the result for a row of the left table, in the record r.
func (x *foreignLeft[K, L, F, R, V]) emit(c *Context, key K, l *Option[L], right Option[R], r Record[K, Change[V]]) error {
	if l.ok && (right.ok || x.left) {
		v, err := x.join(key, l.value, right)
		if err != nil {
			return err
		}
		r.Value.New = Some(v)
	}
	return x.result(c, r)
}
