package report

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	// waitMax is how long Ask waits for answers.
	waitMax = 700 * time.Millisecond
	// awayAfter is how long an instance that has answered before may take for its next answer.
	awayAfter = 2 * time.Second
	// questionMax is how long an instance has for its answer.
	questionMax = 5 * time.Second
	// answerAge is how old an answer may be that is not asked for again.
	answerAge = time.Second
	// reportAge is how old a report may be that counts as an answer of now. A page that is open asks
	// every two seconds, so a report is older only if the instance is slow, or was not asked.
	reportAge = 5 * time.Second
	// failureAge is how long a failure is known after the question. It says nothing of later times.
	failureAge = 10 * time.Second
	// leftFor is how long an instance is remembered that has left the group, leftMax how many are.
	leftFor = 10 * time.Minute
	leftMax = 64
)

// State says whether an instance answers.
type State string

// The states of an instance.
const (
	// Here is the instance that asks.
	Here State = "here"
	// Answering answers.
	Answering State = "answering"
	// Away does not: the last question has failed, or is under way for too long.
	Away State = "away"
	// Left is not in the plan of the group any more.
	Left State = "left"
)

// Instance is an instance of the application, as the one that asks sees it.
type Instance struct {
	Name  string `json:"instance"`
	State State  `json:"state"`
	// Since is when an instance that is away was first asked without an answer, and Why says why
	// there is none.
	Since time.Time `json:"since,omitzero"`
	Why   string    `json:"why,omitempty"`
	// LeftAt is when the instance was first missing in the plan, in state Left.
	LeftAt time.Time `json:"left_at,omitzero"`
	// Taken is when the report came, in milliseconds by the clock of the instance that asks. It
	// tells one report from the next.
	Taken int64 `json:"taken_ms,omitempty"`
	// Report is the last report, nil if there is none.
	Report *Report `json:"report,omitempty"`
}

// Instances asks the other instances of an application. Make it with [NewInstances].
type Instances struct {
	ask func(ctx context.Context, instance string) (Report, error)

	ctx       context.Context // of the questions
	stop      context.CancelFunc
	questions sync.WaitGroup

	mu     sync.Mutex
	known  map[string]*asked
	closed bool
}

// asked is what is known of an instance.
type asked struct {
	report         *Report
	answered, left time.Time
	// ended is when the last question did.
	ended time.Time
	// unanswered is when the first question began since the last answer, zero if there is none. err
	// is why the last question that has ended was not answered.
	unanswered time.Time
	err        error
	// done is closed when the question under way has ended; nil while there is none.
	done chan struct{}
}

// NewInstances returns instances that are asked by a function. Calls of it for several instances
// are at work at the same time. It has to return when its context ends.
func NewInstances(ask func(ctx context.Context, instance string) (Report, error)) *Instances {
	i := &Instances{ask: ask, known: map[string]*asked{}}
	i.ctx, i.stop = context.WithCancel(context.Background())
	return i
}

// Close ends the questions under way, and returns when they have ended. Ask answers nothing then.
func (i *Instances) Close() {
	i.mu.Lock()
	i.closed = true
	i.mu.Unlock()
	i.stop()
	i.questions.Wait()
}

// Ask asks the named instances, and returns them and those that have left, in order of their names.
// It does not wait for those that are away. The end of ctx ends the wait, and not the questions.
func (i *Instances) Ask(ctx context.Context, names []string) []Instance {
	now := time.Now()
	var waiting []chan struct{}
	i.mu.Lock()
	if i.closed {
		i.mu.Unlock()
		return nil
	}
	i.drop(names, now)
	for _, name := range names {
		if done := i.question(name, now); done != nil {
			waiting = append(waiting, done)
		}
	}
	i.mu.Unlock()
	wait := time.NewTimer(waitMax)
	defer wait.Stop()
	for _, done := range waiting {
		select {
		case <-done:
			continue
		case <-wait.C:
		case <-ctx.Done():
		}
		break
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	out := []Instance{}
	for _, name := range slices.Sorted(maps.Keys(i.known)) {
		out = append(out, i.known[name].instance(name, time.Now()))
	}
	return out
}

// drop notes which instances have left, and drops those that left long ago. The caller holds mu.
func (i *Instances) drop(names []string, now time.Time) {
	var left []string
	for name, a := range i.known {
		switch {
		case slices.Contains(names, name):
			if !a.left.IsZero() { // it is back, and nothing of before counts
				a.drop(now)
			}
			a.left = time.Time{}
		case a.left.IsZero():
			a.left, a.report = now, nil
			left = append(left, name)
		case now.Sub(a.left) >= leftFor:
			delete(i.known, name)
		default:
			left = append(left, name)
		}
	}
	if excess := len(left) - leftMax; excess > 0 {
		slices.SortFunc(left, func(a, b string) int { return cmp.Or(i.known[a].left.Compare(i.known[b].left), cmp.Compare(a, b)) })
		for _, name := range left[:excess] {
			delete(i.known, name)
		}
	}
}

// drop removes what is known of questions that were not answered.
func (a *asked) drop(now time.Time) {
	a.err, a.unanswered = nil, time.Time{}
	if a.done != nil {
		a.unanswered = now
	}
}

// question begins a question unless one is under way, or was answered just now. It returns what is
// closed at its end, nil if that is not to be waited for. The caller holds mu.
func (i *Instances) question(name string, now time.Time) chan struct{} {
	a := i.known[name]
	if a == nil {
		a = &asked{}
		i.known[name] = a
	}
	if a.done == nil && now.Sub(a.ended) >= failureAge {
		a.drop(now)
	}
	if a.done != nil {
		if a.err != nil || now.Sub(a.unanswered) >= awayAfter {
			return nil
		}
		return a.done // another call has just begun it
	}
	if a.err == nil && a.report != nil && now.Sub(a.answered) < answerAge {
		return nil
	}
	done, away := make(chan struct{}), a.err != nil
	a.done = done
	if a.unanswered.IsZero() {
		a.unanswered = now
	}
	i.questions.Go(func() {
		ctx, cancel := context.WithTimeout(i.ctx, questionMax)
		defer cancel()
		report, err := i.ask(ctx, name)
		i.mu.Lock()
		defer i.mu.Unlock()
		defer close(done)
		a.done, a.err, a.ended = nil, err, time.Now()
		if err == nil && a.left.IsZero() {
			a.report, a.answered, a.unanswered = &report, time.Now(), time.Time{}
		}
	})
	if away {
		return nil
	}
	return done
}

// errSlow is the reason for which an instance is away whose question is under way.
var errSlow = errors.New("it has not answered in time")

// instance is what is known now. The caller holds the lock of the instances.
func (a *asked) instance(name string, now time.Time) Instance {
	out := Instance{Name: name, State: Answering, Report: a.report}
	if a.report != nil {
		out.Taken = a.answered.UnixMilli()
	}
	slow := a.done != nil && now.Sub(a.unanswered) >= awayAfter || now.Sub(a.answered) >= reportAge
	switch {
	case !a.left.IsZero():
		out.State, out.LeftAt = Left, a.left
	case a.err != nil || a.report == nil || slow:
		out.State, out.Since, out.Why = Away, a.unanswered, cmp.Or(a.err, errSlow).Error()
	}
	return out
}
