package ledger

import (
	"bytes"
	"encoding/binary"
	"slices"
	"unicode/utf8"

	"github.com/onceward/onceward/processors/internal/identity"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// Contribution is what a record adds to the ledger of its key.
type Contribution struct {
	// ID names the contribution within its ledger: the id of the fact, never of its delivery.
	ID string
	// Amounts has one amount for each column. The ledger does not keep the slice.
	Amounts []int64
	// Corrects is the id of the contribution that this one reverses or adjusts, empty if there is none.
	Corrects string
}

// ContributionKey is the key of a contribution in the store.
type ContributionKey[K any] struct {
	Ledger K
	ID     string
}

// Posting is a contribution as the ledger has it.
type Posting struct {
	Amounts []int64
	// Timestamp is that of the record, in milliseconds since the epoch.
	Timestamp int64
	// Corrects is the id of the contribution that this one reverses or adjusts, empty if there is none.
	Corrects string
}

// same reports whether q says the same as p. The timestamp is the delivery's.
func (p Posting) same(q Posting) bool {
	return p.Corrects == q.Corrects && slices.Equal(p.Amounts, q.Amounts)
}

// storesOf returns the stores of a ledger. Their codecs are nil if keys is.
func storesOf[K any](name string, keys schemas.Codec[K], columns []string) (
	contributions topology.StoreOf[ContributionKey[K], Posting], balances topology.StoreOf[K, Sum],
) {
	var contributionKeys schemas.Codec[ContributionKey[K]]
	if keys != nil {
		contributionKeys = keyCodec[K]{keys}
	}
	var postings schemas.Codec[Posting] = postingCodec{columns}
	contributions = topology.Store(contributionsOf(name), contributionKeys, postings)
	var sums schemas.Codec[Sum] = sumCodec{columns}
	balances = topology.Store(balancesOf(name), keys, sums)
	return contributions, balances
}

func contributionsOf(ledger string) string { return ledger + "-contributions" }
func balancesOf(ledger string) string      { return ledger + "-balances" }

// The bytes that keep the two parts of a contribution's key apart; see the package documentation.
const (
	escape     = 0x00
	escapeZero = 0xff
	escapeEnd  = 0x01
)

type keyCodec[K any] struct{ ledger schemas.Codec[K] }

func (c keyCodec[K]) Name() string { return "ledger-contribution-key-1:" + c.ledger.Name() }

func (c keyCodec[K]) Append(dst []byte, k ContributionKey[K]) ([]byte, error) {
	if k.ID == "" || len(k.ID) > identity.IDBytesMax || !utf8.ValidString(k.ID) {
		return dst, codecError(c.Name(), schemas.OpAppend, -1, "not a contribution id")
	}
	b, err := c.ledger.Append(dst, k.Ledger)
	if err != nil {
		return dst, codecError(c.Name(), schemas.OpAppend, -1, "the ledger key: "+schemas.ReasonOf(err))
	}
	b = escapeZeros(b, len(dst))
	b = append(b, escape, escapeEnd)
	return append(b, k.ID...), nil
}

// escapeZeros replaces 00 by 00 FF in b[from:], in place.
func escapeZeros(b []byte, from int) []byte {
	zeros := bytes.Count(b[from:], []byte{escape})
	if zeros == 0 {
		return b
	}
	read := len(b) - 1
	for range zeros {
		b = append(b, 0)
	}
	for write := len(b) - 1; write > read; write-- {
		b[write] = b[read]
		if b[read] == escape {
			b[write] = escapeZero
			write--
			b[write] = escape
		}
		read--
	}
	return b
}

func (c keyCodec[K]) Decode(b []byte) (ContributionKey[K], error) {
	ledger, id, err := splitKey(b)
	if err != nil {
		return ContributionKey[K]{}, codecError(c.Name(), schemas.OpDecode, len(b), err.Error())
	}
	key, err := c.ledger.Decode(ledger)
	if err != nil {
		return ContributionKey[K]{}, codecError(c.Name(), schemas.OpDecode, 0,
			"the ledger key: "+schemas.ReasonOf(err))
	}
	return ContributionKey[K]{Ledger: key, ID: string(id)}, nil
}

// splitKey returns the encoded ledger key, which may share memory with b, and the id.
func splitKey(b []byte) (ledger, id []byte, err error) {
	const malformed = schemas.Reason("the key is not that of a contribution")
	escaped := false
	for rest := b; ; {
		i := bytes.IndexByte(rest, escape)
		if i < 0 || i+1 == len(rest) {
			return nil, nil, malformed
		}
		after := rest[i+2:]
		switch rest[i+1] {
		case escapeZero:
			escaped = true
			rest = after
			continue
		case escapeEnd:
		default:
			return nil, nil, malformed
		}
		if len(after) == 0 || len(after) > identity.IDBytesMax || !utf8.Valid(after) {
			return nil, nil, malformed
		}
		ledger = b[:len(b)-len(after)-2]
		if escaped {
			ledger = bytes.ReplaceAll(ledger, []byte{escape, escapeZero}, []byte{escape})
		}
		return ledger, after, nil
	}
}

// rowFormat is the first byte of both kinds of rows; rowHeaderBytes is what comes before their amounts.
const (
	rowFormat      = 1
	rowHeaderBytes = 10
	amountBytes    = 8
)

// postingCodec needs the columns only for its name, so that a topology with other columns has another
// fingerprint.
type postingCodec struct{ columns []string }

func (c postingCodec) Name() string { return rowName("ledger-posting-1", c.columns) }

func (c postingCodec) Append(dst []byte, p Posting) ([]byte, error) {
	if reason := checkAmounts(p.Amounts); reason != "" {
		return dst, codecError(c.Name(), schemas.OpAppend, -1, reason)
	}
	if len(p.Corrects) > identity.IDBytesMax || !utf8.ValidString(p.Corrects) {
		return dst, codecError(c.Name(), schemas.OpAppend, -1, "not the id of a corrected contribution")
	}
	return append(appendRow(dst, p.Timestamp, p.Amounts), p.Corrects...), nil
}

func (c postingCodec) Decode(b []byte) (Posting, error) {
	timestamp, amounts, rest, reason := decodeRow(b)
	if reason == "" && (len(rest) > identity.IDBytesMax || !utf8.Valid(rest)) {
		reason = "not the id of a corrected contribution"
	}
	if reason != "" {
		return Posting{}, codecError(c.Name(), schemas.OpDecode, len(b)-len(rest), reason)
	}
	return Posting{Amounts: amounts, Timestamp: timestamp, Corrects: string(rest)}, nil
}

// appendRow appends what both kinds of rows begin with.
func appendRow(dst []byte, first int64, amounts []int64) []byte {
	dst = append(dst, rowFormat, byte(len(amounts)))
	dst = binary.BigEndian.AppendUint64(dst, uint64(first))
	for _, amount := range amounts {
		dst = binary.BigEndian.AppendUint64(dst, uint64(amount))
	}
	return dst
}

// decodeRow reads what appendRow has written, and returns what is behind it. The reason is empty if b is
// well formed.
func decodeRow(b []byte) (first int64, amounts []int64, rest []byte, reason string) {
	switch {
	case len(b) > 0 && b[0] != rowFormat:
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
