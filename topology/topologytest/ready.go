package topologytest

import "math/bits"

// ready is the set of the tasks that may have records before them, by their index. A record sets
// few tasks to work, and looking at all of them for each record would cost more than the record.
type ready []uint64

func newReady(tasks int) ready { return make(ready, (tasks+63)/64) }

func (r ready) add(i int)    { r[i/64] |= 1 << (i % 64) }
func (r ready) remove(i int) { r[i/64] &^= 1 << (i % 64) }

// from returns the first member at or after i, -1 if there is none.
func (r ready) from(i int) int {
	for w := i / 64; w < len(r); w++ {
		word := r[w]
		if w == i/64 {
			word &= ^uint64(0) << (i % 64)
		}
		if word != 0 {
			return w*64 + bits.TrailingZeros64(word)
		}
	}
	return -1
}
