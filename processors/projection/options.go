package projection

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/onceward/onceward/processors/internal/declare"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// GapPolicy is the reaction to a record before which versions are missing.
type GapPolicy uint8

// The policies for gaps.
const (
	// FailFast fails the record.
	FailFast GapPolicy = iota
	// AcceptLatest applies the record, and counts the gap.
	AcceptLatest
)

// String returns the policy in lower case: fail-fast or accept-latest.
func (p GapPolicy) String() string {
	switch p {
	case FailFast:
		return "fail-fast"
	case AcceptLatest:
		return "accept-latest"
	}
	return "gap-policy(" + strconv.Itoa(int(p)) + ")"
}

// Option is an option of [Latest].
type Option func(s *settings) error

type settings struct {
	declare.Common
	definition uint16
	sparse     bool
	onGap      GapPolicy
	gapChosen  bool
}

func newSettings(opts []Option) *settings {
	s := &settings{definition: 1}
	declare.Apply(&s.Common, s, opts)
	if s.sparse && s.gapChosen {
		s.Mistake(errors.New("Sparse and OnGap contradict each other; there are no gaps where versions are sparse"))
	}
	return s
}

// Key gives the codec for keys in the store. Keys that are strings, []byte, int32 or int64 need none. K must
// be the type of the stream's keys.
func Key[K any](codec schemas.Codec[K]) Option {
	return func(s *settings) error { return s.SetKeys(codec) }
}

// OnGap chooses the reaction to a record before which versions are missing. The default is FailFast.
func OnGap(policy GapPolicy) Option {
	return func(s *settings) error {
		if policy > AcceptLatest {
			return fmt.Errorf("OnGap: %s is no policy; there are FailFast and AcceptLatest", policy)
		}
		s.onGap, s.gapChosen = policy, true
		return nil
	}
}

// Sparse says that versions are not dense: every higher version is applied, and there are no gaps.
func Sparse() Option {
	return func(s *settings) error {
		s.sparse = true
		return nil
	}
}

// DefinitionVersion numbers what fold computes, from 1, which is the default. It is to be raised with every
// change of fold after which old rows are wrong; the package documentation says what happens then.
func DefinitionVersion(n uint16) Option {
	return func(s *settings) error {
		if n == 0 {
			return errors.New("DefinitionVersion(0): versions of a definition count from 1")
		}
		s.definition = n
		return nil
	}
}

// OnError sets the projection's reaction to errors of class, such as topology.Validation.
func OnError(class topology.Class, policy topology.Policy) Option {
	return func(s *settings) error { return s.OnError(class, policy) }
}
