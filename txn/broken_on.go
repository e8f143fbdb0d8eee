//go:build onceward_failpoints

package txn

import "github.com/onceward/onceward/txn/internal/failpoint"

// brokenLive leaves out signs of life if that mechanism is broken.
func brokenLive(s failpoint.Set) bool { return s.Broken(failpoint.Live) }
