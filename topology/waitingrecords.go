package topology

import (
	"encoding/binary"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
)

// waitingRecords is the store of a join with a grace in a graph. The key of a row is the timestamp
// of a record, its key, and a number of four bytes that tells records with the same timestamp and
// key apart. The value is
//
//	version
//	length of the mode, and the mode; it is empty for a record that is live
//	number of headers, and for each: length and bytes of the name, length and bytes of the value
//	value of the record
//
// The version and the length of the mode are one byte, the others are varints. The length of a
// header's value is one more than it is, and 0 for null. Timestamp and number are big-endian.
type waitingRecords[K, V any] struct {
	rows  state.Bytes
	key   schemas.Codec[K]
	value schemas.Codec[V]
	// first and last are buffers of keys of rows.
	first, last []byte
}

const recordVersion = 1

const errRecordRow = schemas.Reason("a row of the store of records that wait cannot be taken apart")

// openWaitingRecords returns the store for the node that t prepares.
func openWaitingRecords[K, V any](t *Setup, name string, key schemas.Codec[K], value schemas.Codec[V]) waitingRecords[K, V] {
	rows, _, _ := watch(t, name, schemas.Bytes(), schemas.Bytes())
	return waitingRecords[K, V]{rows: rows, key: key, value: value}
}

// put adds a record.
func (x *waitingRecords[K, V]) put(c *Context, r Record[K, V]) error {
	row, err := x.rowOf(r.Key, r.Timestamp)
	if err != nil {
		return err
	}
	value, err := x.encode(r, modeText(c.graph.ownMode))
	if err != nil {
		return err
	}
	return x.rows.Put(row, value)
}

// rowOf returns a key that no row has yet, in new memory. Its number follows the largest one.
func (x *waitingRecords[K, V]) rowOf(key K, ms int64) ([]byte, error) {
	first, err := x.key.Append(binary.BigEndian.AppendUint64(x.first[:0], uint64(ms)), key)
	if err != nil {
		return nil, &graph.PartError{Part: partKey, Err: err}
	}
	n := len(first)
	first = binary.BigEndian.AppendUint32(first, 0)
	x.first = first
	x.last = append(append(x.last[:0], first[:n]...), 0xff, 0xff, 0xff, 0xff, 0)
	row := append(make([]byte, 0, len(first)), first...)
	for e, err := range x.rows.Scan(state.Range{From: first, To: x.last, Reverse: true}) {
		if err != nil {
			return nil, err
		}
		if len(e.Key) == len(first) { // others are of longer keys that begin with this one
			binary.BigEndian.PutUint32(row[n:], binary.BigEndian.Uint32(e.Key[n:])+1)
			break
		}
	}
	return row, nil
}

func (x *waitingRecords[K, V]) encode(r Record[K, V], mode string) ([]byte, error) {
	b := append([]byte{recordVersion, byte(len(mode))}, mode...)
	b = binary.AppendUvarint(b, uint64(len(r.Headers)))
	for _, h := range r.Headers {
		b = append(binary.AppendUvarint(b, uint64(len(h.Key))), h.Key...)
		b = appendNullable(b, h.Value)
	}
	b, err := x.value.Append(b, r.Value)
	if err != nil {
		return nil, &graph.PartError{Part: "value", Err: err}
	}
	return b, nil
}

// decode returns the record of a row, and its mode.
func (x *waitingRecords[K, V]) decode(e state.Entry) (r Record[K, V], mode []byte, err error) {
	n := len(e.Key) - numberBytes
	p := rowReader{rest: e.Value}
	version := p.take(1)
	if n < startBytes || p.bad || version[0] != recordVersion {
		return r, nil, Fail(Corruption, errRecordRow)
	}
	r.Timestamp = int64(binary.BigEndian.Uint64(e.Key))
	if length := p.take(1); !p.bad {
		mode = p.take(uint64(length[0]))
	}
	count := p.uvarint()
	if p.bad || count > uint64(len(p.rest)) {
		return r, nil, Fail(Corruption, errRecordRow)
	}
	r.Headers = make([]Header, 0, count)
	for range count {
		r.Headers = append(r.Headers, Header{Key: string(p.take(p.uvarint())), Value: p.nullable()})
	}
	if p.bad {
		return r, nil, Fail(Corruption, errRecordRow)
	}
	if r.Key, err = x.key.Decode(e.Key[startBytes:n]); err != nil {
		return r, nil, Fail(Corruption, errRecordRow)
	}
	if r.Value, err = x.value.Decode(p.rest); err != nil {
		return r, nil, Fail(Corruption, errRecordRow)
	}
	return r, mode, nil
}
