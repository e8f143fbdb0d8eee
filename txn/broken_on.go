//go:build onceward_failpoints

package txn

import "github.com/onceward/onceward/txn/internal/failpoint"

// brokenLook leaves out the look for transactions that hang if that mechanism is broken.
func brokenLook(s failpoint.Set) bool { return s.Broken(failpoint.Look) }

// brokenLive leaves out signs of life if that mechanism is broken.
func brokenLive(s failpoint.Set) bool { return s.Broken(failpoint.Live) }
