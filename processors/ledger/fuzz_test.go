package ledger

import (
	"math"
	"testing"

	"github.com/onceward/onceward/processors/internal/processortest"
	"github.com/onceward/onceward/schemas"
)

func FuzzContributionKey(f *testing.F) {
	type key = ContributionKey[string]
	processortest.FuzzCodec(f, keyCodec[string]{schemas.String()},
		key{"", "a"}, key{"\x00", "\x00"}, key{"a\x00\x01b\x00", "\x01"})
}

func FuzzPosting(f *testing.F) {
	processortest.FuzzCodec(f, postingCodec{},
		Posting{Amounts: []int64{0}}, Posting{Amounts: []int64{math.MinInt64, math.MaxInt64}, Timestamp: -1, Corrects: "id"})
}

func FuzzSum(f *testing.F) {
	processortest.FuzzCodec(f, newSumCodec("a"),
		Sum{Amounts: []int64{0}}, Sum{Count: 3, Amounts: []int64{math.MinInt64, -1, math.MaxInt64}})
}

func FuzzBalance(f *testing.F) {
	processortest.FuzzCodec(f, BalanceCodec(),
		Balance{Amounts: []int64{0}}, Balance{Count: math.MaxInt64, Amounts: []int64{300, -1, math.MinInt64}, Contribution: "id"})
}
