package topology

import (
	"bytes"
	"encoding/binary"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
)

// The tags of the sides of a join in the index of what waits. Of records with the same time, those
// of the right stream are passed on first, as in Kafka Streams.
const (
	rightTag = 0
	leftTag  = 1
)

// numberBytes is the size of the number of a record in a row of the index.
const numberBytes = 4

// openRecords are the records of a join that wait until their window has closed, in a graph. A row
// of the index is the tag of a side, and time, key and number of a record in the store of that
// side. The store has the value of the record. The value of the row is empty for a record that is
// live, and otherwise the name of its mode.
type openRecords struct {
	index       state.Bytes
	left, right waitingSide
	// due are rows of the right side, while both sides are passed on.
	due []state.Entry
}

// waitingSide is what waits on one side of a join.
type waitingSide struct {
	outer bool
	// lasts is how long after its time a record waits.
	lasts int64
	// pass passes on the record of a row.
	pass func(c *Context, row, mode []byte) error
}

// between is the range of the rows that are closed at the stream time now and were not at the one
// before.
func (s waitingSide) between(tag byte, before, now int64) (r state.Range, some bool) {
	from, to := max(before-s.lasts, 0), now-s.lasts
	if !s.outer || to <= from {
		return state.Range{}, false
	}
	b := make([]byte, 0, 2*(1+startBytes))
	b = binary.BigEndian.AppendUint64(append(b, tag), uint64(from))
	n := len(b)
	b = binary.BigEndian.AppendUint64(append(b, tag), uint64(to))
	return state.Range{From: b[:n:n], To: b[n:]}, true
}

// close passes on the records whose windows are closed at the stream time now and were not at the
// one before, in the order of their times.
func (x *openRecords) close(c *Context, before, now int64) error {
	defer func() {
		clear(x.due) // or what has closed would stay in memory
		x.due = x.due[:0]
	}()
	if rights, some := x.right.between(rightTag, before, now); some {
		for e, err := range x.index.Scan(rights) {
			if err != nil {
				return err
			}
			x.due = append(x.due, e)
		}
	}
	due := x.due
	passRight := func() error {
		e := due[0]
		due = due[1:]
		return x.pass(c, x.right, e)
	}
	if lefts, some := x.left.between(leftTag, before, now); some {
		for e, err := range x.index.Scan(lefts) {
			if err != nil {
				return err
			}
			for len(due) > 0 && bytes.Compare(timePart(due[0]), timePart(e)) <= 0 {
				if err := passRight(); err != nil {
					return err
				}
			}
			if err := x.pass(c, x.left, e); err != nil {
				return err
			}
		}
	}
	for len(due) > 0 {
		if err := passRight(); err != nil {
			return err
		}
	}
	return nil
}

// timePart is the time in a row of the index. A row without a time is refused when it is passed on.
func timePart(e state.Entry) []byte {
	return e.Key[min(1, len(e.Key)):min(1+startBytes, len(e.Key))]
}

func (x *openRecords) pass(c *Context, side waitingSide, e state.Entry) error {
	if err := x.index.Delete(e.Key); err != nil {
		return err
	}
	g := c.graph
	before := g.waited
	g.waited = waitedRecord{g.node, e.Key}
	if err := side.pass(c, e.Key, e.Value); err != nil {
		return err // the failure is of the record that has waited, which the graph is about to note
	}
	g.waited = before
	return nil
}

// waitedRecord is a record that is passed on in the turn of another one: a row of the index of the
// join node. The zero value is none.
type waitedRecord struct {
	node *node
	row  []byte
}

// String names the record without its key, which a failure must not quote.
func (w waitedRecord) String() string {
	if w.node == nil {
		return ""
	}
	side := "left"
	if len(w.row) > 0 && w.row[0] == rightTag {
		side = "right"
	}
	at := "an unknown time"
	if len(w.row) >= 1+startBytes {
		at = time.UnixMilli(int64(binary.BigEndian.Uint64(w.row[1:]))).UTC().Format(deadLetterTime)
	}
	return "the record with timestamp " + at + " that has waited on the " + side + " side of node " + w.node.name
}

// rowOf returns the row of a record in the index. It is good until the next call.
func (s *joinSide[K, T]) rowOf(key K, ms int64, number uint32) ([]byte, error) {
	row, err := s.key.Append(binary.BigEndian.AppendUint64(append(s.row[:0], s.tag), uint64(ms)), key)
	if err != nil {
		return nil, &graph.PartError{Part: "key", Err: err}
	}
	s.row = binary.BigEndian.AppendUint32(row, number)
	return s.row, nil
}

// wait notes that a record has met none yet.
func (s *joinSide[K, T]) wait(c *Context, open *openRecords, key K, ms int64, number uint32) error {
	row, err := s.rowOf(key, ms, number)
	if err != nil {
		return err
	}
	mode := []byte{}
	if own := c.graph.ownMode; own != Live {
		mode = []byte(own.String())
	}
	return open.index.Put(row, mode)
}

// found notes that a record has met one. Most have not waited, or wait no longer.
func (s *joinSide[K, T]) found(open *openRecords, key K, ms int64, number uint32) error {
	row, err := s.rowOf(key, ms, number)
	if err != nil {
		return err
	}
	if _, waits, err := open.index.Get(row); err != nil || !waits {
		return err
	}
	return open.index.Delete(row)
}

// joinAlone returns what passes on a record that has waited in vain, given its row in the index.
func joinAlone[K, T, O, V any](
	s *joinSide[K, T], join func(key K, own Option[T], other Option[O]) (V, error), next Emit[K, V],
) func(c *Context, row, mode []byte) error {
	return func(c *Context, row, mode []byte) error {
		n := len(row) - numberBytes
		if n < 1+startBytes {
			return Fail(Corruption, errShortIndex)
		}
		key, err := s.key.Decode(row[1+startBytes : n])
		if err != nil {
			return err
		}
		ms := int64(binary.BigEndian.Uint64(row[1:]))
		value, ok, err := s.rows.Get(key, ms, binary.BigEndian.Uint32(row[n:]))
		if err != nil || !ok { // a broker has deleted its record from the changelog
			return err
		}
		v, err := join(key, Some(value), None[O]())
		if err != nil {
			return err
		}
		return emitAs(c, mode, next, key, v, ms)
	}
}
