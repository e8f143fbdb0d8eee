package topology

import (
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
)

// foreignRight is the right side of a join by a foreign key in a graph.
type foreignRight[K, F, R any] struct {
	keys       subscriberKeyCodec[F, K]
	rightValue interface {
		Append(dst []byte, v R) ([]byte, error)
	}
	subscribers state.Bytes
	rows        getter[F, R]
	late        outOfOrder
	next        Emit[K, answer[R]]
	// row and value are the buffers of keys of rows and of values that several answers have.
	row, value []byte
}

func (j foreignJoin[K, L, F, R, V]) rightSide(
	t *Setup, store string, rows getter[F, R], late outOfOrder, next Emit[K, answer[R]],
) *foreignRight[K, F, R] {
	x := &foreignRight[K, F, R]{keys: j.subscriberKeys(), rightValue: j.rightValue, rows: rows, late: late, next: next}
	x.subscribers, _, _ = watch(t, store, x.keys, subscriberCodec{})
	return x
}

// subscription notes a subscription, or its end, and answers it.
func (x *foreignRight[K, F, R]) subscription(c *Context, r Record[F, subscription[K]]) error {
	s := &r.Value
	if err := x.note(r.Key, s); err != nil || s.Kind == leave {
		return err
	}
	row, ms, ok, err := x.rows(r.Key)
	if err != nil || ok && s.Kind == confirm || !ok && s.Kind == subscribe {
		return err
	}
	if ok {
		r.Timestamp = max(r.Timestamp, ms)
	}
	a := answer[R]{Hash: s.Hash, partition: s.Partition}
	switch {
	case s.Kind == leaveAnswered:
		a.Kind = answerLeft
	case !ok:
		a.Kind = answerNothing
	default:
		a.Kind, a.Value = answerRow, row
	}
	return x.next(c, WithKey(WithValue(r, a), s.Key))
}

// note writes or deletes the row of a subscription.
func (x *foreignRight[K, F, R]) note(foreign F, s *subscription[K]) (err error) {
	if s.Kind == confirm {
		return nil
	}
	if x.row, err = x.keys.Append(x.row[:0], subscriberKey[F, K]{Foreign: foreign, Key: s.Key}); err != nil {
		return &graph.PartError{Part: "key", Err: err}
	}
	if s.Kind < subscribe {
		return x.subscribers.Delete(x.row)
	}
	// The store keeps the value, so that it is in memory of its own.
	value, err := subscriberCodec{}.Append(make([]byte, 0, hashBytes+partitionBytes), subscriber{Hash: s.Hash, Partition: s.Partition})
	if err != nil {
		return err
	}
	return x.subscribers.Put(x.row, value)
}

// change answers all subscriptions of the key of a change of the right table, in the order of the
// left keys.
func (x *foreignRight[K, F, R]) change(c *Context, r Record[F, Change[R]]) (err error) {
	if x.late.stops(r.Value.OutOfOrder) {
		return nil
	}
	if x.row, err = x.keys.appendPrefix(x.row[:0], r.Key); err != nil {
		return &graph.PartError{Part: "key", Err: err}
	}
	end := len(x.row)
	a := answer[R]{Kind: answerNothing}
	if now := r.Value.New; now.ok {
		a.Kind, a.Value = answerRow, now.value
		if x.value, err = x.rightValue.Append(x.value[:0], now.value); err != nil {
			return &graph.PartError{Part: "value", Err: err}
		}
		a.encoded = x.value
	}
	for e, err := range x.subscribers.Scan(state.Prefix(x.row)) {
		if err != nil {
			return err
		}
		key, err := x.keys.decodeKey(e.Key, end)
		if err != nil {
			return Fail(Corruption, err)
		}
		s, err := subscriberCodec{}.Decode(e.Value)
		if err != nil {
			return Fail(Corruption, err)
		}
		a.Hash, a.partition = s.Hash, s.Partition
		if err := x.next(c, WithKey(WithValue(r, a), key)); err != nil {
			return err
		}
	}
	return nil
}
