//go:build !onceward_broken

package restore

// brokenSkip is the seam of a negative control, which does nothing here: see broken_on.go.
func brokenSkip(_, _ int64) bool { return false }

func brokenAge() bool { return false }
