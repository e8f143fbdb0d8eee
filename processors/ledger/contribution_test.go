package ledger

import (
	"bytes"
	"testing"

	"github.com/onceward/onceward/schemas"
)

// TestContributionRow: a tool that knows the key of a balance finds the contribution where the
// ledger has it.
func TestContributionRow(t *testing.T) {
	contributions, balances := storesOf("sales", schemas.String(), "")
	for _, ledger := range []string{"acct-1", "", "a\x00b"} {
		row, err := schemas.String().Append(nil, ledger)
		if err != nil {
			t.Fatal(err)
		}
		want, err := keyCodec[string]{schemas.String()}.Append(nil, ContributionKey[string]{Ledger: ledger, ID: "c1"})
		if err != nil {
			t.Fatal(err)
		}
		store, key, ok := ContributionRow(balances.Name(), row, "c1")
		if !ok || store != contributions.Name() || !bytes.Equal(key, want) || string(row) != ledger {
			t.Errorf("of ledger %q it is %s, %x, %t; want %s, %x", ledger, store, key, ok, contributions.Name(), want)
		}
	}
	if _, _, ok := ContributionRow("accounts", nil, "c1"); ok {
		t.Error("a store of something else has contributions")
	}
}
