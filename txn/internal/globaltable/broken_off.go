//go:build !onceward_failpoints

package globaltable

import (
	"context"

	"github.com/onceward/onceward/txn/internal/failpoint"
)

func brokenFirst(failpoint.Set) bool { return false }

func (*partition) brokenPosition(context.Context, int64) error { return nil }
