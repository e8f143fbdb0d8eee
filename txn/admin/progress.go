package admin

import (
	"time"

	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/restore"
)

// Progress is how far a reading of changelogs is: for one store of a task that is verified, or for
// a task that is rebuilt.
type Progress struct {
	Task graph.TaskID
	// Store is the one that is verified, empty for a task that is rebuilt.
	Store string
	// Records and Bytes (of keys and values) are what was read so far.
	Records, Bytes int64
	// Left is the distance to the end in offsets, of which compaction and aborted transactions may
	// have emptied some.
	Left int64
	// Rate is how many offsets a second were read lately, Remaining how long the rest takes at this
	// rate. Both are 0 while the rate is unknown.
	Rate      float64
	Remaining time.Duration
}

// toldEvery is how often a caller is told the progress of a reading, and once more at its end.
const toldEvery = 250 * time.Millisecond

func progressOf(task graph.TaskID, store string, s restore.Snapshot) Progress {
	return Progress{
		Task: task, Store: store, Records: s.Records, Bytes: s.Bytes, Left: s.Remaining, Rate: s.Rate, Remaining: s.Left,
	}
}

// follow tells how far a restore is until the function that it returns is called, which tells the
// end.
func follow(task graph.TaskID, p *restore.Progress, tell func(Progress)) (end func()) {
	if tell == nil {
		return func() {}
	}
	over, told := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(told)
		tick := time.NewTicker(toldEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				tell(progressOf(task, "", p.Read(time.Now())))
			case <-over:
				tell(progressOf(task, "", p.Read(time.Now())))
				return
			}
		}
	}()
	return func() { close(over); <-told }
}
