package topology

import (
	"encoding/binary"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
)

// Closed returns the stream of the values that windows end with: one record for each key and
// window, when the stream time of the node has passed the end of the window and the grace. A
// sliding window includes its end, so it closes a millisecond later. Windows close in the order of
// their ends, and of the bytes of their keys. The timestamp of the record is that of the aggregate;
// it has no headers but [HeaderMode] and no [Record.Source], for it is made of many records: it is
// live if one of them was, and otherwise in the mode of the first. A window whose entry was removed
// has no record. As long as no record comes that moves the stream time on, nothing closes.
//
// It is what Kafka Streams' suppress(untilWindowCloses) does, without a bound for the memory, since
// what waits is in stores: beside the windows that are open a second one, named like the first with
// "-closing" behind it. Windows that are open when a running application gets its first use of
// Closed are not in it, and have no record.
func (t WindowedTable[K, V]) Closed() Stream[Windowed[K], V] {
	return t.closing.stream(t.builder("Closed"))
}

// openWindowCloser returns the closer for the node that t prepares.
func openWindowCloser[K, V any](t *Setup, x *closing[K, V], rows state.Window[K, V], s spans) *windowCloser[K, V] {
	closer := &windowCloser[K, V]{spans: s, rows: rows, openIndex: x.open(t)}
	if raw, _, err := t.store(x.index().name); err == nil { // else watch has noted it
		if _, closer.modes, err = raw.Get(anyMode); err != nil {
			t.errs = append(t.errs, err)
		}
	}
	return closer
}

// windowCloser closes windows in a graph. A row of its index has the beginning of a window,
// followed by its key. A row of its own, anyMode, says that there ever was a window that was not
// live. It is behind all windows.
type windowCloser[K, V any] struct {
	spans
	openIndex[K, V]
	rows state.Window[K, V]
	// modes says that there may be windows that are not live. It stays set when a record or a round
	// that has set it is undone: then join looks where it need not.
	modes bool
}

// anyMode is the key of a row of the index: no window begins there.
var anyMode = []byte{0xff}

// open notes that a window has got its first value.
func (x *windowCloser[K, V]) open(c *Context, key K, start int64) error {
	row, err := x.rowOf(key, start)
	if err != nil {
		return err
	}
	value := []byte{}
	if own := c.graph.ownMode; own != Live {
		value = []byte(own.String())
		if err := x.noteMode(); err != nil {
			return err
		}
	}
	return x.index.Put(row, value)
}

// openAs notes that a window has taken its first value over from another one, with the mode of
// that. The window is live if the record is a live one that belongs to it.
func (x *windowCloser[K, V]) openAs(c *Context, key K, start int64, mode string, belongs bool) error {
	if belongs && c.graph.ownMode == Live {
		mode = ""
	}
	row, err := x.rowOf(key, start)
	if err != nil {
		return err
	}
	return x.index.Put(row, []byte(mode))
}

// modeOf returns the mode of a window for openAs, which is empty for a live one. A window that has
// closed is taken for a live one, because its mode is not known any more.
func (x *windowCloser[K, V]) modeOf(key K, start int64) (string, error) {
	if !x.modes {
		return "", nil
	}
	row, err := x.rowOf(key, start)
	if err != nil {
		return "", err
	}
	mode, _, err := x.index.Get(row)
	return string(mode), err
}

// noteMode notes that there is a window that is not live. Whether the row is there already is asked
// of the store and not of x.modes, because the row goes when the record that has written it is
// undone, and a round that is aborted tells nobody here.
func (x *windowCloser[K, V]) noteMode() error {
	x.modes = true
	_, noted, err := x.index.Get(anyMode)
	if err != nil || noted {
		return err
	}
	return x.index.Put(anyMode, []byte{})
}

// rowOf returns the key of a window in the index. It is good until the next call.
func (x *windowCloser[K, V]) rowOf(key K, start int64) ([]byte, error) {
	row, err := x.key.Append(binary.BigEndian.AppendUint64(x.row[:0], uint64(start)), key)
	if err != nil {
		return nil, &graph.PartError{Part: "key", Err: err}
	}
	x.row = row
	return row, nil
}

// join notes that a window has got one more value, which may be the first one that is live.
func (x *windowCloser[K, V]) join(c *Context, key K, start int64) error {
	if !x.modes || c.graph.ownMode != Live {
		return nil
	}
	row, err := x.rowOf(key, start)
	if err != nil {
		return err
	}
	value, ok, err := x.index.Get(row)
	if err != nil || !ok || len(value) == 0 {
		return err
	}
	return x.index.Put(row, []byte{})
}

// close passes on the windows that are closed at the stream time now and were not at the one
// before.
func (x *windowCloser[K, V]) close(c *Context, before, now int64) error {
	last, closed := x.closing(now), x.closing(before)
	if last < 0 || last == closed {
		return nil
	}
	// What was closed earlier is deleted. To begin behind it spares the database a walk over what
	// it has not yet cleared away.
	for e, err := range x.index.Scan(timesBetween(max(closed+1, 0), last+1)) {
		if err != nil {
			return err
		}
		if err := x.pass(c, e.Key, e.Value); err != nil {
			return err
		}
	}
	return nil
}

// pass passes on one window, of a row of the index and its value.
func (x *windowCloser[K, V]) pass(c *Context, row, mode []byte) error {
	if len(row) < startBytes {
		return Fail(Corruption, errShortIndex)
	}
	start := int64(binary.BigEndian.Uint64(row))
	key, err := x.key.Decode(row[startBytes:])
	if err != nil {
		return err
	}
	value, ms, ok, err := x.rows.Get(key, start)
	if err != nil {
		return err
	}
	if err := x.index.Delete(row); err != nil || !ok {
		return err
	}
	return emitAs(c, mode, x.next, Windowed[K]{Key: key, Start: start, End: start + x.size}, value, ms)
}
