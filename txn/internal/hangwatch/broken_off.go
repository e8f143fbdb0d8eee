//go:build !onceward_failpoints

package hangwatch

import "github.com/onceward/onceward/txn/internal/failpoint"

func brokenLook(failpoint.Set) bool { return false }
