//go:build !onceward_failpoints

package txn

import "github.com/onceward/onceward/txn/internal/failpoint"

func brokenLive(failpoint.Set) bool { return false }
