package ledger

import (
	"math"
	"slices"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// reverse processes a contribution that reverses another one.
func (h *handler[K, V]) reverse(c *topology.Context, r *topology.Record[K, V], id string, posting Posting) error {
	key := ContributionKey[K]{Ledger: r.Key, ID: id}
	reversedKey := ContributionKey[K]{Ledger: r.Key, ID: posting.Reverses}
	first, seen, err := h.contributions.Get(key)
	if err != nil {
		return err
	}
	if seen {
		if posting.Amounts == nil {
			posting.Amounts = first.Amounts // they follow from what is reversed
		}
		return h.again(c, r, id, &first, &posting)
	}
	reversed, known, err := h.contributions.Get(reversedKey)
	switch {
	case err != nil:
		return err
	case !known:
		return topology.Fail(topology.Validation, errReverses)
	case len(reversed.Amounts) != len(h.columns):
		return h.otherColumns(len(reversed.Amounts))
	case reversed.ReversedBy != "":
		return h.dispute(c, r, id, &posting, errReversed)
	}
	opposite := make([]int64, len(reversed.Amounts))
	for i, amount := range reversed.Amounts {
		if amount == math.MinInt64 {
			return h.overflow(i)
		}
		opposite[i] = -amount
	}
	if posting.Amounts == nil {
		posting.Amounts = opposite
	}
	if !slices.Equal(posting.Amounts, opposite) {
		return topology.Fail(topology.Validation, errOpposite)
	}
	reversed.ReversedBy = id
	if err := h.contributions.Put(reversedKey, reversed); err != nil {
		return err
	}
	if err := h.contributions.Put(key, posting); err != nil {
		return err
	}
	return h.add(c, r, id, &posting)
}

// amounts returns the decimals of a contribution in the scales of the columns.
func (h *handler[K, V]) amounts(contribution Contribution) ([]int64, error) {
	if contribution.Amounts != nil {
		return nil, topology.Fail(topology.Validation, errAmounts)
	}
	amounts := make([]int64, len(contribution.Decimals))
	for i, decimal := range contribution.Decimals {
		scale := uint8(0)
		if i < len(h.scales) { // another number of amounts is found by check
			scale = h.scales[i]
		}
		var err error
		if amounts[i], err = decimal.In(scale); err != nil {
			column := ""
			if i < len(h.columns) {
				column = " in column " + h.columns[i]
			}
			return nil, topology.Fail(topology.Validation, schemas.Reason(schemas.ReasonOf(err)+column))
		}
	}
	return amounts, nil
}
