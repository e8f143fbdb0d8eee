//go:build onceward_failpoints

package hangwatch

import "github.com/onceward/onceward/txn/internal/failpoint"

// brokenLook leaves out the look for transactions that hang if that mechanism is broken.
func brokenLook(s failpoint.Set) bool { return s.Broken(failpoint.Look) }
