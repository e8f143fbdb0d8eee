package ledger

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/onceward/onceward/processors/internal/identity"
	"github.com/onceward/onceward/processors/internal/pairkey"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
)

// Contribution is what a record adds to the ledger of its key.
type Contribution struct {
	// ID names the contribution within its ledger: the id of the fact, never of its delivery.
	ID string
	// Amounts has one amount for each column. The ledger does not keep the slice. A reversal may
	// leave it out.
	Amounts []int64
	// Decimals is another way to state the amounts: exact decimals, which must fit into the
	// columns' [Scale]. One of the two is nil.
	Decimals []Decimal
	// Corrects is the id of the contribution that this one adjusts, empty if there is none.
	Corrects string
	// Reverses is the id of the contribution that this one reverses completely, empty if there is
	// none. The ledger derives the amounts. If the record has amounts too, they must be the same
	// with the other sign. A reversed contribution cannot be reversed again.
	Reverses string
}

// ContributionKey is the key of a contribution in the store.
type ContributionKey[K any] struct {
	Ledger K      `json:"ledger"`
	ID     string `json:"id"`
}

// Posting is a contribution as the ledger has it.
type Posting struct {
	Amounts []int64 `json:"amounts"`
	// Timestamp is that of the record, or in a windowed ledger the time that its windows follow
	// from, in milliseconds since the epoch.
	Timestamp int64 `json:"timestamp"`
	// Corrects is the id of the contribution that this one adjusts, empty if there is none.
	Corrects string `json:"corrects,omitzero"`
	// Reverses is the id of the contribution that this one takes back, empty if there is none.
	Reverses string `json:"reverses,omitzero"`
	// ReversedBy is the id of the contribution that has taken this one back, empty if there is
	// none.
	ReversedBy string `json:"reversed_by,omitzero"`
	// Payload is the hash of the payload of the record, if payloads were compared when it was
	// posted ([ComparePayload]).
	Payload Hash `json:"payload,omitzero"`
}

// same reports whether q says the same as p, payload included where both have one: a contribution
// of the time before payloads were compared has none.
func (p *Posting) same(q *Posting) bool {
	return p.sameEffect(q) && (p.Payload == nil || q.Payload == nil || bytes.Equal(p.Payload, q.Payload))
}

// sameEffect reports whether q does the same to a balance as p. The timestamp is the delivery's,
// and that p was reversed was said by another contribution.
func (p *Posting) sameEffect(q *Posting) bool {
	return p.Corrects == q.Corrects && p.Reverses == q.Reverses && slices.Equal(p.Amounts, q.Amounts)
}

// storesOf returns the stores of a ledger. Their codecs are nil if keys is.
func storesOf[K any](name string, keys schemas.Codec[K], columns string) (
	contributions topology.Store[state.KeyValue[ContributionKey[K], Posting]], balances topology.Store[state.KeyValue[K, Sum]],
) {
	var contributionKeys schemas.Codec[ContributionKey[K]]
	if keys != nil {
		contributionKeys = keyCodec[K]{keys}
	}
	var postings schemas.Codec[Posting] = postingCodec{columns}
	contributionsName, balancesName := Stores(name)
	contributions = topology.KeyValueStore(contributionsName, contributionKeys, postings)
	var sums schemas.Codec[Sum] = newSumCodec(columns)
	balances = topology.KeyValueStore(balancesName, keys, sums)
	return contributions, balances
}

// ContributionRow returns the store and the key of a contribution, for tools that know a ledger by
// its evidence: balances is the store of its balances, and row the key of the balance in it. ok is
// false if balances is the store of something else.
func ContributionRow(balances string, row []byte, id string) (store string, key []byte, ok bool) {
	_, suffix := Stores("")
	name, ok := strings.CutSuffix(balances, suffix)
	if !ok {
		return "", nil, false
	}
	contributions, _ := Stores(name)
	return contributions, append(pairkey.Seal(slices.Clone(row), 0), id...), true
}

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
	return append(pairkey.Seal(b, len(dst)), k.ID...), nil
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
	ledger, id, ok := pairkey.Split(b)
	if !ok || len(id) == 0 || len(id) > identity.IDBytesMax || !utf8.Valid(id) {
		return nil, nil, schemas.Reason("the key is not that of a contribution")
	}
	return ledger, id, nil
}
