//go:build !onceward_failpoints

package lookout

import "github.com/onceward/onceward/txn/internal/failpoint"

func brokenLook(failpoint.Set) bool { return false }
