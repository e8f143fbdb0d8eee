package topology

import (
	"bytes"

	"github.com/onceward/onceward/schemas"
)

const errViewChanged = schemas.Reason("a function has changed a key or a value that its source lends; see schemas.Lender")

// lentCopies are copies of the keys and values of a record, which are lent in their place, to find
// functions that change or keep them. See [GraphConfig.CheckViews].
type lentCopies struct{ originals, copies [][]byte }

// lentTo returns what a source lends of b: a copy, or b where nothing is lent.
func lentTo[T any](l *lentCopies, lender schemas.Lender[T], b []byte) []byte {
	if lender == nil || b == nil {
		return b
	}
	c := bytes.Clone(b)
	l.originals, l.copies = append(l.originals, b), append(l.copies, c)
	return c
}

// overwritten is what the bytes of a copy become.
const overwritten = 0xdb

// end overwrites the copies, and reports whether one was changed before.
func (l *lentCopies) end() (changed bool) {
	for i, c := range l.copies {
		changed = changed || !bytes.Equal(c, l.originals[i])
		for at := range c {
			c[at] = overwritten
		}
	}
	clear(l.originals)
	clear(l.copies)
	l.originals, l.copies = l.originals[:0], l.copies[:0]
	return changed
}
