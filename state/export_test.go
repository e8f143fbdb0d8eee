package state

import "time"

// SetReadersWait changes how long an instance waits for tools that read, until restore is called.
func SetReadersWait(d time.Duration) (restore func()) {
	before := readersWait
	readersWait = d
	return func() { readersWait = before }
}
