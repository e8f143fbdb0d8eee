package ledger

import (
	"slices"
	"strings"

	"github.com/onceward/onceward/state"
)

// The suffixes of a ledger's other stores.
const (
	contributionsSuffix = "-contributions"
	balancesSuffix      = "-balances"
)

// Stores returns the names of the two stores of a ledger, for programs that read them from outside
// of its topology.
func Stores(ledger string) (contributions, balances string) {
	return ledger + contributionsSuffix, ledger + balancesSuffix
}

// Names returns the names of the ledgers of which both stores are among stores, each once, sorted.
func Names(stores []state.Declaration) []string {
	var ledgers []string
	for _, d := range stores {
		name, ok := strings.CutSuffix(d.Name, balancesSuffix)
		if !ok || name == "" {
			continue
		}
		contributions, balances := Stores(name)
		plain := state.KeyValues(contributions, balances)
		if slices.Contains(stores, plain[0]) && slices.Contains(stores, plain[1]) {
			ledgers = append(ledgers, name)
		}
	}
	slices.Sort(ledgers)
	return slices.Compact(ledgers)
}
