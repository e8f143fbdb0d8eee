//go:build !onceward_broken

package worker

// The seams of the negative controls, which do nothing here: see broken_on.go.

func brokenBeforeEnd(*round) error { return nil }

func brokenApplied(*round) bool { return false }
