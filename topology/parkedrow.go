package topology

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
)

// errParkedTooLarge is the failure of a record that has to wait and cannot be kept.
const errParkedTooLarge = schemas.Reason("the key is parked, and the record is too large to wait behind it")

// parkedFormat begins every row, so that a later build can write others.
const parkedFormat = 1

// parkedHeadRow is the head of a queue.
type parkedHeadRow struct {
	// first is the number of the first record, next that of the next one to come.
	first, next uint64
	// due is when the first record is tried, in milliseconds since the epoch; 0 is at once.
	due int64
}

// row encodes the head: the format, and three uvarints.
func (h parkedHeadRow) row() []byte {
	b := binary.AppendUvarint([]byte{parkedFormat}, h.first)
	b = binary.AppendUvarint(b, h.next)
	return binary.AppendUvarint(b, uint64(h.due))
}

func parseParkedHead(row []byte) (h parkedHeadRow, err error) {
	if err := checkParkedFormat(row); err != nil {
		return h, err
	}
	r := rowReader{rest: row[1:]}
	h = parkedHeadRow{first: r.uvarint(), next: r.uvarint(), due: int64(r.uvarint())}
	if r.bad || len(r.rest) > 0 || h.next <= h.first {
		return h, errParkedRow
	}
	return h, nil
}

// parkedRow encodes a record:
//   - the format version
//   - offset, timestamp, timestamp type, attempts and the first failure in milliseconds (0 for
//     none) as varints
//   - key and value, each as its length plus one (0 for null) and its bytes
//   - the number of headers, and each header in the same way
func parkedRow(in *graph.Input, attempts int, firstFailure time.Time) []byte {
	n := 64 + len(in.Key) + len(in.Value)
	for i := range in.Headers {
		n += 10 + len(in.Headers[i].Key) + len(in.Headers[i].Value)
	}
	b := append(make([]byte, 0, n), parkedFormat)
	first := int64(0)
	if !firstFailure.IsZero() {
		first = firstFailure.UnixMilli()
	}
	for _, v := range []int64{in.Offset, in.Timestamp, int64(in.TimestampType), int64(attempts), first} {
		b = binary.AppendVarint(b, v)
	}
	b = appendNullable(appendNullable(b, in.Key), in.Value)
	b = binary.AppendUvarint(b, uint64(len(in.Headers)))
	for i := range in.Headers {
		b = appendNullable(appendNullable(b, []byte(in.Headers[i].Key)), in.Headers[i].Value)
	}
	return b
}

// parseParkedRow decodes a record, without its topic and partition. Its attempt is the number of
// those before; the bytes are copies.
func parseParkedRow(row []byte) (in graph.Input, err error) {
	if err := checkParkedFormat(row); err != nil {
		return in, err
	}
	r := rowReader{rest: append([]byte(nil), row[1:]...)}
	in.Offset, in.Timestamp, in.TimestampType = r.varint(), r.varint(), graph.TimestampType(r.varint())
	in.Attempt = int(r.varint())
	if first := r.varint(); first != 0 {
		in.FirstFailure = time.UnixMilli(first).UTC()
	}
	in.Key, in.Value = r.nullable(), r.nullable()
	n := r.uvarint()
	if n > uint64(len(r.rest)) {
		return in, errParkedRow
	}
	for range n {
		in.Headers = append(in.Headers, Header{Key: string(r.nullable()), Value: r.nullable()})
	}
	if r.bad || len(r.rest) > 0 || in.Attempt < 0 {
		return in, errParkedRow
	}
	return in, nil
}

// checkParkedFormat looks at the first byte of a row. One that a newer build wrote is not corrupt.
func checkParkedFormat(row []byte) error {
	switch {
	case len(row) == 0:
		return errParkedRow
	case row[0] != parkedFormat:
		return fmt.Errorf("%w: parked records of format %d, this build reads %d", state.ErrFormat, row[0], parkedFormat)
	}
	return nil
}
