//go:build onceward_broken

package restore

import "os"

// broken names the one mechanism that does not work. It only exists with the build tag.
var broken = os.Getenv("ONCEWARD_BROKEN")

// brokenSkip leaves the last record below the target out if ONCEWARD_BROKEN is "restore". That is what comes of looking at the changelog
// before the offsets are read: a transaction that commits in between moves the offsets, and its state is missing.
func brokenSkip(offset, target int64) bool { return broken == "restore" && offset == target-1 }

// brokenAge takes every log for one that was never compacted behind the commit if ONCEWARD_BROKEN is "age".
func brokenAge() bool { return broken == "age" }
