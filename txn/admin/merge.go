package admin

import (
	"bytes"
	"errors"
	"iter"

	"github.com/onceward/onceward/state"
)

// sides are the next rows of two sides, in the order of their keys: order is negative if only a has
// the key, positive if only b has it, and 0 if both have it. The next row of the other side is
// there in any case, unless that side has ended.
type sides struct {
	a, b  state.Entry
	order int
}

// merged goes through two sides that are each in the order of their keys. An error is the last
// thing that it yields.
func merged(a, b iter.Seq2[state.Entry, error]) iter.Seq2[sides, error] {
	return func(yield func(sides, error) bool) {
		nextA, stopA := iter.Pull2(a)
		defer stopA()
		nextB, stopB := iter.Pull2(b)
		defer stopB()
		var s sides
		var errA, errB error
		var moreA, moreB bool
		s.a, errA, moreA = nextA()
		s.b, errB, moreB = nextB()
		for moreA || moreB {
			if err := errors.Join(errA, errB); err != nil {
				yield(sides{}, err)
				return
			}
			s.order = bytes.Compare(s.a.Key, s.b.Key)
			switch {
			case !moreB:
				s.order = -1
			case !moreA:
				s.order = 1
			}
			if !yield(s, nil) {
				return
			}
			if s.order <= 0 {
				s.a, errA, moreA = nextA()
			}
			if s.order >= 0 {
				s.b, errB, moreB = nextB()
			}
		}
	}
}
