package topology

import (
	"encoding/binary"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
)

// Closed returns the stream of the values that sessions end with: one record for each session. A
// session closes when the stream time of the node has passed its end by more than the gap and the
// grace. Sessions close in the order of their ends, and of the bytes of their keys. Timestamp,
// headers and mode of the record are as with [WindowedTable.Closed]. A session whose entry was
// removed has no record. As long as no record comes that moves the stream time on, nothing closes.
//
// It is what Kafka Streams' EmitStrategy.onWindowClose does. It needs a second store, named like
// the first with "-closing" behind it. A session that is open when a running application gets its
// first use of Closed is in it after its next record only.
func (t SessionTable[K, V]) Closed() Stream[Windowed[K], V] {
	return t.closing.stream(t.builder("Closed"))
}

// sessionCloser closes sessions in a graph. A row of its index has the end of a session, its key
// and its beginning.
type sessionCloser[K, V any] struct {
	openIndex[K, V]
	// after is how long after its end a session takes records.
	after int64
	rows  state.Session[K, V]
}

// rowOf returns the key of a session in the index. It is good until the next call.
func (x *sessionCloser[K, V]) rowOf(key K, start, end int64) ([]byte, error) {
	row, err := x.key.Append(binary.BigEndian.AppendUint64(x.row[:0], uint64(end)), key)
	if err != nil {
		return nil, &graph.PartError{Part: "key", Err: err}
	}
	x.row = binary.BigEndian.AppendUint64(row, uint64(start))
	return x.row, nil
}

// replace notes that a session has taken the place of others. exists is false if its entry was
// removed.
func (x *sessionCloser[K, V]) replace(c *Context, others []state.SessionEntry[K, V], session Windowed[K], exists bool) error {
	live := c.graph.ownMode == Live
	var mode []byte
	for i, other := range others {
		row, err := x.rowOf(session.Key, other.Start, other.End)
		if err != nil {
			return err
		}
		value, ok, err := x.index.Get(row)
		if err != nil {
			return err
		}
		live = live || ok && len(value) == 0
		if ok && i == 0 {
			mode = append(mode, value...)
		}
		if exists && other.Start == session.Start && other.End == session.End {
			continue
		}
		if err := x.index.Delete(row); err != nil {
			return err
		}
	}
	if !exists {
		return nil
	}
	switch {
	case live:
		mode = []byte{}
	case len(mode) == 0:
		mode = []byte(c.graph.ownMode.String())
	}
	row, err := x.rowOf(session.Key, session.Start, session.End)
	if err != nil {
		return err
	}
	return x.index.Put(row, mode)
}

// close passes on the sessions that are closed at the stream time now and were not at the one
// before.
func (x *sessionCloser[K, V]) close(c *Context, before, now int64) error {
	from, to := int64(0), now-x.after
	if before > x.after { // what was closed earlier is deleted, and need not be walked over
		from = before - x.after
	}
	if to <= from {
		return nil
	}
	for e, err := range x.index.Scan(timesBetween(from, to)) {
		if err != nil {
			return err
		}
		if err := x.pass(c, e.Key, e.Value); err != nil {
			return err
		}
	}
	return nil
}

// pass passes on one session, of a row of the index and its value.
func (x *sessionCloser[K, V]) pass(c *Context, row, mode []byte) error {
	n := len(row) - startBytes
	if n < startBytes {
		return Fail(Corruption, errShortIndex)
	}
	end, start := int64(binary.BigEndian.Uint64(row)), int64(binary.BigEndian.Uint64(row[n:]))
	key, err := x.key.Decode(row[startBytes:n])
	if err != nil {
		return err
	}
	value, ok, err := x.rows.Get(key, start, end)
	if err != nil {
		return err
	}
	if err := x.index.Delete(row); err != nil || !ok {
		return err
	}
	return emitAs(c, mode, x.next, Windowed[K]{Key: key, Start: start, End: end}, value, end)
}
