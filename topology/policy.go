package topology

import (
	"errors"
	"fmt"
	"time"
)

// A Policy is the reaction to the errors of one class. Without [OnError] the reactions are:
//
//	transient   10 attempts, 100 ms doubling to 30 s between them, then dead letter
//	overload    20 attempts, 1 s doubling to 60 s between them, then dead letter
//	conflict, validation, poison          dead letter
//	config                                stop the task
//	corruption, fatal                     stop the task, always
//
// Another choice is Park: the record waits in a store of its task, and with it the later records of
// its key, in order, while all others go on. It is tried again after each pause; when it succeeds,
// or is given up, those behind it follow. A source whose records may be parked says so with
// [ParkKeys].
//
// A third one is Delay: the record goes to a topic of its own, and is read again from there after a
// while, while all others go on, those of its key too. A source whose records may be delayed says
// with [RetryTopics] for how long.
//
// Where the topology names no dead-letter topic, stop stands in for dead letter: a record is never
// dropped. So it does where a punctuation fails: no record is to blame for that, also not the one
// that fired it. A record that was parked and is tried again goes by the policy of what it fails
// with then.
//
// There is no policy that ignores a record, because only the code that failed could know that this
// is right; it returns nil.
type Policy struct {
	// Action is Retry, Park, Delay, DeadLetter or Stop.
	Action Action
	// Attempts is how often a record is tried in all, the first time included: at least 2. 0 is no
	// limit, for Park only.
	Attempts int
	// Backoff is the pause before the second attempt; each further pause is twice as long. For
	// Retry and Park.
	Backoff time.Duration
	// BackoffMax is the longest pause. For Retry and Park.
	BackoffMax time.Duration
	// Then is what follows the last attempt: DeadLetter or Stop. For Retry, Park and Delay, if
	// there is a limit.
	Then Action
}

// classes is the length of a table by class.
const classes = int(Fatal) + 1

var defaultPolicies = [classes]Policy{
	Transient: {
		Action: Retry, Attempts: 10, Then: DeadLetter,
		Backoff: 100 * time.Millisecond, BackoffMax: 30 * time.Second,
	},
	Overload: {
		Action: Retry, Attempts: 20, Then: DeadLetter,
		Backoff: time.Second, BackoffMax: time.Minute,
	},
	Conflict:   {Action: DeadLetter},
	Validation: {Action: DeadLetter},
	Poison:     {Action: DeadLetter},
	Config:     {Action: Stop},
	Corruption: {Action: Stop},
	Fatal:      {Action: Stop},
}

// againNouns name the actions that try a record again.
var againNouns = map[Action]string{Retry: "a retry", Park: "parking", Delay: "a delay"}

// check says what is wrong with p as the policy of class c.
func (p Policy) check(c Class) error {
	if !c.Valid() {
		return fmt.Errorf("OnError: %s is no error class", c)
	}
	if (c == Corruption || c == Fatal) && p.Action != Stop {
		return fmt.Errorf("OnError(%s): such an error always stops the task; the action must be Stop", c)
	}
	switch p.Action {
	case DeadLetter, Stop:
		if p != (Policy{Action: p.Action}) {
			return fmt.Errorf("OnError(%s): only a retry, parking and a delay have attempts, pauses and a Then", c)
		}
		return nil
	case Retry, Park, Delay:
	default:
		return fmt.Errorf("OnError(%s): the action must be Retry, Park, Delay, DeadLetter or Stop, not %s", c, p.Action)
	}
	var errs []error
	endless := p.Action == Park && p.Attempts == 0
	if p.Attempts < 2 && !endless {
		errs = append(errs,
			fmt.Errorf("OnError(%s): %s needs at least 2 attempts, not %d", c, againNouns[p.Action], p.Attempts))
	}
	if p.Action == Delay && (p.Backoff != 0 || p.BackoffMax != 0) {
		errs = append(errs, fmt.Errorf(
			"OnError(%s): how long a record is delayed is said by RetryTopics; a delay has no pauses", c))
	}
	if p.Action != Delay && (p.Backoff <= 0 || p.BackoffMax < p.Backoff) {
		errs = append(errs, fmt.Errorf(
			"OnError(%s): the pauses must satisfy 0 < Backoff <= BackoffMax, not %s and %s",
			c, p.Backoff, p.BackoffMax))
	}
	if endless && p.Then != 0 {
		errs = append(errs, fmt.Errorf("OnError(%s): without a limit of attempts nothing follows the last one", c))
	}
	if p.Then != DeadLetter && p.Then != Stop && !endless {
		errs = append(errs, fmt.Errorf("OnError(%s): Then must be DeadLetter or Stop, not %s", c, p.Then))
	}
	return errors.Join(errs...)
}

// at returns what is to be done after the given failed attempt, which counts from 1.
func (p Policy) at(attempt int) Action {
	if again := againNouns[p.Action] != ""; again && p.Attempts != 0 && attempt >= p.Attempts {
		return p.Then
	}
	return p.Action
}

// pause returns how long to wait after the given failed attempt, which counts from 1.
func (p Policy) pause(attempt int) time.Duration {
	d := p.Backoff
	for range attempt - 1 {
		if d > p.BackoffMax/2 {
			return p.BackoffMax
		}
		d *= 2
	}
	return d
}

// An ErrorOption is a reaction to a class of errors, for a whole topology, a source, or one node.
type ErrorOption struct {
	class  Class
	policy Policy
}

// OnError sets the reaction to errors of class. As an option of [NewBuilder] it holds for every
// node that has none of its own; as an option of a source or of an operator it holds there. An
// invalid policy is a mistake that Build reports.
func OnError(class Class, policy Policy) ErrorOption {
	return ErrorOption{class: class, policy: policy}
}

func (o ErrorOption) applyBuilder(b *Builder) {
	if err := o.policy.check(o.class); err != nil {
		b.mistakeAt(b.pos, "", err)
		return
	}
	b.policies[o.class] = o.policy
}

func (o ErrorOption) applyNode(b *Builder, n *node) {
	if err := o.policy.check(o.class); err != nil {
		b.mistakeAt(n.pos, n.name, err)
		return
	}
	if b.closed {
		b.mistakeAt(n.pos, n.name, errClosed)
		return
	}
	n.policies[o.class] = o.policy
}

func (o ErrorOption) applySource(b *Builder, s *sourceSettings) { s.errors = append(s.errors, o) }
