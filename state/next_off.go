//go:build !onceward_next

package state

// The version of the state directory and of everything in it; FORMAT.md says what each half means.
const (
	formatMajor = 1
	formatMinor = 1 // 1: the directory globals
)

// nextMeta are the fields of meta.json that the next build has: see next_on.go.
type nextMeta struct{}

func nextMetaNow() nextMeta { return nextMeta{} }
