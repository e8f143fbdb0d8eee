package state

import "fmt"

// checkCleared panics if an entry can no longer be found because slot i was cleared: the last entry
// must not have had another one behind it in its run of slots. It runs under the build tag
// invariants.
func (x *index) checkCleared(cleared uint32) {
	mask := uint32(len(x.slots) - 1)
	for i := (cleared + 1) & mask; x.slots[i].ref != 0; i = (i + 1) & mask {
		home := x.slots[i].hash & mask
		if (i-home)&mask >= (i-cleared)&mask { // the run of slot i passes the cleared one
			panic(fmt.Sprintf("state: clearing slot %d hides the entry in slot %d, whose run begins at %d",
				cleared, i, home))
		}
	}
}
