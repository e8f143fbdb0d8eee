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
// Where the topology names no dead-letter topic, stop stands in for dead letter: a record is never dropped. So it
// does where a punctuation fails: no record is to blame for that, also not the one that fired it.
// There is no policy that ignores a record, because only the code that failed could know that this is
// right; it returns nil.
type Policy struct {
	// Action is Retry, DeadLetter or Stop.
	Action Action
	// Attempts is how often a record is tried in all, the first time included. For Retry only; at least 2.
	Attempts int
	// Backoff is the pause before the second attempt; each further pause is twice as long. For Retry only.
	Backoff time.Duration
	// BackoffMax is the longest pause. For Retry only.
	BackoffMax time.Duration
	// Then is what follows the last attempt: DeadLetter or Stop. For Retry only.
	Then Action
}

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

// check says what is wrong with p as the policy of class c.
func (p Policy) check(c Class) error {
	if !c.valid() {
		return fmt.Errorf("OnError: %s is no error class", c)
	}
	if (c == Corruption || c == Fatal) && p.Action != Stop {
		return fmt.Errorf("OnError(%s): such an error always stops the task; the action must be Stop", c)
	}
	switch p.Action {
	case DeadLetter, Stop:
		if p != (Policy{Action: p.Action}) {
			return fmt.Errorf("OnError(%s): only a retry has attempts, pauses and a Then", c)
		}
		return nil
	case Retry:
	default:
		return fmt.Errorf("OnError(%s): the action must be Retry, DeadLetter or Stop, not %s", c, p.Action)
	}
	var errs []error
	if p.Attempts < 2 {
		errs = append(errs,
			fmt.Errorf("OnError(%s): a retry needs at least 2 attempts, not %d", c, p.Attempts))
	}
	if p.Backoff <= 0 || p.BackoffMax < p.Backoff {
		errs = append(errs, fmt.Errorf(
			"OnError(%s): the pauses must satisfy 0 < Backoff <= BackoffMax, not %s and %s",
			c, p.Backoff, p.BackoffMax))
	}
	if p.Then != DeadLetter && p.Then != Stop {
		errs = append(errs, fmt.Errorf("OnError(%s): Then must be DeadLetter or Stop, not %s", c, p.Then))
	}
	return errors.Join(errs...)
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

// OnError sets the reaction to errors of class. As an option of [NewBuilder] it holds for every node that
// has none of its own; as an option of a source or of an operator it holds there. An invalid policy is a
// mistake that Build reports.
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
