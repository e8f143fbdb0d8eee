package topology

import (
	"errors"
	"fmt"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
)

// Suppression sets how long a table holds its changes back: see [Table.Suppress]. It is made with
// [UntilTimeLimit], and is a value.
type Suppression struct {
	limit          time.Duration
	records, bytes int64
}

// UntilTimeLimit returns a suppression that holds the first change of a key back for that long, by
// stream time.
func UntilTimeLimit(limit time.Duration) Suppression { return Suppression{limit: limit} }

// MaxRecords returns s with a bound for the keys that are held back. If there are more, the oldest
// changes are emitted early. The default is no bound.
func (s Suppression) MaxRecords(n int64) Suppression {
	s.records = n
	return s
}

// MaxBytes returns s with a bound for the bytes of the keys and values that are held back. If there
// are more, the oldest changes are emitted early. The default is no bound.
func (s Suppression) MaxBytes(n int64) Suppression {
	s.bytes = n
	return s
}

// String returns the limit and the bounds; two suppressions of the same string are the same.
func (s Suppression) String() string {
	text := fmt.Sprintf("until time limit %s", s.limit)
	if s.records != 0 {
		text += fmt.Sprintf(", max records %d", s.records)
	}
	if s.bytes != 0 {
		text += fmt.Sprintf(", max bytes %d", s.bytes)
	}
	return text
}

func (s Suppression) check() error {
	switch {
	case s == Suppression{}:
		return errors.New("the suppression has no limit; UntilTimeLimit makes one")
	case s.limit < time.Millisecond || s.limit > windowsMax || s.limit%time.Millisecond != 0:
		return fmt.Errorf("the time limit is whole milliseconds, from 1 ms to 100 years, not %s", s.limit)
	case s.records < 0 || s.bytes < 0:
		return errors.New("the bounds of a suppression are not negative")
	}
	return nil
}

// Suppress returns the table with fewer changes: it merges the changes of a key that come within
// the limit. The first change of a key is held back until the stream time of the node, the largest
// timestamp of its changes, has reached the timestamp of that change and the limit. Then the last
// value of the key is emitted, with its timestamp. Changes are emitted in the order in which the
// keys began to wait. Nothing is emitted until a record moves the stream time.
//
// The old value of a change is the value that was last emitted for the key. A join that looks up
// the table finds that value too. The record has no headers but [HeaderMode] and no
// [Record.Source]. It is live if one of the changes was, and otherwise in the mode of the first.
//
// The waiting changes are in a store with a changelog. The store and the node have the name; the
// codecs are those of the store. For the last value of windows and sessions, use
// [WindowedTable.Closed] and [SessionTable.Closed], which need no limit.
func (t Table[K, V]) Suppress(
	name string, key schemas.Codec[K], value schemas.Codec[V], until Suppression, opts ...NodeOption,
) Table[K, V] {
	b := t.builder("Suppress(" + name + ")")
	t.wantOld()
	store := KeyValueStore(name, schemas.Bytes(), schemas.Bytes())
	p := addStateful(t.changes(), store, "Suppress", true, opts, func(s *Setup, next Emit[K, Change[V]]) Emit[K, Change[V]] {
		x := &suppressing[K, V]{
			waitingChanges: openWaiting(s, name, key, value), limit: until.limit.Milliseconds(),
			maxRecords: until.records, maxBytes: until.bytes, next: next, last: state.NoTime,
		}
		return x.process
	})
	n := p.node
	n.suppression = until.String()
	n.clause(KeyAssumption, "the last change of a key is emitted, in place of those before it").
		clause(OutOfOrder, "changes of a key are taken in the order of their offsets, whatever their timestamps")
	if _, err := formatsOf(key, value); err != nil {
		b.mistakeAt(n.pos, n.name, err)
	}
	if err := until.check(); err != nil {
		b.mistakeAt(n.pos, n.name, err)
	}
	if t.view.asOf != nil {
		b.mistakeAt(n.pos, n.name, errSuppressVersions)
	}
	info, _ := store.info() // addStateful has looked at it
	return Table[K, V]{b: b, port: p, view: view[K, V]{
		stores: unionOf(t.view.stores, []storeInfo{info}),
		open: func(s *Setup) getter[K, V] {
			parent, waiting := t.view.open(s), openWaiting(s, name, key, value)
			return func(key K) (V, int64, bool, error) {
				row, ok, err := waiting.get(key)
				if err != nil || !ok {
					if err != nil {
						var none V
						return none, 0, false, err
					}
					return parent(key)
				}
				old, err := waiting.decode(row.old)
				return old.value, 0, old.ok, err
			}
		},
		wantOld: func() {}, // it is wanted already
	}}
}

var errSuppressVersions = errors.New("a versioned table cannot be suppressed, because its changes do not replace each other in " +
	"the order in which they come; keep it in a TimestampedStore first: ToTableWithDeletes(table.Stream(), store)")

// suppressing is a suppression in a graph.
type suppressing[K, V any] struct {
	waitingChanges[K, V]
	limit                int64
	maxRecords, maxBytes int64
	next                 Emit[K, Change[V]]
	// last is the stream time after the last change. If it differs now, the state was reverted or
	// the graph is new, and it is unknown since when changes wait.
	last int64
}

func (x *suppressing[K, V]) process(c *Context, r Record[K, Change[V]]) error {
	before := x.rows.StreamTime()
	known := before == x.last
	if r.Timestamp > before {
		x.rows.Advance(r.Timestamp)
	}
	now := x.rows.StreamTime()
	x.last = now
	since, err := x.put(c, r)
	if err != nil {
		return err
	}
	due := now - x.limit // what waits since then is emitted
	from := int64(0)
	if known {
		from = max(0, min(since, before-x.limit+1)) // what waits for longer was emitted then
	}
	if due >= from {
		if err := x.emit(c, from, due+1, nil); err != nil {
			return err
		}
	}
	if x.maxRecords == 0 && x.maxBytes == 0 {
		return nil
	}
	return x.emit(c, 0, now+1, x.full)
}

// full reports whether more waits than the bounds allow.
func (x *suppressing[K, V]) full() (bool, error) {
	held, err := x.totals()
	return x.maxRecords > 0 && held.records > x.maxRecords || x.maxBytes > 0 && held.bytes > x.maxBytes, err
}

// emit emits the changes that wait since a time from from on and before to, the oldest first, as
// long as more returns true.
func (x *suppressing[K, V]) emit(c *Context, from, to int64, more func() (bool, error)) error {
	if more != nil {
		if ok, err := more(); err != nil || !ok {
			return err
		}
	}
	for e, err := range x.rows.Scan(waitingBetween(from, to)) {
		if err != nil {
			return err
		}
		key, row, err := x.take(e.Key)
		if err != nil {
			return err
		}
		var change Change[V]
		if change.Old, err = x.decode(row.old); err != nil {
			return err
		}
		if change.New, err = x.decode(row.new); err != nil {
			return err
		}
		if err := emitAs(c, []byte(row.mode), x.next, key, change, row.ms); err != nil {
			return err
		}
		if more == nil {
			continue
		}
		if ok, err := more(); err != nil || !ok {
			return err
		}
	}
	return nil
}
