package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"unicode/utf8"

	"github.com/onceward/onceward/processors/internal/identity"
	"github.com/onceward/onceward/schemas"
)

// Sum is the balance of a ledger as it is stored.
type Sum struct {
	// Count is the number of contributions, corrections included.
	Count int64 `json:"count"`
	// Amounts has one sum for each column.
	Amounts []int64 `json:"amounts"`
}

// Balance is the balance of a ledger after a contribution. It has a JSON form, so that
// schemas.JSON[Balance] is a codec for Changes; [BalanceCodec] is a compact one.
type Balance struct {
	// Count is the number of contributions, corrections included. It grows by one with each Balance
	// of a ledger, so it serves as the version of the balance for those behind us.
	Count int64 `json:"count"`
	// Amounts has one sum for each column.
	Amounts []int64 `json:"amounts"`
	// Contribution is the id of the contribution that led to this balance.
	Contribution string `json:"contribution"`
}

// sumFormat is the first byte of the row of a balance. Format 1 said nothing of the columns.
const (
	sumFormat = 2
	markBytes = 4
)

// sumCodec reads the rows of one ledger alone; the zero codec reads those of any.
type sumCodec struct {
	columns string
	mark    []byte
}

func newSumCodec(columns string) sumCodec {
	hash := sha256.Sum256([]byte(columns))
	return sumCodec{columns, hash[:markBytes]}
}

func (c sumCodec) Name() string { return rowName("ledger-sum-2", c.columns) }

func (c sumCodec) Append(dst []byte, s Sum) ([]byte, error) {
	if reason := checkAmounts(s.Amounts); reason != "" {
		return dst, codecError(c.Name(), schemas.OpAppend, -1, reason)
	}
	dst = appendRow(dst, sumFormat, s.Count, s.Amounts)
	if c.mark == nil {
		return append(dst, make([]byte, markBytes)...), nil
	}
	return append(dst, c.mark...), nil
}

func (c sumCodec) Decode(b []byte) (Sum, error) {
	count, amounts, rest, reason := decodeRow(b, sumFormat, sumFormat)
	switch {
	case reason != "":
	case len(rest) < markBytes:
		reason = "the row is too short"
	case len(rest) > markBytes:
		reason = "the row is too long"
	case c.mark != nil && !bytes.Equal(rest, c.mark):
		reason = "the ledger was written with other columns, another order of them, other scales or other windows than " +
			"the program has (" + c.columns + "). Its amounts would mean something else: go back to those, or " +
			"give the ledger another name"
	}
	if reason != "" {
		return Sum{}, codecError(c.Name(), schemas.OpDecode, len(b)-len(rest), reason)
	}
	return Sum{Count: count, Amounts: amounts}, nil
}

// BalanceCodec returns a compact codec for balances. It has a format byte of 1, the number of
// columns in a byte, the count as an unsigned varint, the amounts as zigzag varints, and the id of
// the contribution in UTF-8. Its name is "ledger-balance-1".
func BalanceCodec() schemas.Codec[Balance] { return balanceCodec{} }

const balanceFormat = 1

type balanceCodec struct{}

func (balanceCodec) Name() string { return "ledger-balance-1" }

func (c balanceCodec) Append(dst []byte, v Balance) ([]byte, error) {
	reason := checkAmounts(v.Amounts)
	switch {
	case v.Count < 0:
		reason = "the count is negative"
	case len(v.Contribution) > identity.IDBytesMax || !utf8.ValidString(v.Contribution):
		reason = "not a contribution id"
	}
	if reason != "" {
		return dst, codecError(c.Name(), schemas.OpAppend, -1, reason)
	}
	dst = append(dst, balanceFormat, byte(len(v.Amounts)))
	dst = binary.AppendUvarint(dst, uint64(v.Count))
	for _, amount := range v.Amounts {
		dst = binary.AppendVarint(dst, amount)
	}
	return append(dst, v.Contribution...), nil
}

func (c balanceCodec) Decode(b []byte) (Balance, error) {
	rest := b
	fail := func(reason string) (Balance, error) {
		return Balance{}, codecError(c.Name(), schemas.OpDecode, len(b)-len(rest), reason)
	}
	switch {
	case len(b) > 0 && b[0] != balanceFormat:
		return fail("the balance has a format that this build does not read")
	case len(b) < 2 || b[1] == 0:
		return fail("the balance has no columns")
	}
	amounts := make([]int64, b[1])
	rest = b[2:]
	count, n := binary.Uvarint(rest)
	if !shortest(rest, n) || int64(count) < 0 {
		return fail("the count is malformed")
	}
	rest = rest[n:]
	for i := range amounts {
		if amounts[i], n = binary.Varint(rest); !shortest(rest, n) {
			return fail("an amount is malformed")
		}
		rest = rest[n:]
	}
	if len(rest) > identity.IDBytesMax || !utf8.Valid(rest) {
		return fail("not a contribution id")
	}
	return Balance{Count: int64(count), Amounts: amounts, Contribution: string(rest)}, nil
}

// shortest reports whether the varint in the first n bytes of b is valid, and the only one of its
// value: one that ends in a zero byte has a shorter form.
func shortest(b []byte, n int) bool { return n == 1 || n > 1 && b[n-1] != 0 }

const columnsMax = 255 // the row has one byte for their number

func checkAmounts(amounts []int64) string {
	if n := len(amounts); n == 0 || n > columnsMax {
		return fmt.Sprintf("there are %d amounts; a ledger has 1 to %d columns", n, columnsMax)
	}
	return ""
}

func rowName(format, columns string) string {
	if columns == "" {
		return format
	}
	return format + ":" + columns
}

func codecError(codec, op string, offset int, reason string) error {
	return &schemas.Error{Codec: codec, Op: op, Offset: int64(offset), Reason: reason}
}
