package topology

import (
	"fmt"

	"github.com/onceward/onceward/state"
)

// WindowedTable is the table of an aggregation in windows: one entry for each key and window. As a table it
// has a change for each record in a window, while the window takes records. [WindowedTable.Closed] has the
// values that windows end with.
type WindowedTable[K, V any] struct {
	Table[Windowed[K], V]
	closing *closing[K, V]
}

// CountWindows returns the table of how many records each key has had in each window.
//
// What is said here holds for all aggregations in windows. The node is named after the store. It goes by a
// stream time of its own: the largest timestamp of the records that it has got. A window takes records while
// its end is after that time less the grace; for each window that a record comes too late for, it is counted
// as "late". Records with a null key are left out and counted as "null-key". The timestamp of an aggregate is
// the largest of those of its records. The store keeps windows for its own retention, at least
// [Windows.Retention]: it forgets one when its beginning is that long behind the node's stream time.
//
// A key that an operator has changed needs a [Stream.Repartition] before it. Other windows are another aggregation:
// give the store another name.
func CountWindows[K, V any](
	s Stream[K, V], w Windows, store Store[state.Window[K, int64]], opts ...NodeOption,
) WindowedTable[K, int64] {
	return aggregateWindows(s, w, store, "CountWindows", true, opts,
		func(n int64, _ bool, _ Record[K, V]) (int64, error) { return n + 1, nil })
}

// ReduceWindows returns the table of what f makes of the values of each key in each window, as [Reduce] does.
func ReduceWindows[K, V any](
	s Stream[K, V], w Windows, store Store[state.Window[K, V]], f func(sofar V, r Record[K, V]) (V, error),
	opts ...NodeOption,
) WindowedTable[K, V] {
	return aggregateWindows(s, w, store, "ReduceWindows", f != nil, opts, reducing(f))
}

// AggregateWindows returns the table of what fold makes of the records of each key in each window, as
// [Aggregate] does.
func AggregateWindows[K, V, A any](
	s Stream[K, V], w Windows, store Store[state.Window[K, A]], initial func() A,
	fold func(sofar A, r Record[K, V]) (A, error), opts ...NodeOption,
) WindowedTable[K, A] {
	return aggregateWindows(s, w, store, "AggregateWindows", fold != nil, opts, folding(initial, fold))
}

// aggregateWindows adds the node that takes one step for each record and each of its windows.
func aggregateWindows[K, V, A any](
	s Stream[K, V], w Windows, store Store[state.Window[K, A]], what string, defined bool, opts []NodeOption,
	take step[K, V, A],
) WindowedTable[K, A] {
	old := new(bool)
	closing := &closing[K, A]{name: store.name, key: codecOf[K](store.key), value: codecOf[A](store.value)}
	p := addStateful(s, store, what, defined, opts, func(t *Setup, next Emit[Windowed[K], Change[A]]) Emit[K, V] {
		x := &windowing[K, V, A]{
			spans: w.spans(), gate: newGate[K, V](t, false), rows: store.In(t), take: take, next: next,
			keepOld: *old, twice: *old && shares[A](), late: t.Counter(countLate),
		}
		// Its stream time is the node's: it is committed and reverted with the rows.
		x.time, _, _ = watch(t, store.name, codecOf[K](store.key), codecOf[A](store.value))
		if closing.port != nil {
			x.closer = openWindowCloser(t, closing, x.rows, x.spans)
		}
		return x.process
	})
	n := p.node
	closing.node = n
	n.windows = w.String()
	n.clause(KeyAssumption, "records of one key are aggregated; those with a null key are left out").
		clause(OnDuplicate, "a record that comes again is aggregated again").
		clause(OutOfOrder, "a record is in each window of its timestamp ("+n.windows+") that stream time has not passed by "+
			"more than the grace; for the others it is late, counted and left out")
	if err := w.check(); err != nil {
		s.b.mistakeAt(n.pos, n.name, err)
	} else if store.retention < w.Retention() {
		s.b.mistakeAt(n.pos, n.name, fmt.Errorf("store %s keeps windows for %s, which is less than their size and "+
			"their grace, %s (Windows.Retention)", store.name, store.retention, w.Retention()))
	}
	info, _ := store.info() // addStateful has looked at it
	return WindowedTable[K, A]{closing: closing, Table: Table[Windowed[K], A]{b: s.b, port: p, view: view[Windowed[K], A]{
		stores: []storeInfo{info},
		open: func(t *Setup) getter[Windowed[K], A] {
			rows := store.In(t)
			return func(w Windowed[K]) (A, int64, bool, error) { return rows.Get(w.Key, w.Start) }
		},
		wantOld: func() { *old = true },
	}}}
}

// windowing is an aggregation in windows in a graph.
type windowing[K, V, A any] struct {
	spans
	gate *gate[K, V]
	rows state.Window[K, A]
	// time is the store, for its stream time.
	time           state.Bytes
	take           step[K, V, A]
	next           Emit[Windowed[K], Change[A]]
	keepOld, twice bool
	late           *Counter
	// closer is nil if nobody asks for closed windows.
	closer *windowCloser[K, A]
}

func (x *windowing[K, V, A]) process(c *Context, r Record[K, V]) error {
	if x.gate.stops(&r) {
		return nil
	}
	if before := x.time.StreamTime(); r.Timestamp > before {
		// Windows are closed before the time moves on: the store may forget them then. This record is in none of
		// them.
		if x.closer != nil {
			if err := x.closer.close(c, before, r.Timestamp); err != nil {
				return err
			}
		}
		x.time.Advance(r.Timestamp)
	}
	open := x.time.StreamTime() - x.grace
	for start := x.first(r.Timestamp); start <= r.Timestamp; start += x.advance {
		if start+x.size <= open {
			x.late.Inc()
			continue
		}
		if err := x.add(c, r, start); err != nil {
			return err
		}
	}
	return nil
}

// add takes the step of one window.
func (x *windowing[K, V, A]) add(c *Context, r Record[K, V], start int64) error {
	sofar, ms, ok, err := x.rows.Get(r.Key, start)
	before := sofar
	if x.twice && err == nil {
		before, _, _, err = x.rows.Get(r.Key, start)
	}
	if err != nil {
		return err
	}
	change := Change[A]{Old: Option[A]{before, ok}}
	if change.New, err = result(x.take(sofar, ok, r)); err != nil {
		return err
	}
	at := r.Timestamp
	if ok {
		at = max(at, ms)
	}
	if change.New.ok {
		// The window is stored: the store keeps for the retention what is open.
		_, err = x.rows.Put(r.Key, start, change.New.value, at)
	} else {
		err = x.rows.Delete(r.Key, start)
	}
	if err == nil && change.New.ok && x.closer != nil {
		if ok {
			err = x.closer.join(c, r.Key, start)
		} else {
			err = x.closer.open(c, r.Key, start)
		}
	}
	if err != nil {
		return err
	}
	out := WithKey(WithValue(r, change), Windowed[K]{Key: r.Key, Start: start, End: start + x.size})
	out.Timestamp = at
	return x.next(c, out)
}
