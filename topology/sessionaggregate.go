package topology

import (
	"fmt"

	"github.com/onceward/onceward/state"
)

// SessionTable is the table of an aggregation in sessions: one entry for each key and session. As a
// table it has a change for each session that a record changes, while the session takes records.
// [SessionTable.Closed] has the values that sessions end with.
type SessionTable[K, V any] struct {
	Table[Windowed[K], V]
	closing *closing[K, V]
}

// CountSessions returns the table of how many records each session of each key has.
//
// The following holds for all aggregations in sessions. The node is named after the store. A record
// belongs to each session of its key that ends at most the gap before it and begins at most the gap
// after it. The record and these sessions become one session. The table has a change that deletes
// each of these sessions, also where its times stay as they are. Then it has a change for the new
// session. The timestamp of a change is the end of its session.
//
// The node goes by a stream time of its own: the largest timestamp of the records that it has got.
// A session takes records until that time has passed its end by more than the gap and the grace. A
// record whose session would end before that is late: it is counted as "late" and left out. Records
// with a null key are left out and counted as "null-key". The store keeps sessions for its own
// retention, at least [SessionWindows.Retention].
//
// A key that an operator has changed needs a [Stream.Repartition] before it. Other sessions are
// another aggregation: give the store another name.
func CountSessions[K, V any](
	s Stream[K, V], w SessionWindows, store Store[state.Session[K, int64]], opts ...NodeOption,
) SessionTable[K, int64] {
	return aggregateSessions(w, store, "CountSessions", opts,
		func(_ K, a int64, _ bool, b int64) (int64, error) { return a + b, nil }, partOf(s, true, counting[K, V]))
}

// ReduceSessions returns the table of what f makes of the values of each session. The first value
// of a session stands for itself. f combines the values of sessions that become one, in the order
// of their ends, and then that of the record. It may return [ErrRemove] for the value of the record
// only.
func ReduceSessions[K, V any](
	s Stream[K, V], w SessionWindows, store Store[state.Session[K, V]], f func(a, b V) (V, error), opts ...NodeOption,
) SessionTable[K, V] {
	return aggregateSessions(w, store, "ReduceSessions", opts,
		func(_ K, a V, ok bool, b V) (V, error) {
			if !ok {
				return b, nil
			}
			return f(a, b)
		},
		partOf(s, f != nil, reducing(func(sofar V, r Record[K, V]) (V, error) { return f(sofar, r.Value) })))
}

// AggregateSessions returns the table of what fold makes of the records of each session, as
// [Aggregate] does. merge combines the aggregate so far, which begins as what initial returns, with
// that of each session that the record belongs to, in the order of their ends. fold then adds the
// record; it may return [ErrRemove].
func AggregateSessions[K, V, A any](
	s Stream[K, V], w SessionWindows, store Store[state.Session[K, A]], initial func() A,
	fold func(sofar A, r Record[K, V]) (A, error), merge func(key K, a, b A) (A, error), opts ...NodeOption,
) SessionTable[K, A] {
	return aggregateSessions(w, store, "AggregateSessions", opts, mergingSessions(initial, merge),
		partOf(s, fold != nil && merge != nil, folding(initial, fold)))
}

// sessionMerge combines the sessions that become one, before the step of the record; ok is false
// for the first of them.
type sessionMerge[K, A any] func(key K, a A, ok bool, b A) (A, error)

func mergingSessions[K, A any](initial func() A, merge func(key K, a, b A) (A, error)) sessionMerge[K, A] {
	return func(key K, a A, ok bool, b A) (A, error) {
		if !ok && initial != nil {
			a = initial()
		}
		return merge(key, a, b)
	}
}

// aggregateSessions adds the node that takes the steps for each record of its parts.
func aggregateSessions[K, A any](
	w SessionWindows, store Store[state.Session[K, A]], what string, opts []NodeOption, merge sessionMerge[K, A],
	parts ...part[K, A],
) SessionTable[K, A] {
	old := new(bool)
	closing := &closing[K, A]{name: store.name, key: codecOf[K](store.key), value: codecOf[A](store.value)}
	p := addAggregation(parts, store, what, false, opts, func(t *Setup, next Emit[Windowed[K], Change[A]]) Emit[K, bound[A]] {
		x := &sessioning[K, A]{
			gap: w.gap.Milliseconds(), grace: w.grace.Milliseconds(), rows: store.In(t), merge: merge, next: next,
			twice: *old && shares[A](), late: t.Counter(countLate),
		}
		// Its stream time is the node's: it is committed and reverted with the rows.
		x.time, _, _ = watch(t, store.name, codecOf[K](store.key), codecOf[A](store.value))
		if closing.port != nil {
			x.closer = &sessionCloser[K, A]{openIndex: closing.open(t), after: x.gap + x.grace, rows: x.rows}
		}
		return x.process
	})
	n := p.node
	closing.node = n
	n.windows = w.String()
	n.clause(KeyAssumption, "records of one key are aggregated; those with a null key are left out").
		clause(OnDuplicate, "a record that comes again is aggregated again").
		clause(OutOfOrder, "a record joins the sessions around its timestamp ("+n.windows+"); it is late, counted and left out if "+
			"stream time has passed the end of its session by more than the gap and the grace")
	b := parts[0].builder(what)
	if err := w.check(); err != nil {
		b.mistakeAt(n.pos, n.name, err)
	} else if store.retention < w.Retention() {
		b.mistakeAt(n.pos, n.name, fmt.Errorf("store %s keeps sessions for %s, which is less than their gap, their grace and "+
			"a millisecond, %s (SessionWindows.Retention)", store.name, store.retention, w.Retention()))
	}
	info, _ := store.info() // addAggregation has looked at it
	return SessionTable[K, A]{closing: closing, Table: Table[Windowed[K], A]{b: b, port: p, view: view[Windowed[K], A]{
		stores: []storeInfo{info},
		open: func(t *Setup) getter[Windowed[K], A] {
			rows := store.In(t)
			return func(w Windowed[K]) (A, int64, bool, error) {
				v, ok, err := rows.Get(w.Key, w.Start, w.End)
				return v, w.End, ok, err
			}
		},
		wantOld: func() { *old = true },
	}}}
}

// sessioning is an aggregation in sessions in a graph.
type sessioning[K, A any] struct {
	gap, grace int64
	rows       state.Session[K, A]
	// time is the store, for its stream time.
	time  state.Bytes
	merge sessionMerge[K, A]
	next  Emit[Windowed[K], Change[A]]
	// twice has values read again for changes, because the steps may change what they get.
	twice bool
	late  *Counter
	// closer is nil if nothing asks for closed sessions.
	closer *sessionCloser[K, A]
	// found are the sessions of the record that is being processed.
	found []state.SessionEntry[K, A]
}

func (x *sessioning[K, A]) process(c *Context, r Record[K, bound[A]]) error {
	if before := x.time.StreamTime(); r.Timestamp > before {
		// Sessions are closed before the time moves on: they may expire then. This record belongs
		// to none of them.
		if x.closer != nil {
			if err := x.closer.close(c, before, r.Timestamp); err != nil {
				return err
			}
		}
		x.time.Advance(r.Timestamp)
	}
	session := Windowed[K]{Key: r.Key, Start: r.Timestamp, End: r.Timestamp}
	x.found = x.found[:0]
	closed := x.time.StreamTime() - x.grace - x.gap // sessions that end before it take no more records
	for e, err := range x.rows.Find(r.Key, max(r.Timestamp-x.gap, closed), r.Timestamp+x.gap) {
		if err != nil {
			return err
		}
		x.found = append(x.found, e)
		session.Start, session.End = min(session.Start, e.Start), max(session.End, e.End)
	}
	if session.End < closed {
		x.late.Inc()
		return nil
	}
	// A session of one moment, and a record of that moment: Kafka Streams says nothing of the value
	// before.
	alone := session.Start == session.End
	var sofar A
	var change Change[A]
	for i, e := range x.found {
		old, err := x.before(r.Key, e)
		if err != nil {
			return err
		}
		if alone {
			change.Old = old
		} else if err := x.remove(c, r, e, old); err != nil {
			return err
		}
		if sofar, err = x.merge(r.Key, sofar, i > 0, e.Value); err != nil {
			return err
		}
	}
	value, err := result(r.Value(sofar, len(x.found) > 0))
	if err != nil {
		return err
	}
	if value.ok {
		_, err = x.rows.Put(r.Key, session.Start, session.End, value.value)
	} else {
		err = x.rows.Delete(r.Key, session.Start, session.End)
	}
	if err == nil && x.closer != nil {
		err = x.closer.replace(c, x.found, session, value.ok)
	}
	if err != nil {
		return err
	}
	change.New = value
	return x.emit(c, r, session, change)
}

// before returns the value of a session for a change. The steps may change the one in e.
func (x *sessioning[K, A]) before(key K, e state.SessionEntry[K, A]) (Option[A], error) {
	if !x.twice {
		return Some(e.Value), nil
	}
	v, ok, err := x.rows.Get(key, e.Start, e.End)
	return Option[A]{v, ok}, err
}

// remove deletes a session that becomes part of another one.
func (x *sessioning[K, A]) remove(c *Context, r Record[K, bound[A]], e state.SessionEntry[K, A], old Option[A]) error {
	if err := x.rows.Delete(r.Key, e.Start, e.End); err != nil {
		return err
	}
	return x.emit(c, r, Windowed[K]{Key: r.Key, Start: e.Start, End: e.End}, Change[A]{Old: old})
}

func (x *sessioning[K, A]) emit(c *Context, r Record[K, bound[A]], session Windowed[K], change Change[A]) error {
	out := WithKey(WithValue(r, change), session)
	out.Timestamp = session.End
	return x.next(c, out)
}
