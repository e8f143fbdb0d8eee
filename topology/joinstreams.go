package topology

import (
	"fmt"
	"iter"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
)

// JoinStreams emits the result of f for each pair of records of two streams that have the same key
// and timestamps as near as w says. A stream can be joined with itself.
//
// The following holds for all joins of two streams. Each stream has a store with its records,
// <name>-left and <name>-right; the codecs are for these. A record is joined with the stored
// records of the other stream, in the order of their timestamps. Later records of the other stream
// find it in its own store. The timestamp of a result is the later one of both records. Its headers
// and its mode are those of the record that came last.
//
// A store has its own stream time: the largest timestamp of its stream. It keeps records for the
// two limits of w and the grace period. An older record is not stored, and counted as "late": it is
// joined with stored records, but no later record finds it.
//
// Records with a null key or a null value are left out, and counted as "null-key" and "null-value".
// They move no time. Both streams need the same number of partitions and the same partitioner. If
// an operator may have changed the key, Build requires [Stream.Repartition] before the join; see
// [Stream.Copartitioned].
func JoinStreams[K, L, R, V any](
	left Stream[K, L], right Stream[K, R], name string, w JoinWindows,
	key schemas.Codec[K], leftValue schemas.Codec[L], rightValue schemas.Codec[R],
	f func(key K, l L, r R) (V, error), opts ...NodeOption,
) Stream[K, V] {
	j := streamJoin[K, L, R, V]{windows: w, key: key, leftValue: leftValue, rightValue: rightValue}
	if f != nil {
		j.join = func(key K, l Option[L], r Option[R]) (V, error) { return f(key, l.value, r.value) }
	}
	return j.add(left, right, name, "JoinStreams", opts)
}

// LeftJoinStreams is [JoinStreams] that also emits each record of the left stream without a
// partner, with r absent.
//
// Such a record waits until its window has closed. The stream time of the join is the largest
// timestamp of both streams. It closes a window when it has passed the end and the grace. Waiting
// records are in a third store, <name>-closing. They are emitted in the order of their timestamps,
// with no headers but [HeaderMode] and no [Record.Source]. Nothing is emitted until a record moves
// the stream time. A record that comes after the end of its window, and has no partner, is emitted
// at once, also within the grace.
//
// A record of the left stream with a null key is emitted at once (KIP-962). All of this is as in
// Kafka Streams.
func LeftJoinStreams[K, L, R, V any](
	left Stream[K, L], right Stream[K, R], name string, w JoinWindows,
	key schemas.Codec[K], leftValue schemas.Codec[L], rightValue schemas.Codec[R],
	f func(key K, l L, r Option[R]) (V, error), opts ...NodeOption,
) Stream[K, V] {
	j := streamJoin[K, L, R, V]{windows: w, key: key, leftValue: leftValue, rightValue: rightValue, outerLeft: true}
	if f != nil {
		j.join = func(key K, l Option[L], r Option[R]) (V, error) { return f(key, l.value, r) }
	}
	return j.add(left, right, name, "LeftJoinStreams", opts)
}

// OuterJoinStreams is [LeftJoinStreams] for both streams; f is never called with both sides absent.
// Among waiting records with the same timestamp, those of the right stream come first.
func OuterJoinStreams[K, L, R, V any](
	left Stream[K, L], right Stream[K, R], name string, w JoinWindows,
	key schemas.Codec[K], leftValue schemas.Codec[L], rightValue schemas.Codec[R],
	f func(key K, l Option[L], r Option[R]) (V, error), opts ...NodeOption,
) Stream[K, V] {
	return streamJoin[K, L, R, V]{
		windows: w, key: key, leftValue: leftValue, rightValue: rightValue, outerLeft: true, outerRight: true, join: f,
	}.add(left, right, name, "OuterJoinStreams", opts)
}

const (
	// leftSuffix and rightSuffix make the names of the stores with the records of a join.
	leftSuffix  = "-left"
	rightSuffix = "-right"
)

// streamJoin is a join of two streams: a node with two parents.
type streamJoin[K, L, R, V any] struct {
	windows    JoinWindows
	key        schemas.Codec[K]
	leftValue  schemas.Codec[L]
	rightValue schemas.Codec[R]
	join       func(key K, l Option[L], r Option[R]) (V, error)
	// outerLeft and outerRight say that records without a partner are emitted.
	outerLeft, outerRight bool
}

func (j streamJoin[K, L, R, V]) add(
	left Stream[K, L], right Stream[K, R], name, what string, opts []NodeOption,
) Stream[K, V] {
	b := left.builder(what + "(" + name + ")")
	right.builder(what + "(" + name + ")")
	n := b.add(&node{kind: processorNode, name: name, pos: caller(), windows: j.windows.String()}, opts)
	if j.join == nil {
		b.mistakeAt(n.pos, name, errNilFunc)
	}
	p := addPort[K, V](b, n, "")
	joined := Stream[K, V]{b: b, port: p}
	if right.b != b {
		b.mistakeAt(n.pos, name, fmt.Errorf("a stream cannot be joined: %w", errForeign))
		return joined
	}
	if err := j.windows.check(); err != nil {
		b.mistakeAt(n.pos, name, err)
		j.windows = JoinWindows{}
	}
	retention := j.windows.retention()
	leftStore := newStore(name+leftSuffix, state.SeriesKind, retention, j.key, j.leftValue, state.NewSeries[K, L])
	rightStore := newStore(name+rightSuffix, state.SeriesKind, retention, j.key, j.rightValue, state.NewSeries[K, R])
	waiting := KeyValueStore(name+closingSuffix, schemas.Bytes(), schemas.Bytes())
	b.addStore(n, leftStore)
	b.addStore(n, rightStore)
	if j.outerLeft || j.outerRight {
		b.addStore(n, waiting)
	}
	b.checkKeyed(n, left.rekeyed)
	b.checkKeyed(n, right.rekeyed)
	n.clause(KeyAssumption, "records with the same key are joined; the topics of both streams have the same partitions").
		clause(OnDuplicate, "a record that comes again is joined again").
		clause(OutOfOrder, "a record meets those of the other stream with timestamps "+j.windows.String()+
			"; one that is too old for its store is counted as late, and none that comes later meets it")
	entries := opening(n, p, func(t *Setup, next Emit[K, V]) streamEntries[K, L, R] {
		return j.open(t, leftStore, rightStore, waiting, next)
	})
	connect(b, left.port, n, entrance(n, entries, func(e streamEntries[K, L, R]) Emit[K, L] { return e.left }))
	connect(b, right.port, n, entrance(n, entries, func(e streamEntries[K, L, R]) Emit[K, R] { return e.right }))
	return joined
}

// streamEntries is a join of two streams in a graph.
type streamEntries[K, L, R any] struct {
	left  Emit[K, L]
	right Emit[K, R]
}

// open makes the join for the node that t prepares.
func (j streamJoin[K, L, R, V]) open(
	t *Setup, leftStore Store[state.Series[K, L]], rightStore Store[state.Series[K, R]],
	waiting Store[state.KeyValue[[]byte, []byte]], next Emit[K, V],
) streamEntries[K, L, R] {
	before, after, grace := j.windows.before.Milliseconds(), j.windows.after.Milliseconds(), j.windows.grace.Milliseconds()
	l := newJoinSide(t, leftStore, j.key, j.leftValue, joinWindow{before, after, grace}, j.outerLeft)
	r := newJoinSide(t, rightStore, j.key, j.rightValue, joinWindow{after, before, grace}, j.outerRight)
	l.tag, r.tag = leftTag, rightTag
	flipped := func(key K, r Option[R], l Option[L]) (V, error) { return j.join(key, l, r) }
	clock := joinClock{l.bytes, r.bytes}
	var open *openRecords
	if j.outerLeft || j.outerRight {
		index, _, _ := watch(t, waiting.name, schemas.Bytes(), schemas.Bytes())
		open = &openRecords{
			index: index,
			left:  waitingSide{outer: j.outerLeft, lasts: after + grace, pass: joinAlone(l, j.join, next)},
			right: waitingSide{outer: j.outerRight, lasts: before + grace, pass: joinAlone(r, flipped, next)},
		}
	}
	return streamEntries[K, L, R]{
		left:  joinEntry(l, r, clock, open, j.join, next),
		right: joinEntry(r, l, clock, open, flipped, next),
	}
}

// joinWindow is JoinWindows for the records of one side, in milliseconds: they meet those of the
// other side from before their time to after it.
type joinWindow struct{ before, after, grace int64 }

// joinClock is the stream time of a join: the later one of those of its two stores.
type joinClock struct{ left, right state.Bytes }

func (c joinClock) now() int64 { return max(c.left.StreamTime(), c.right.StreamTime()) }

// joinSide is one of the streams of a join in a graph.
type joinSide[K, T any] struct {
	joinWindow
	gate *gate[K, T]
	rows state.Series[K, T]
	// bytes are those of the store, for its stream time.
	bytes state.Bytes
	key   state.Codec[K]
	// outer says that records without a partner are passed on. nullKey is for their null keys.
	outer   bool
	nullKey func(key K) bool
	late    *Counter
	// tag begins the rows of the side in the index of what waits, and row is the buffer of such a
	// row.
	tag byte
	row []byte
	// partners is memory for the records that a record of the other side meets.
	partners []state.SeriesEntry[T]
}

func newJoinSide[K, T any](
	t *Setup, store Store[state.Series[K, T]], key schemas.Codec[K], value schemas.Codec[T], w joinWindow, outer bool,
) *joinSide[K, T] {
	s := &joinSide[K, T]{joinWindow: w, gate: newGate[K, T](t, true), rows: store.In(t), outer: outer, late: t.Counter(countLate)}
	s.bytes, s.key, _ = watch(t, store.name, key, value)
	if outer {
		s.nullKey, s.gate.nullKey = s.gate.nullKey, nil // the record passes without a partner
	}
	return s
}

// joinEntry processes a record of the stream own.
func joinEntry[K, T, O, V any](
	own *joinSide[K, T], other *joinSide[K, O], clock joinClock, open *openRecords,
	join func(key K, own Option[T], other Option[O]) (V, error), next Emit[K, V],
) Emit[K, T] {
	// meet emits the result of r and e, a record of the other side.
	meet := func(c *Context, r Record[K, T], now int64, e state.SeriesEntry[O]) error {
		if other.outer && e.Time+other.after+other.grace >= now {
			if err := other.found(open, r.Key, e.Time, e.Sequence); err != nil {
				return err
			}
		}
		v, err := join(r.Key, Some(r.Value), Some(e.Value))
		if err != nil {
			return err
		}
		result := WithValue(r, v)
		result.Timestamp = max(r.Timestamp, e.Time)
		return next(c, result)
	}
	return func(c *Context, r Record[K, T]) error {
		if own.gate.stops(&r) {
			return nil
		}
		if own.nullKey != nil && own.nullKey(r.Key) {
			return passAlone(c, r, join, next)
		}
		now := clock.now()
		if open != nil && r.Timestamp > now {
			// Before the time moves on: a record that has waited may expire then.
			if err := open.close(c, now, r.Timestamp); err != nil {
				return err
			}
		}
		now = max(now, r.Timestamp)
		sequence, stored, err := own.rows.Add(r.Key, r.Timestamp, r.Value)
		if err != nil {
			return err
		}
		if !stored {
			own.late.Inc()
		}
		from, to := r.Timestamp-own.before, r.Timestamp+own.after
		partners, few, err := other.rows.FetchFew(other.takePartners(), r.Key, from, to)
		defer other.giveBack(partners)
		if err != nil {
			return err
		}
		met := len(partners) > 0
		for _, e := range partners {
			if err := meet(c, r, now, e); err != nil {
				return err
			}
		}
		if !few {
			if met, err = meetAll(c, r, now, other.rows.Fetch(r.Key, from, to), meet); err != nil {
				return err
			}
		}
		switch {
		case met || !own.outer:
			return nil
		case !stored || r.Timestamp+own.after < now:
			return passAlone(c, r, join, next)
		}
		return own.wait(c, open, r.Key, r.Timestamp, sequence)
	}
}

// meetAll calls meet for each record that r meets. It is apart from joinEntry because the loop over
// the iterator moves r to the heap.
func meetAll[K, T, O any](
	c *Context, r Record[K, T], now int64, partners iter.Seq2[state.SeriesEntry[O], error],
	meet func(c *Context, r Record[K, T], now int64, e state.SeriesEntry[O]) error,
) (met bool, err error) {
	for e, err := range partners {
		if err != nil {
			return met, err
		}
		if err := meet(c, r, now, e); err != nil {
			return met, err
		}
		met = true
	}
	return met, nil
}

// partnersMax is for how many partners the memory is kept.
const partnersMax = 64

// takePartners returns the memory for partners. A record that passes the join again, further down,
// gets memory of its own.
func (s *joinSide[K, T]) takePartners() []state.SeriesEntry[T] {
	partners := s.partners
	s.partners = nil
	return partners
}

// giveBack keeps the memory of partners for the next record.
func (s *joinSide[K, T]) giveBack(partners []state.SeriesEntry[T]) {
	clear(partners) // or the values would stay in memory
	if cap(partners) <= partnersMax {
		s.partners = partners[:0]
	}
}

// passAlone emits a record without a partner.
func passAlone[K, T, O, V any](
	c *Context, r Record[K, T], join func(key K, own Option[T], other Option[O]) (V, error), next Emit[K, V],
) error {
	v, err := join(r.Key, Some(r.Value), None[O]())
	if err != nil {
		return err
	}
	return next(c, WithValue(r, v))
}
