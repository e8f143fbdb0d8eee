package topology

import (
	"slices"

	"github.com/onceward/onceward/state"
)

// slide takes the steps of one record in sliding windows, as Kafka Streams does.
//
// A record changes the windows that it is in. It may need up to three more: one that ends with it,
// one that begins behind it, and one that begins behind the record before it. A store has no
// records, but each of these windows has the records of a window that is stored, with or without
// this one. The window that begins behind the record before has this record only.
func (x *windowing[K, A]) slide(c *Context, r Record[K, bound[A]]) error {
	if err := x.moveOn(c, r.Timestamp); err != nil {
		return err
	}
	if x.closed(r.Timestamp) {
		x.late.Inc()
		return nil
	}
	if r.Timestamp < x.size {
		return x.slideEarly(c, r)
	}
	x.starts = x.starts[:0]
	at := r.Timestamp
	// left and right are the windows with the records before this one, and those behind it.
	var left, right windowValue[K, A]
	before, endsHere, beginsBehind, any := int64(noRecord), false, false, false
	for e, err := range x.rows.FetchReverse(r.Key, max(0, at-2*x.size), at+1) {
		if err != nil {
			return err
		}
		x.starts = append(x.starts, e.Start)
		end := e.Start + x.size
		if end < at {
			before = e.Time
			if !endsHere && before >= at-x.size {
				if left, err = x.own(e); err != nil {
					return err
				}
			}
			break
		}
		if e.Start > at {
			beginsBehind = true
			continue
		}
		// The first window has all records behind this one that are close enough to it.
		if end > at && !any {
			any = true
			if e.Time > at && !beginsBehind {
				if right, err = x.own(e); err != nil {
					return err
				}
			}
		}
		if err := x.stepIfOpen(c, r, e.Start, windowValue[K, A]{WindowEntry: e, ok: true}); err != nil {
			return err
		}
		if end == at {
			if e.Time == at { // there was a record of this timestamp, and all windows of it are there
				return nil
			}
			endsHere, before = true, e.Time
		}
	}
	if before != noRecord && before+1+x.size >= at {
		if err := x.beginBehind(c, r, before); err != nil {
			return err
		}
	}
	if !endsHere {
		if err := x.stepIfOpen(c, r, at-x.size, left); err != nil {
			return err
		}
	}
	if right.ok {
		return x.takeOver(c, r, right)
	}
	return nil
}

// slideEarly is slide for records whose windows would begin before the epoch. The window that
// begins at the epoch has all of them.
func (x *windowing[K, A]) slideEarly(c *Context, r Record[K, bound[A]]) error {
	x.starts = x.starts[:0]
	at := r.Timestamp
	var first, right windowValue[K, A]
	before, beginsBehind, any := int64(noRecord), false, false
	for e, err := range x.rows.Fetch(r.Key, 0, at+1) {
		if err != nil {
			return err
		}
		x.starts = append(x.starts, e.Start)
		switch {
		case e.Start == 0:
			first = windowValue[K, A]{WindowEntry: e, ok: true}
			if e.Time < at {
				before = e.Time
			}
		case e.Start > at:
			beginsBehind = true
		default:
			any, right.ok = true, false
			if e.Time > at {
				if right, err = x.own(e); err != nil {
					return err
				}
			}
			if err := x.stepIfOpen(c, r, e.Start, windowValue[K, A]{WindowEntry: e, ok: true}); err != nil {
				return err
			}
		}
	}
	if !any && first.ok && first.Time > at { // with a record before this one, there would be a window behind that
		var err error
		if right, err = x.own(first.WindowEntry); err != nil {
			return err
		}
	}
	if right.ok && !beginsBehind {
		if err := x.takeOver(c, r, right); err != nil {
			return err
		}
	}
	if before != noRecord {
		if err := x.beginBehind(c, r, before); err != nil {
			return err
		}
	}
	return x.stepIfOpen(c, r, 0, first)
}

// noRecord is in place of a timestamp where there is no record.
const noRecord = -1

// own returns e for another window to take over, with a value that no step changes.
func (x *windowing[K, A]) own(e state.WindowEntry[K, A]) (own windowValue[K, A], err error) {
	own = windowValue[K, A]{WindowEntry: e, ok: true}
	if x.shares {
		own.Value, own.Time, own.ok, err = x.rows.Get(e.Key, e.Start)
	}
	if err == nil && x.closer != nil {
		own.mode, err = x.closer.modeOf(e.Key, e.Start)
	}
	return own, err
}

// stepIfOpen is step for a window that may be closed.
func (x *windowing[K, A]) stepIfOpen(c *Context, r Record[K, bound[A]], start int64, e windowValue[K, A]) error {
	if x.closed(start) {
		x.late.Inc()
		return nil
	}
	return x.step(c, r, start, e)
}

// beginBehind takes the step of the window that begins behind the record before, unless it is
// there.
func (x *windowing[K, A]) beginBehind(c *Context, r Record[K, bound[A]], before int64) error {
	if slices.Contains(x.starts, before+1) {
		return nil
	}
	return x.stepIfOpen(c, r, before+1, windowValue[K, A]{})
}

// takeOver makes the window that begins behind the record, with the records of another window that
// are in it.
func (x *windowing[K, A]) takeOver(c *Context, r Record[K, bound[A]], right windowValue[K, A]) error {
	return x.keep(c, r, r.Timestamp+1, right, Change[A]{New: Some(right.Value)}, right.Time)
}
