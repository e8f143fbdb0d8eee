package topology

import (
	"fmt"

	"github.com/onceward/onceward/state"
)

// WindowedTable is the table of an aggregation in windows: one entry for each key and window. As a
// table it has a change for each record in a window, while the window takes records.
// [WindowedTable.Closed] has the values that windows end with.
type WindowedTable[K, V any] struct {
	Table[Windowed[K], V]
	closing *closing[K, V]
}

// CountWindows returns the table of how many records each key has had in each window.
//
// The following holds for all aggregations in windows. The node is named after the store. It goes
// by a stream time of its own: the largest timestamp of the records that it has got. A window takes
// records while its end is after that time less the grace; the end of a sliding window may also be
// that time. For each window that a record comes too late for, it is counted as "late". Records
// with a null key are left out and counted as "null-key". The timestamp of an aggregate is the
// largest of those of its records. The store keeps windows for its own retention, at least
// [Windows.Retention]: a window expires when its beginning is that long behind the node's stream
// time.
//
// A key that an operator has changed needs a [Stream.Repartition] before it. Other windows are
// another aggregation: give the store another name.
func CountWindows[K, V any](
	s Stream[K, V], w Windows, store Store[state.Window[K, int64]], opts ...NodeOption,
) WindowedTable[K, int64] {
	return aggregateWindows(w, store, "CountWindows", opts, partOf(s, true, counting[K, V]))
}

// ReduceWindows returns the table of what f makes of the values of each key in each window, as
// [Reduce] does.
func ReduceWindows[K, V any](
	s Stream[K, V], w Windows, store Store[state.Window[K, V]], f func(sofar V, r Record[K, V]) (V, error),
	opts ...NodeOption,
) WindowedTable[K, V] {
	return aggregateWindows(w, store, "ReduceWindows", opts, partOf(s, f != nil, reducing(f)))
}

// AggregateWindows returns the table of what fold makes of the records of each key in each window,
// as [Aggregate] does.
func AggregateWindows[K, V, A any](
	s Stream[K, V], w Windows, store Store[state.Window[K, A]], initial func() A,
	fold func(sofar A, r Record[K, V]) (A, error), opts ...NodeOption,
) WindowedTable[K, A] {
	return aggregateWindows(w, store, "AggregateWindows", opts, partOf(s, fold != nil, folding(initial, fold)))
}

// aggregateWindows adds the node that takes one step for each record of its parts and each window
// of the record.
func aggregateWindows[K, A any](
	w Windows, store Store[state.Window[K, A]], what string, opts []NodeOption, parts ...part[K, A],
) WindowedTable[K, A] {
	old := new(bool)
	closing := &closing[K, A]{name: store.name, key: codecOf[K](store.key), value: codecOf[A](store.value)}
	p := addAggregation(parts, store, what, w.sliding, opts, func(t *Setup, next Emit[Windowed[K], Change[A]]) Emit[K, bound[A]] {
		x := &windowing[K, A]{spans: w.spans(), rows: store.In(t), next: next, shares: shares[A](), late: t.Counter(countLate)}
		x.twice = *old && x.shares
		// Its stream time is the node's: it is committed and reverted with the rows.
		x.time, _, _ = watch(t, store.name, codecOf[K](store.key), codecOf[A](store.value))
		if closing.port != nil {
			x.closer = openWindowCloser(t, closing, x.rows, x.spans)
		}
		if w.sliding {
			return x.slide
		}
		return x.process
	})
	n := p.node
	closing.node = n
	n.windows = w.String()
	left := "those with a null key"
	if w.sliding {
		left = "those with a null key or a null value"
	}
	n.clause(KeyAssumption, "records of one key are aggregated; "+left+" are left out").
		clause(OnDuplicate, "a record that comes again is aggregated again").
		clause(OutOfOrder, "a record is in each window of its timestamp ("+n.windows+") that stream time has not passed by "+
			"more than the grace; for the others it is late, counted and left out")
	b := parts[0].builder(what)
	if err := w.check(); err != nil {
		b.mistakeAt(n.pos, n.name, err)
	} else if store.retention < w.Retention() {
		b.mistakeAt(n.pos, n.name, fmt.Errorf("store %s keeps windows for %s, which is less than these "+
			"need, %s (Windows.Retention)", store.name, store.retention, w.Retention()))
	}
	info, _ := store.info() // addAggregation has looked at it
	return WindowedTable[K, A]{closing: closing, Table: Table[Windowed[K], A]{b: b, port: p, view: view[Windowed[K], A]{
		stores: []storeInfo{info},
		open: func(t *Setup) getter[Windowed[K], A] {
			rows := store.In(t)
			return func(w Windowed[K]) (A, int64, bool, error) { return rows.Get(w.Key, w.Start) }
		},
		wantOld: func() { *old = true },
	}}}
}

// windowing is an aggregation in windows in a graph.
type windowing[K, A any] struct {
	spans
	rows state.Window[K, A]
	// time is the store, for its stream time.
	time state.Bytes
	next Emit[Windowed[K], Change[A]]
	// shares says that the steps may change what they get. twice says that changes need values of
	// their own then.
	shares, twice bool
	late          *Counter
	// closer is nil if nothing asks for closed windows.
	closer *windowCloser[K, A]
	// starts are the beginnings of the sliding windows around the record that is being processed.
	starts []int64
}

func (x *windowing[K, A]) process(c *Context, r Record[K, bound[A]]) error {
	if err := x.moveOn(c, r.Timestamp); err != nil {
		return err
	}
	for start := x.first(r.Timestamp); start <= r.Timestamp; start += x.advance {
		if x.closed(start) {
			x.late.Inc()
			continue
		}
		if err := x.add(c, r, start); err != nil {
			return err
		}
	}
	return nil
}

// moveOn has the stream time of the node include a timestamp.
func (x *windowing[K, A]) moveOn(c *Context, ms int64) error {
	before := x.time.StreamTime()
	if ms <= before {
		return nil
	}
	// Windows are closed before the time moves on: they may expire then. A record of that timestamp
	// is in none of them.
	if x.closer != nil {
		if err := x.closer.close(c, before, ms); err != nil {
			return err
		}
	}
	x.time.Advance(ms)
	return nil
}

// closed reports whether a window takes no more records.
func (x *windowing[K, A]) closed(start int64) bool {
	return start+x.lasts <= x.time.StreamTime()-x.grace
}

// windowValue is the value of a window. Another window may take it over. ok is false if there is
// none.
type windowValue[K, A any] struct {
	state.WindowEntry[K, A]
	ok bool
	// mode is that of the window, for a window that takes the value over: see
	// [windowCloser.openAs].
	mode string
}

// add takes the step of one window.
func (x *windowing[K, A]) add(c *Context, r Record[K, bound[A]], start int64) error {
	e := windowValue[K, A]{WindowEntry: state.WindowEntry[K, A]{Key: r.Key, Start: start}}
	var err error
	if e.Value, e.Time, e.ok, err = x.rows.Get(r.Key, start); err != nil {
		return err
	}
	return x.step(c, r, start, e)
}

// step takes the step of the window that begins at start. e has the value so far.
func (x *windowing[K, A]) step(c *Context, r Record[K, bound[A]], start int64, e windowValue[K, A]) error {
	var change Change[A]
	var err error
	if e.ok && e.Start == start {
		if change.Old, err = x.before(e); err != nil {
			return err
		}
	}
	if change.New, err = result(r.Value(e.Value, e.ok)); err != nil {
		return err
	}
	at := r.Timestamp
	if e.ok {
		at = max(at, e.Time)
	}
	return x.keep(c, r, start, e, change, at)
}

// before returns the value of a window for a change. The steps may change the one in e.
func (x *windowing[K, A]) before(e windowValue[K, A]) (Option[A], error) {
	if !x.twice {
		return Some(e.Value), nil
	}
	v, _, ok, err := x.rows.Get(e.Key, e.Start)
	return Option[A]{v, ok}, err
}

// keep stores a change of the window that begins at start, and passes it on. e is what the window
// had so far.
func (x *windowing[K, A]) keep(
	c *Context, r Record[K, bound[A]], start int64, e windowValue[K, A], change Change[A], at int64,
) (err error) {
	if change.New.ok {
		// The window is stored: the store keeps for the retention what is open.
		_, err = x.rows.Put(r.Key, start, change.New.value, at)
	} else {
		err = x.rows.Delete(r.Key, start)
	}
	if err == nil && change.New.ok && x.closer != nil {
		switch {
		case !e.ok:
			err = x.closer.open(c, r.Key, start)
		case e.Start == start:
			err = x.closer.join(c, r.Key, start)
		default:
			err = x.closer.openAs(c, r.Key, start, e.mode, start <= r.Timestamp)
		}
	}
	if err != nil {
		return err
	}
	out := WithKey(WithValue(r, change), Windowed[K]{Key: r.Key, Start: start, End: start + x.size})
	out.Timestamp = at
	return x.next(c, out)
}
