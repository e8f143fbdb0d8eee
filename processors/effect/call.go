package effect

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// Call is what a call is made with.
type Call struct {
	// ID, Type, Target, BusinessKey, IdempotencyKey and Payload are those of the request.
	ID, Type, Target, BusinessKey, IdempotencyKey string
	Payload                                       []byte
	// Attempt counts the calls of the effect that were claimed, this one included, from 1.
	Attempt int
}

// A Func makes one call and returns the response. It returns soon after ctx has ended: the task
// waits for it. It is called by several goroutines at once.
//
// Without an error the effect has happened. An error that is marked with [Retryable] or [Terminal]
// says that this call had certainly no effect; of an earlier one whose outcome is not known it says
// nothing, and the effect stays [Unknown]. Every other error, a panic and the end of ctx leave open
// what has happened: the effect is Unknown, because a reply that did not come says nothing about
// the request.
type Func func(ctx context.Context, c Call) (response []byte, err error)

// A LookupFunc asks the provider for the outcome of the effect with c.IdempotencyKey, and changes
// nothing there. As a [Func] it is called by several goroutines at once and returns soon after ctx
// has ended. An error leaves the effect unknown.
type LookupFunc func(ctx context.Context, c Call) (Answer, error)

// Answer is the outcome of an effect at the provider.
type Answer struct {
	// Status is Completed, FailedTerminal, or FailedRetryable: it has not happened, and no call
	// that was made is still on its way, so that it may be tried again. Unknown is for one that is
	// still in progress there.
	Status Status
	// Response is that of the call, if there is one.
	Response []byte
}

// Retryable marks err as one of a call that had certainly no effect, and that may have one later: a
// connection that was refused, a 429. It returns nil if err is nil.
func Retryable(err error) error { return mark(FailedRetryable, err) }

// Terminal marks err as one of a call that had certainly no effect and will have none: the provider
// has refused it. It returns nil if err is nil.
func Terminal(err error) error { return mark(FailedTerminal, err) }

func mark(s Status, err error) error {
	if err == nil {
		return nil
	}
	return &markedError{status: s, err: err}
}

type markedError struct {
	status Status
	err    error
}

func (e *markedError) Error() string { return e.err.Error() }
func (e *markedError) Unwrap() error { return e.err }

// outcome is what a step has found out. The zero outcome is a step that was not taken.
type outcome struct {
	status   Status
	reason   string
	response []byte
	// refused says that the provider has refused to be called again, while the effect is in doubt.
	refused bool
}

// The reasons that are ours.
const (
	reasonExpired  = "the claim of a call has expired: it may have been made or not"
	reasonNotFound = "the provider does not have it"
	reasonGivenUp  = "not known after the last lookup"
	reasonLast     = "the last attempt has failed"
	reasonDoubt    = "an earlier call may have had its effect, and the last one had none"
)

// outcomeOf returns what the result of a call means.
func outcomeOf(response []byte, err error) outcome {
	if err == nil {
		return outcome{status: Completed, response: response}
	}
	o := outcome{status: Unknown, reason: reasonOf(err), response: response}
	if marked, ok := errors.AsType[*markedError](err); ok {
		o.status = marked.status
	}
	return o
}

// inDoubt returns what the outcome of a call means for an effect of which an earlier call may have
// happened: that this call had no effect is not that there is none.
func (o outcome) inDoubt() outcome {
	if o.status == FailedRetryable || o.status == FailedTerminal {
		o.refused = o.status == FailedTerminal
		o.status, o.reason = Unknown, reasonDoubt+": "+o.reason
	}
	return o
}

// reasonOf returns what can be said of err without quoting the request.
func reasonOf(err error) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "there was no answer in time"
	case err == nil:
		return ""
	}
	return (&topology.Failure{Err: err}).Reason()
}

func lookedUp(a Answer, err error) outcome {
	switch {
	case err != nil:
		return outcome{status: Unknown, reason: reasonOf(err)}
	case a.Status == FailedRetryable:
		return outcome{status: FailedRetryable, reason: reasonNotFound}
	case a.Status == Completed, a.Status == FailedTerminal:
		return outcome{status: a.Status, response: a.Response}
	}
	return outcome{status: Unknown, reason: "still in progress"}
}

// startMax is how long the steps of one claim may be started. Steps that are not started then are
// claimed again. So a slow provider delays its task by startMax and one call at most.
const startMax = time.Second

// perform takes steps, parallel of them at once, and returns what became of each, in their order.
// mayStart is asked before each one. It returns when all have ended.
func perform(parallel int, steps []func(ctx context.Context) outcome, timeout time.Duration, mayStart func() bool) []outcome {
	outcomes := make([]outcome, len(steps))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(parallel, len(steps)) {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(steps) || !mayStart() {
					return
				}
				outcomes[i] = guarded(steps[i], timeout)
			}
		})
	}
	wg.Wait()
	return outcomes
}

// guarded takes one step. A panic is an answer that is not known.
func guarded(step func(ctx context.Context) outcome, timeout time.Duration) (o outcome) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			reason := schemas.Reason(fmt.Sprintf("panic with a value of type %T", p))
			o = outcome{status: Unknown, reason: string(reason)}
		}
	}()
	return step(ctx)
}
