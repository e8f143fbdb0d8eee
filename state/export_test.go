package state

import "time"

// SetReadersWait changes how long an instance waits for tools that read, until restore is called.
func SetReadersWait(d time.Duration) (restore func()) {
	before := readersWait
	readersWait = d
	return func() { readersWait = before }
}

// RevertBesideGroups is a Revert that leaves the lists of the writes to each key as they are. It
// must not be used but to see that a test finds it.
func RevertBesideGroups(t *Task) {
	groups := t.open.groups
	t.open.groups = nil
	t.Revert()
	t.open.groups = groups
}
