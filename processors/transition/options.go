package transition

import (
	"fmt"
	"slices"

	"github.com/onceward/onceward/processors/internal/declare"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// Option is an option of [Guard].
type Option func(s *settings) error

type settings struct {
	declare.Common
	versioned bool
	// emits says which refusals are emitted instead of failing.
	emits [Corruption + 1]bool
}

// Key gives the codec for keys in the stores. Keys that are strings, []byte, int32 or int64 need
// none. K must be the type of the stream's keys.
func Key[K any](codec schemas.Codec[K]) Option {
	return func(s *settings) error { return s.SetKeys(codec) }
}

// Versioned says that every transition has a version, one higher than that of the transition before
// it of its aggregate. The first one may have any version from 1. It belongs to the stored form: a
// guard that was written without it does not open with it, and the other way round.
func Versioned() Option {
	return func(s *settings) error {
		s.versioned = true
		return nil
	}
}

// EmitRefused emits transitions that are refused for one of the given reasons, or for any if none
// is given, instead of failing them ([Guarded.Refused]). A duplicate never fails, and needs no
// option.
func EmitRefused(refusals ...Refusal) Option {
	return func(s *settings) error {
		if len(refusals) == 0 {
			refusals = failing
		}
		for _, r := range refusals {
			if !slices.Contains(failing, r) {
				return fmt.Errorf("EmitRefused: %s is no refusal that fails; there are %s", r, textsOf(failing))
			}
			s.emits[r] = true
		}
		return nil
	}
}

// OnError sets the guard's reaction to errors of class, such as topology.Validation.
func OnError(class topology.Class, policy topology.Policy) Option {
	return func(s *settings) error { return s.OnError(class, policy) }
}
