package workload

import (
	"errors"
	"fmt"

	"github.com/onceward/onceward/processors/ledger"
)

var errRow = errors.New("the row is not one of the workload's store")

// SumOf is what a row of [Workload.Store] says, as its codecs have read it (graph.Rows).
func SumOf(key, value any) (Account, Sum, error) {
	account, ok := key.([]byte)
	if !ok || len(account) != KeyBytes {
		return Account{}, Sum{}, errRow
	}
	switch v := value.(type) {
	case int64:
		return Account(account), Sum{Count: v}, nil
	case ledger.Sum:
		if len(v.Amounts) == 1 {
			return Account(account), Sum{Count: v.Count, Balance: v.Amounts[0]}, nil
		}
	}
	return Account{}, Sum{}, fmt.Errorf("%w: it is a %T", errRow, value)
}
