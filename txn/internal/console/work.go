package console

import "time"

// Work is what the handlers of one application have under way. Make it with [NewWork]. It is safe
// for concurrent use.
type Work struct {
	lists chan struct{} // a slot for each list that is read
	rows  chan struct{} // a slot for each lookup of rows
	acts  chan struct{} // one for the redrive at work
}

const (
	// listsMax is how many lists are read at a time.
	listsMax = 2
	// rowsMax is for how many requests rows are looked up at a time.
	rowsMax = 4
)

// NewWork returns a Work with nothing under way.
func NewWork() *Work {
	return &Work{make(chan struct{}, listsMax), make(chan struct{}, rowsMax), make(chan struct{}, 1)}
}

// Wait returns when no redrive is at work, or after the longest time. It is for the end of a server,
// whose connections a redrive does not outlive.
func (w *Work) Wait(longest time.Duration) {
	timer := time.NewTimer(longest)
	defer timer.Stop()
	select {
	case w.acts <- struct{}{}:
		<-w.acts
	case <-timer.C:
	}
}
