package ledger

import (
	"bytes"
	"encoding/binary"
	"unicode/utf8"

	"github.com/onceward/onceward/processors/internal/identity"
	"github.com/onceward/onceward/schemas"
)

// rowFormat is the first byte of a contribution; rowHeaderBytes is what comes before the amounts of
// both kinds of rows.
const (
	rowFormat      = 1
	rowHeaderBytes = 10
	amountBytes    = 8
	// reversalFormat is that of a contribution that is part of a reversal. All others are written
	// as ever.
	reversalFormat      = 2
	reversalHeaderBytes = 3
	// hashedFormats is the difference between one of these formats and the same with the hash of
	// the payload behind the amounts.
	hashedFormats = 2
)

// The effect of a contribution on the one that it names, in a row of reversalFormat.
const (
	correcting byte = 0
	reversing  byte = 1
)

// postingCodec needs the columns only for its name, so that a topology with other columns has
// another fingerprint.
type postingCodec struct{ columns string }

func (c postingCodec) Name() string { return rowName("ledger-posting-1", c.columns) }

func (c postingCodec) Append(dst []byte, p Posting) ([]byte, error) {
	reason := checkAmounts(p.Amounts)
	plain := p.Reverses == "" && p.ReversedBy == ""
	switch {
	case !isReference(p.Corrects) || !plain && (!isReference(p.Reverses) || !isReference(p.ReversedBy)):
		reason = reasonReference
	case p.Corrects != "" && p.Reverses != "":
		reason = "a contribution corrects another one or reverses it, and not both"
	case p.Payload != nil && len(p.Payload) != hashBytes:
		reason = "the hash of the payload has another length"
	}
	if reason != "" {
		return dst, codecError(c.Name(), schemas.OpAppend, -1, reason)
	}
	format := byte(rowFormat)
	if !plain {
		format = reversalFormat
	}
	if p.Payload != nil {
		format += hashedFormats
	}
	dst = append(appendRow(dst, format, p.Timestamp, p.Amounts), p.Payload...)
	if plain {
		return append(dst, p.Corrects...), nil
	}
	kind, named := correcting, p.Corrects
	if p.Reverses != "" {
		kind, named = reversing, p.Reverses
	}
	dst = append(dst, kind)
	dst = append(binary.BigEndian.AppendUint16(dst, uint16(len(named))), named...)
	return append(dst, p.ReversedBy...), nil
}

func (c postingCodec) Decode(b []byte) (Posting, error) {
	timestamp, amounts, rest, reason := decodeRow(b, rowFormat, reversalFormat+hashedFormats)
	p := Posting{Amounts: amounts, Timestamp: timestamp}
	var format byte
	if reason == "" {
		format, rest, reason = p.decodeHash(b[0], rest)
	}
	switch {
	case reason != "":
	case format == reversalFormat:
		reason = p.decodeReversal(rest)
	default:
		if p.Corrects = string(rest); !isReference(p.Corrects) {
			reason = reasonReference
		}
	}
	if reason != "" {
		return Posting{}, codecError(c.Name(), schemas.OpDecode, len(b)-len(rest), reason)
	}
	return p, nil
}

// decodeHash reads the hash of the payload, if a row of that format has one. It returns the format
// of the rest.
func (p *Posting) decodeHash(format byte, b []byte) (rest byte, behind []byte, reason string) {
	if format <= reversalFormat {
		return format, b, ""
	}
	if len(b) < hashBytes {
		return 0, nil, "the row is too short"
	}
	p.Payload = bytes.Clone(b[:hashBytes])
	return format - hashedFormats, b[hashBytes:], ""
}

// decodeReversal reads what is behind the amounts of a row with a reversal. The reason is empty if
// it is well formed.
func (p *Posting) decodeReversal(b []byte) (reason string) {
	if len(b) < reversalHeaderBytes || len(b)-reversalHeaderBytes < int(binary.BigEndian.Uint16(b[1:])) {
		return "the row is too short"
	}
	end := reversalHeaderBytes + int(binary.BigEndian.Uint16(b[1:]))
	named := string(b[reversalHeaderBytes:end])
	p.ReversedBy = string(b[end:])
	switch {
	case !isReference(named) || !isReference(p.ReversedBy):
		return reasonReference
	case b[0] == reversing && named != "":
		p.Reverses = named
	case b[0] == correcting && p.ReversedBy != "":
		p.Corrects = named
	default:
		return "the row is not about a reversal"
	}
	return ""
}

const reasonReference = "not the id of another contribution"

// isReference reports whether text can name another contribution, or is empty and names none.
func isReference(text string) bool { return len(text) <= identity.IDBytesMax && utf8.ValidString(text) }

// appendRow appends what both kinds of rows begin with.
func appendRow(dst []byte, format byte, first int64, amounts []int64) []byte {
	dst = append(dst, format, byte(len(amounts)))
	dst = binary.BigEndian.AppendUint64(dst, uint64(first))
	for _, amount := range amounts {
		dst = binary.BigEndian.AppendUint64(dst, uint64(amount))
	}
	return dst
}

// decodeRow reads what appendRow has written in a format from oldest to newest, and returns what is
// behind it. The reason is empty if b is well formed.
func decodeRow(b []byte, oldest, newest byte) (first int64, amounts []int64, rest []byte, reason string) {
	switch {
	case len(b) > 0 && (b[0] < oldest || b[0] > newest):
		return 0, nil, b, "the row has a format that this build does not read"
	case len(b) < rowHeaderBytes || len(b) < rowHeaderBytes+amountBytes*int(b[1]):
		return 0, nil, nil, "the row is too short"
	case b[1] == 0:
		return 0, nil, b[1:], "the row has no columns"
	}
	amounts = make([]int64, b[1])
	first = int64(binary.BigEndian.Uint64(b[2:rowHeaderBytes]))
	rest = b[rowHeaderBytes:]
	for i := range amounts {
		amounts[i] = int64(binary.BigEndian.Uint64(rest))
		rest = rest[amountBytes:]
	}
	return first, amounts, rest, ""
}
