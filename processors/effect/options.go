package effect

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/onceward/onceward/processors/internal/declare"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// Option is an option of [Perform].
type Option func(s *settings) error

type settings struct {
	declare.Common
	lookup     LookupFunc
	repeatable bool
	json       bool
	// emitsConflicts says that conflicts are emitted instead of failing.
	emitsConflicts bool
	modes          []topology.Mode
	parallel       int
	timeout        time.Duration
	lease          time.Duration
	grace          time.Duration
	attempts       int
	backoff        time.Duration
	backoffMax     time.Duration
	// now is the clock that says whether a claim still holds. Tests replace it.
	now func() time.Time
}

// The defaults.
const (
	defaultParallel   = 16
	defaultTimeout    = 3 * time.Second
	defaultLease      = 30 * time.Second
	defaultGrace      = 30 * time.Second
	defaultAttempts   = 10
	defaultBackoff    = time.Second
	defaultBackoffMax = 5 * time.Minute
	// every is how often a task looks for steps that are due.
	every = 20 * time.Millisecond
	// stepsPerCall bounds a claim: so many steps for each call that is made at a time.
	stepsPerCall = 8
)

func newSettings(opts []Option) *settings {
	s := &settings{
		modes: []topology.Mode{topology.Live}, parallel: defaultParallel, timeout: defaultTimeout,
		lease: defaultLease, grace: defaultGrace,
		attempts: defaultAttempts, backoff: defaultBackoff, backoffMax: defaultBackoffMax, now: time.Now,
	}
	declare.Apply(&s.Common, s, opts)
	if s.lease < 2*s.timeout+startMax {
		s.Mistake(fmt.Errorf("a claim of %s is too short for calls of %s: it takes at least twice that and %s",
			s.lease, s.timeout, startMax))
	}
	if s.lookup != nil && s.repeatable {
		s.Mistake(errors.New("Lookup and Repeatable are two answers to one question; give one of them"))
	}
	return s
}

// Key gives the codec for the keys of the stream. Keys that are strings, []byte, int32 or int64
// need none. K must be the type of the stream's keys.
func Key[K any](codec schemas.Codec[K]) Option {
	return func(s *settings) error { return s.SetKeys(codec) }
}

// Lookup says how to find out what has become of a call whose outcome is not known.
func Lookup(f LookupFunc) Option {
	return func(s *settings) error {
		if f == nil {
			return errors.New("Lookup: the function is nil")
		}
		s.lookup = f
		return nil
	}
}

// Repeatable says that the provider itself makes one effect of all calls with one idempotency key,
// for longer than this processor repeats them. Only then is a call whose outcome is not known made
// again without a lookup. It is made again until the provider says that the effect has happened, or
// refuses for good; what is not known by then, or after the last attempt, waits for a person.
func Repeatable() Option {
	return func(s *settings) error {
		s.repeatable = true
		return nil
	}
}

// PayloadJSON compares payloads as JSON documents: the order of fields, white space and the
// spelling of numbers do not count. A payload that is no document is a Validation failure.
func PayloadJSON() Option {
	return func(s *settings) error {
		s.json = true
		return nil
	}
}

// AlsoIn asks for calls in modes other than topology.Live. Forensic is not among them: nothing
// would know of the call.
func AlsoIn(modes ...topology.Mode) Option {
	return func(s *settings) error {
		if slices.Contains(modes, topology.Forensic) {
			return errors.New("AlsoIn: a forensic run makes no calls")
		}
		s.modes = append(s.modes, modes...)
		return nil
	}
}

// Parallel is how many calls a task makes at once. The default is 16.
func Parallel(n int) Option {
	return func(s *settings) error {
		if n < 1 || n > 1024 {
			return fmt.Errorf("Parallel(%d): it is a number from 1 to 1024", n)
		}
		s.parallel = n
		return nil
	}
}

// Timeout ends the context of each call and lookup. The default is 3 s. The task does nothing else
// meanwhile, and nor do others of its worker, so it is to be well below
// txn.Config.TransactionTimeout.
func Timeout(d time.Duration) Option {
	return func(s *settings) error {
		if d < time.Millisecond {
			return fmt.Errorf("Timeout(%s): it is at least a millisecond", d)
		}
		s.timeout = d
		return nil
	}
}

// Claims sets how long a claim holds, 30 s by default, and the grace after which another opening of
// the task takes it for over, 30 s by default, which covers the differences between the clocks of
// instances.
func Claims(hold, grace time.Duration) Option {
	return func(s *settings) error {
		if hold < time.Millisecond || grace < 0 {
			return fmt.Errorf("Claims(%s, %s): both are times, and the first one is not zero", hold, grace)
		}
		s.lease, s.grace = hold, grace
		return nil
	}
}

// Retry bounds the attempts at an effect, 10 by default: its calls, and apart from them its
// lookups. Between two of them the pause is backoff, 1 s by default, doubling to most, 5 min by
// default.
func Retry(attempts int, backoff, most time.Duration) Option {
	return func(s *settings) error {
		if attempts < 1 || backoff < time.Millisecond || most < backoff {
			return fmt.Errorf("Retry(%d, %s, %s): there is at least one attempt, and 1ms <= backoff <= most",
				attempts, backoff, most)
		}
		s.attempts, s.backoff, s.backoffMax = attempts, backoff, most
		return nil
	}
}

// EmitConflicts emits conflicts ([Effects.Conflicts]) instead of failing them.
func EmitConflicts() Option {
	return func(s *settings) error {
		s.emitsConflicts = true
		return nil
	}
}

// OnError sets the reaction to requests that fail with errors of class, such as topology.Conflict.
func OnError(class topology.Class, policy topology.Policy) Option {
	return func(s *settings) error { return s.OnError(class, policy) }
}

// mayLookUp reports whether the program has a lookup left for an effect that is Unknown.
func (s *settings) mayLookUp(e *Effect) bool { return s.lookup != nil && e.Lookups < s.attempts }

// mayRepeat reports whether the program may make the call of an effect that is Unknown once more.
func (s *settings) mayRepeat(e *Effect) bool { return s.repeatable && e.Attempts < s.attempts }

// pause returns how long to wait after the n-th attempt, from 1.
func (s *settings) pause(n int) time.Duration {
	d := s.backoff
	for range n - 1 {
		if d > s.backoffMax/2 {
			return s.backoffMax
		}
		d *= 2
	}
	return d
}
