//go:build onceward_failpoints

package failpoint

import (
	"context"
	"fmt"
	"slices"
)

// Mechanism is a part of the runtime that a negative control breaks. Each package keeps what it
// breaks in a file broken_on.go.
type Mechanism string

// The mechanisms, and what an application does in which one is broken.
const (
	// Uncommitted reads inputs that are not committed.
	Uncommitted Mechanism = "uncommitted"
	// Offsets commits offsets outside of the transaction.
	Offsets Mechanism = "offsets"
	// Early reports the commits of every other round before they are answered.
	Early Mechanism = "early"
	// Apply writes a round to the databases before its transaction has ended.
	Apply Mechanism = "apply"
	// Restore leaves out the last record below the target of a changelog.
	Restore Mechanism = "restore"
	// InMemory takes the note of a store in memory for a position of its rows.
	InMemory Mechanism = "in-memory"
	// LostOnRestart gives the state the id of a round that has written to a store without a
	// changelog alone.
	LostOnRestart Mechanism = "lost-on-restart"
	// Copies brings the copy of a task to the ends of the changelogs instead of to a commit.
	Copies Mechanism = "copies"
	// Age restores a table from its topic whatever compaction has taken out of it.
	Age Mechanism = "age"
	// Identity has a fencer go on to use the producer id and epoch that it got for a transactional
	// id: it commits the ends of the inputs.
	Identity Mechanism = "identity"
	// Removal removes a fenced member by its instance id alone.
	Removal Mechanism = "removal"
	// Look goes on producing without looking for transactions that hang.
	Look Mechanism = "look"
	// Live gives no sign of life while the only other instance may not hear this one.
	Live Mechanism = "live"
	// GlobalsFirst has a global table serve before it has reached the ends of its topic.
	GlobalsFirst Mechanism = "globals-first"
	// GlobalsPosition writes the position of a global table in a batch before that of the rows.
	GlobalsPosition Mechanism = "globals-position"
	// MarksLate and MarksEarly write the marks of redriven dead letters in a transaction of their
	// own, behind that of the records or before it.
	MarksLate  Mechanism = "marks-late"
	MarksEarly Mechanism = "marks-early"
)

var mechanisms = []Mechanism{
	Uncommitted, Offsets, Early, Apply, Restore, InMemory, LostOnRestart, Copies, Age, Identity, Removal, Look, Live, GlobalsFirst,
	GlobalsPosition, MarksLate, MarksEarly,
}

// Set has the faults of one application, or of one client of package txn/admin.
type Set struct {
	hit    func(ctx context.Context, point string) error
	broken []Mechanism
}

// New returns a set that calls hit at each point, unless it is nil, and in which the named
// mechanisms are broken. [Set.Check] finds unknown names.
func New(hit func(ctx context.Context, point string) error, broken []string) Set {
	s := Set{hit: hit}
	for _, name := range broken {
		s.broken = append(s.broken, Mechanism(name))
	}
	return s
}

type contextKey struct{}

// In returns a context that carries a set to whatever is called with it.
func In(ctx context.Context, s Set) context.Context { return context.WithValue(ctx, contextKey{}, s) }

// From returns the set that ctx carries, the zero value if there is none.
func From(ctx context.Context) Set {
	s, _ := ctx.Value(contextKey{}).(Set)
	return s
}

// Check returns an error that has the first broken mechanism of an unknown name.
func (s Set) Check() error {
	for _, m := range s.broken {
		if !slices.Contains(mechanisms, m) {
			return fmt.Errorf("no mechanism that can be broken is named %q: there are %q", m, mechanisms)
		}
	}
	return nil
}

// Armed reports whether points are hit. Settings that let a short test reach all points depend on
// it.
func (s Set) Armed() bool { return s.hit != nil }

// Hit lets the test act at a point. An error is what became of the request that the point is about.
func (s Set) Hit(ctx context.Context, p Point) error {
	if s.hit == nil {
		return nil
	}
	return s.hit(ctx, string(p))
}

// Broken reports whether a mechanism is broken.
func (s Set) Broken(m Mechanism) bool { return slices.Contains(s.broken, m) }

// AnyBroken reports whether any mechanism is broken.
func (s Set) AnyBroken() bool { return len(s.broken) > 0 }
