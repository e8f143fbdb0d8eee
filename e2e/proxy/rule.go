package proxy

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// ErrUnmatched says that a rule never matched a frame, so that its fault has not happened.
var ErrUnmatched = errors.New("the rule matched nothing")

// AnyKey in a [Match] is every api key.
const AnyKey int16 = -1

// Match says which frames a rule is about.
type Match struct {
	Key       int16 // api key, or AnyKey
	Direction Direction
	ClientID  string // "" is any
	// Where, if set, has to agree too. It is called from the connections' goroutines, for requests
	// and replies alike, and must be quick.
	Where func(*Frame) bool
	// Skip lets that many matching frames go before the rule begins; Limit ends the rule after as
	// many, 0 is no limit.
	Skip, Limit int
}

func (m Match) String() string {
	name := "any"
	if m.Key != AnyKey {
		name = kmsg.NameForKey(m.Key)
	}
	s := fmt.Sprintf("%s %s", name, m.Direction)
	if m.ClientID != "" {
		s += fmt.Sprintf(" of client %q", m.ClientID)
	}
	if m.Skip > 0 {
		s += fmt.Sprintf(" after %d", m.Skip)
	}
	return s
}

func (m Match) covers(f *Frame) bool {
	return (m.Key == AnyKey || m.Key == f.Key) && m.Direction == f.Direction && (m.ClientID == "" || m.ClientID == f.ClientID) &&
		(m.Where == nil || m.Where(f))
}

// Action is what becomes of a frame that a rule matches.
type Action struct {
	what  what
	delay time.Duration
}

type what uint8

const (
	pass what = iota
	delay
	hold
	drop
	cut
)

// Pass counts the frame and leaves the decision to later rules.
func Pass() Action { return Action{what: pass} }

// Delay lets the frame go on after d, or when the rule is lifted.
func Delay(d time.Duration) Action { return Action{what: delay, delay: d} }

// Hold keeps the frame until the rule is lifted.
func Hold() Action { return Action{what: hold} }

// Drop swallows the frame. The connection stays, so that the client learns of it by waiting.
func Drop() Action { return Action{what: drop} }

// Cut swallows the frame and closes the connection, so that the client learns of it at once.
func Cut() Action { return Action{what: cut} }

func (a Action) String() string {
	switch a.what {
	case pass:
		return "pass"
	case delay:
		return "delay " + a.delay.String()
	case hold:
		return "hold"
	case drop:
		return "drop"
	case cut:
		return "cut"
	}
	return "unknown"
}

// Rule is one entry of a proxy's list. Its methods may be called from any goroutine.
type Rule struct {
	match  Match
	action Action

	lifted chan struct{} // closed by Lift

	mu      sync.Mutex
	skipped int
	counts  Counts
	first   *Frame
	changed chan struct{} // closed and replaced with every change of counts
}

// Counts say what has become of the frames that a rule matched.
type Counts struct {
	Matched int
	// Delivered have been written to their receiver. Of one that reset the connection a moment ago
	// that is all that is known.
	Delivered int
}

func newRule(m Match, a Action) *Rule {
	return &Rule{match: m, action: a, lifted: make(chan struct{}), changed: make(chan struct{})}
}

func (r *Rule) String() string { return fmt.Sprintf("%s: %s", r.match, r.action) }

// Counts returns what has happened so far.
func (r *Rule) Counts() Counts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts
}

// First returns the first frame that matched, nil until there is one.
func (r *Rule) First() *Frame {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.first
}

// Lift ends the rule: it matches nothing any more, and what it holds goes on. A second call does
// nothing.
func (r *Rule) Lift() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over() {
		close(r.lifted)
	}
}

func (r *Rule) over() bool {
	select {
	case <-r.lifted:
		return true
	default:
		return false
	}
}

// AwaitMatched waits until n frames have matched, counted from the rule's beginning. A frame that
// is to be held is held by then.
func (r *Rule) AwaitMatched(ctx context.Context, n int) error {
	return r.await(ctx, "matched", func(c Counts) bool { return c.Matched >= n })
}

// AwaitDelivered waits until n of the matched frames have been written to their receiver.
func (r *Rule) AwaitDelivered(ctx context.Context, n int) error {
	return r.await(ctx, "delivered", func(c Counts) bool { return c.Delivered >= n })
}

func (r *Rule) await(ctx context.Context, what string, enough func(Counts) bool) error {
	for {
		r.mu.Lock()
		counts, changed := r.counts, r.changed
		r.mu.Unlock()
		if enough(counts) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("proxy: rule %q: waiting until enough is %s: %w (%+v so far)", r, what, context.Cause(ctx), counts)
		}
	}
}

// Rules is an ordered list of rules. The zero value is empty. It may be used from any goroutine.
type Rules struct {
	mu  sync.Mutex
	all []*Rule
}

// Add installs a rule behind the others.
func (s *Rules) Add(m Match, a Action) *Rule {
	r := newRule(m, a)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, r)
	return r
}

// All returns the rules in their order.
func (s *Rules) All() []*Rule {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[:len(s.all):len(s.all)]
}

// Decide returns what the rules say about a frame, and counts it in every rule that it matched.
func (s *Rules) Decide(f *Frame) (d Decision) {
	for _, r := range s.All() {
		if !r.claim(f) {
			continue
		}
		d.counting = append(d.counting, r)
		if r.action.what != pass {
			d.rule = r
			return d
		}
	}
	return d
}

// Decision is what rules say about one frame.
type Decision struct {
	counting []*Rule
	rule     *Rule // the one that decides, or nil
}

// Decides reports whether a rule decides about the frame. Without one it goes on.
func (d Decision) Decides() bool { return d.rule != nil }

// Drops reports whether the frame is swallowed.
func (d Decision) Drops() bool { return d.rule != nil && d.rule.action.what == drop }

// Cuts reports whether the frame is swallowed and its connection closed.
func (d Decision) Cuts() bool { return d.rule != nil && d.rule.action.what == cut }

// Wait returns when the frame may go on. It returns false if done is closed before.
func (d Decision) Wait(done <-chan struct{}) bool {
	if d.rule == nil {
		return true
	}
	var over <-chan time.Time
	switch d.rule.action.what {
	case hold:
	case delay:
		t := time.NewTimer(d.rule.action.delay)
		defer t.Stop()
		over = t.C
	case pass, drop, cut:
		return true
	}
	select {
	case <-over:
		return true
	case <-d.rule.lifted:
		return true
	case <-done:
		return false
	}
}

// Delivered counts the frame as written to its receiver.
func (d Decision) Delivered() {
	for _, r := range d.counting {
		r.delivered()
	}
}

// String names the rule that decides, or is empty.
func (d Decision) String() string {
	if d.rule == nil {
		return ""
	}
	return d.rule.String()
}

// claim says whether the rule decides about the frame, and counts it.
func (r *Rule) claim(f *Frame) bool {
	if r.over() || !r.match.covers(f) {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over() || r.match.Limit > 0 && r.counts.Matched >= r.match.Limit {
		return false
	}
	if r.skipped < r.match.Skip {
		r.skipped++
		return false
	}
	r.counts.Matched++
	if r.first == nil {
		r.first = f
	}
	r.tell()
	return true
}

func (r *Rule) delivered() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts.Delivered++
	r.tell()
}

// tell wakes whoever waits; the caller holds mu.
func (r *Rule) tell() {
	close(r.changed)
	r.changed = make(chan struct{})
}
