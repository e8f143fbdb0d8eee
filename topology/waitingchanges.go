package topology

import (
	"encoding/binary"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
)

// waitingChanges is the store of a [Suppression] in a graph. Its rows are:
//
//	k key         the change of a key that waits: see waitingChange
//	t since key   empty; since is when the key began to wait, so that the oldest come first
//	n             how many keys wait, and the bytes of their first two rows
//
// Numbers are eight bytes, big-endian.
type waitingChanges[K, V any] struct {
	rows  state.Bytes
	key   schemas.Codec[K]
	value schemas.Codec[V]
	// buffer has the key of a row, and index that of a row by time.
	buffer, index []byte
}

// The first byte of the keys of the rows.
const (
	waitingKey    = 'k'
	waitingTime   = 't'
	waitingTotals = 'n'
)

// openWaiting returns the store for the node that t prepares.
func openWaiting[K, V any](t *Setup, name string, key schemas.Codec[K], value schemas.Codec[V]) waitingChanges[K, V] {
	rows, _, _ := watch(t, name, schemas.Bytes(), schemas.Bytes())
	return waitingChanges[K, V]{rows: rows, key: key, value: value}
}

// waitingChange is a row. Its bytes are a version, since, ms, the length of the mode, the mode, and
// the two values. A value is its length and a byte more, as a varint, and its bytes; the length 0
// says that there is none.
type waitingChange struct {
	since, ms int64
	// mode is empty for a change that is live.
	mode string
	// old and new are encoded, and nil where there is no value. old is what was emitted last.
	old, new []byte
}

const (
	waitingVersion = 1
	waitingHead    = 1 + 8 + 8 + 1
)

const errWaitingRow = schemas.Reason("a row of the store of suppressed changes cannot be taken apart")

func (w *waitingChange) append(b []byte) []byte {
	b = append(b, waitingVersion)
	b = binary.BigEndian.AppendUint64(b, uint64(w.since))
	b = binary.BigEndian.AppendUint64(b, uint64(w.ms))
	b = append(append(b, byte(len(w.mode))), w.mode...)
	for _, v := range [][]byte{w.old, w.new} {
		if v == nil {
			b = append(b, 0)
			continue
		}
		b = append(binary.AppendUvarint(b, uint64(len(v))+1), v...)
	}
	return b
}

func parseWaiting(b []byte) (w waitingChange, ok bool) {
	if len(b) < waitingHead || b[0] != waitingVersion {
		return w, false
	}
	w.since, w.ms = int64(binary.BigEndian.Uint64(b[1:])), int64(binary.BigEndian.Uint64(b[9:]))
	mode := int(b[waitingHead-1])
	if b = b[waitingHead:]; len(b) < mode {
		return w, false
	}
	w.mode, b = string(b[:mode]), b[mode:]
	for _, v := range []*[]byte{&w.old, &w.new} {
		length, n := binary.Uvarint(b)
		if n <= 0 || length > uint64(len(b)-n)+1 {
			return w, false
		}
		if b = b[n:]; length > 0 {
			*v, b = b[:length-1:length-1], b[length-1:]
		}
	}
	return w, len(b) == 0
}

// rowOf returns the key of the row of a key. It is good until the next call.
func (x *waitingChanges[K, V]) rowOf(key K) ([]byte, error) {
	row, err := x.key.Append(append(x.buffer[:0], waitingKey), key)
	if err != nil {
		return nil, &graph.PartError{Part: "key", Err: err}
	}
	x.buffer = row
	return row, nil
}

// indexOf returns the key of the row by time that belongs to the row of a key. It is good until the
// next call.
func (x *waitingChanges[K, V]) indexOf(row []byte, since int64) []byte {
	x.index = binary.BigEndian.AppendUint64(append(x.index[:0], waitingTime), uint64(since))
	x.index = append(x.index, row[1:]...)
	return x.index
}

// waitingBetween is the range of the rows of what waits since a time from from on and before to.
func waitingBetween(from, to int64) state.Range {
	return state.Range{
		From: binary.BigEndian.AppendUint64([]byte{waitingTime}, uint64(from)),
		To:   binary.BigEndian.AppendUint64([]byte{waitingTime}, uint64(to)),
	}
}

func (x *waitingChanges[K, V]) get(key K) (w waitingChange, ok bool, err error) {
	row, err := x.rowOf(key)
	if err != nil {
		return w, false, err
	}
	w, _, ok, err = x.read(row)
	return w, ok, err
}

// read returns a row and the bytes that it and its row by time take.
func (x *waitingChanges[K, V]) read(row []byte) (w waitingChange, bytes int64, ok bool, err error) {
	b, ok, err := x.rows.Get(row)
	if err != nil || !ok {
		return w, 0, false, err
	}
	if w, ok = parseWaiting(b); !ok {
		return w, 0, false, Fail(Corruption, errWaitingRow)
	}
	return w, waitingBytes(row, b), true, nil
}

// waitingBytes is what a row, with its value, and its row by time take.
func waitingBytes(row, value []byte) int64 { return int64(2*len(row) + 8 + len(value)) }

// put keeps a change back, and returns since when its key waits.
func (x *waitingChanges[K, V]) put(c *Context, r Record[K, Change[V]]) (since int64, err error) {
	row, err := x.rowOf(r.Key)
	if err != nil {
		return 0, err
	}
	w, bytes, waits, err := x.read(row)
	if err != nil {
		return 0, err
	}
	if !waits {
		w.since, w.mode = r.Timestamp, modeText(c.graph.ownMode)
		if w.old, err = x.encode(r.Value.Old); err != nil {
			return 0, err
		}
	} else if c.graph.ownMode == Live {
		w.mode = ""
	}
	w.ms = r.Timestamp
	if w.new, err = x.encode(r.Value.New); err != nil {
		return 0, err
	}
	packed := w.append(make([]byte, 0, waitingHead+len(w.mode)+2*binary.MaxVarintLen32+len(w.old)+len(w.new)))
	if err := x.rows.Put(row, packed); err != nil {
		return 0, err
	}
	added := int64(0)
	if !waits {
		added = 1
		if err := x.rows.Put(x.indexOf(row, w.since), []byte{}); err != nil {
			return 0, err
		}
	}
	return w.since, x.count(added, waitingBytes(row, packed)-bytes)
}

func modeText(m Mode) string {
	if m == Live {
		return ""
	}
	return m.String()
}

// take removes a change by its row by time, and returns it.
func (x *waitingChanges[K, V]) take(index []byte) (key K, w waitingChange, err error) {
	if len(index) < 1+8 {
		return key, w, Fail(Corruption, errWaitingRow)
	}
	if key, err = x.key.Decode(index[1+8:]); err != nil {
		return key, w, Fail(Corruption, errWaitingRow)
	}
	x.buffer = append(append(x.buffer[:0], waitingKey), index[1+8:]...)
	w, bytes, ok, err := x.read(x.buffer)
	if err != nil {
		return key, w, err
	}
	if !ok {
		return key, w, Fail(Corruption, errWaitingRow)
	}
	if err := x.rows.Delete(x.buffer); err != nil {
		return key, w, err
	}
	if err := x.rows.Delete(index); err != nil {
		return key, w, err
	}
	return key, w, x.count(-1, -bytes)
}

// waitingTotal is how much waits.
type waitingTotal struct{ records, bytes int64 }

func (x *waitingChanges[K, V]) totals() (held waitingTotal, err error) {
	b, ok, err := x.rows.Get([]byte{waitingTotals})
	if err != nil || !ok {
		return held, err
	}
	if len(b) != 16 {
		return held, Fail(Corruption, errWaitingRow)
	}
	return waitingTotal{int64(binary.BigEndian.Uint64(b)), int64(binary.BigEndian.Uint64(b[8:]))}, nil
}

// count notes that so much more waits.
func (x *waitingChanges[K, V]) count(records, bytes int64) error {
	if records == 0 && bytes == 0 {
		return nil
	}
	held, err := x.totals()
	if err != nil {
		return err
	}
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 16), uint64(held.records+records))
	return x.rows.Put([]byte{waitingTotals}, binary.BigEndian.AppendUint64(b, uint64(held.bytes+bytes)))
}

// encode returns the bytes of a value, and nil for none.
func (x *waitingChanges[K, V]) encode(v Option[V]) ([]byte, error) {
	if !v.ok {
		return nil, nil
	}
	b, err := x.value.Append([]byte{}, v.value)
	if err != nil {
		return nil, &graph.PartError{Part: "value", Err: err}
	}
	return b, nil
}

func (x *waitingChanges[K, V]) decode(b []byte) (Option[V], error) {
	if b == nil {
		return Option[V]{}, nil
	}
	v, err := x.value.Decode(b)
	if err != nil {
		return Option[V]{}, Fail(Corruption, errWaitingRow)
	}
	return Some(v), nil
}
