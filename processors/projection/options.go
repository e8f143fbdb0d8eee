package projection

import (
	"errors"
	"fmt"
	"strconv"
	"time"

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
	// gapsChosen counts the options that say what becomes of gaps.
	gapsChosen int
	// limits are those of waiting, nil if no record waits. repairs says that what is missing is
	// asked for.
	limits  *Limits
	repairs bool
	// values is a schemas.Codec[V] and incarnation a func(topology.Record[K, V]) (int64, error),
	// whose type parameters only Latest can check; or nil.
	values, incarnation any
	// first is the first version of an aggregate, if it is known.
	first topology.Option[int64]
}

func newSettings(opts []Option) *settings {
	s := &settings{definition: 1}
	declare.Apply(&s.Common, s, opts)
	if s.gapsChosen > 1 {
		s.Mistake(errors.New("OnGap, ParkGaps and RepairGaps contradict each other; one of them is enough"))
	}
	if _, ok := s.first.Get(); s.sparse && (ok || s.gapsChosen > 0) {
		s.Mistake(errors.New("Sparse contradicts FirstVersion and what chooses a reaction to gaps; there are no " +
			"gaps where versions are sparse"))
	}
	return s
}

// Key gives the codec for keys in the store. Keys that are strings, []byte, int32 or int64 need
// none. K must be the type of the stream's keys.
func Key[K any](codec schemas.Codec[K]) Option {
	return func(s *settings) error { return s.SetKeys(codec) }
}

// OnGap chooses the reaction to a record before which versions are missing. The default is
// FailFast.
func OnGap(policy GapPolicy) Option {
	return func(s *settings) error {
		s.gapsChosen++
		if policy > AcceptLatest {
			return fmt.Errorf("OnGap: %s is no policy; there are FailFast and AcceptLatest", policy)
		}
		s.onGap = policy
		return nil
	}
}

// Limits bound how many records of one key wait for missing versions, and for how long. Records and
// at least one of the times must be set.
type Limits struct {
	// Records is how many records of one key wait at most. Where that many wait already, Then
	// decides about the record that comes: FailFast fails it; with AcceptLatest the gap before the
	// first of them is accepted. It fails with that too if the first of them can be neither applied
	// nor abandoned.
	Records int
	// StreamTime is how far the stream time of the task moves on while the row of the key does not,
	// before the waiting is given up; 0 is no limit. Giving up takes up to an eighth longer, and a
	// record that moves the stream time; where more is due at once than one look gives up, as much
	// longer for each look. A replay gives up at the same records.
	StreamTime time.Duration
	// WallClock is the same by the wall clock of the process; 0 is no limit. It is counted from the
	// first look at the key, an eighth of it apart, and anew after a restart of the task at most an
	// eighth later; one look notices 10,000 keys at most. What it does depends on when it was
	// computed: a replay may give up elsewhere.
	WallClock time.Duration
	// Then is what follows when the waiting is given up: FailFast abandons the records of the key
	// ([Projection.Abandoned]), and its row stays where it is; AcceptLatest accepts the gap before
	// the first of them, and the others go on waiting if versions are missing before them too.
	Then GapPolicy
}

func (l Limits) check() error {
	var errs []error
	if l.Records < 1 {
		errs = append(errs, fmt.Errorf("Limits.Records is %d; it takes at least 1", l.Records))
	}
	for _, d := range []time.Duration{l.StreamTime, l.WallClock} {
		if d < 0 || d%time.Millisecond != 0 {
			errs = append(errs, fmt.Errorf("a time in Limits is %s; it takes whole milliseconds, or 0", d))
		}
	}
	if l.StreamTime == 0 && l.WallClock == 0 {
		errs = append(errs, errors.New("Limits has neither StreamTime nor WallClock; records would wait for ever"))
	}
	if l.Then > AcceptLatest {
		errs = append(errs, fmt.Errorf("Limits.Then: %s is no policy; there are FailFast and AcceptLatest", l.Then))
	}
	return errors.Join(errs...)
}

// ParkGaps keeps a record before which versions are missing until they have come, within limits.
// The codec is for the values of the records that wait. V must be the type of the stream's values,
// so for values that can be null it is that of the topic, topology.Nullable included.
//
// Something has to use [Projection.Abandoned].
func ParkGaps[V any](codec schemas.Codec[V], limits Limits) Option {
	return func(s *settings) error { return s.setParking("ParkGaps", codec, codec == nil, limits) }
}

// RepairGaps is [ParkGaps], and asks the source for what is missing: each range of versions once,
// when the first record behind it comes, and again only once nothing of the key waits any more.
// Something has to use [Projection.Repairs] too.
func RepairGaps[V any](codec schemas.Codec[V], limits Limits) Option {
	return func(s *settings) error {
		s.repairs = true
		return s.setParking("RepairGaps", codec, codec == nil, limits)
	}
}

func (s *settings) setParking(option string, codec any, isNil bool, limits Limits) error {
	s.gapsChosen++
	s.limits, s.values = &limits, codec
	if isNil {
		s.values = nil
		return fmt.Errorf("%s: the codec is nil", option)
	}
	if err := limits.check(); err != nil {
		return fmt.Errorf("%s: %w", option, err)
	}
	return nil
}

// FirstVersion says that the versions of every aggregate, and of every incarnation of it, begin
// with n. Then a first record with a higher version reveals a gap, and one with a lower version
// fails. Without it the first record of an aggregate is applied whatever its version is, because
// the topic may begin anywhere.
func FirstVersion(n int64) Option {
	return func(s *settings) error {
		s.first = topology.Some(n)
		return nil
	}
}

// Incarnation reads which life of the aggregate a record belongs to, for sources that begin with
// the versions anew when an aggregate is made again after its delete. A higher incarnation comes
// after every version of the lower ones, and begins without a state; what comes late of a lower one
// is stale. The error of f is of class Validation unless it has a class. K and V must be the types
// of the stream.
func Incarnation[K, V any](f func(r topology.Record[K, V]) (int64, error)) Option {
	return func(s *settings) error {
		if f == nil {
			return errors.New("Incarnation: the function is nil")
		}
		s.incarnation = f
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

// DefinitionVersion numbers what fold computes, from 1, which is the default. It is to be raised
// with every change of fold after which old rows are wrong; the package documentation says what
// happens then.
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
