package restore

import (
	"errors"
	"fmt"
	"time"
)

// ErrLostRows is the cause of a task's stop where a changelog may have lost rows that a store can
// still read.
var ErrLostRows = errors.New("the changelog may have lost rows that the store can still read")

// checkLost stops a task if one of its stores would come out of its changelog with fewer rows than
// it had. Brokers delete by the clock, and rows expire by the stream time of their store. So the
// beginning of a changelog can be gone while the store can still read its rows. A database that was
// there all the time has these rows, and a restore cannot bring them back. With AcceptLostRows the
// loss is only logged.
func (o *opening) checkLost(found Found, replays []Replay) error {
	for _, c := range replays {
		at, _ := o.db.Positions().Changelog(c.Store)
		complete := c.Full == "" && at.TopicID == c.TopicID && (at.Scanned >= c.LogStart || at.Applied >= c.Target)
		if !c.Deletes || c.LogStart == 0 || complete || c.Target == 0 || c.expired(found.Now, c.StreamTime) {
			continue
		}
		if !o.r.AcceptLostRows {
			return &StopError{Task: o.req.Task, Cause: ErrLostRows, Recovery: found.recoveryActions(directoryBack, fromInput, acceptLost), Reason: fmt.Sprintf(
				"store %s would be restored from changelog %s[%d], which begins at offset %d: brokers delete its records after %s by their "+
					"clock, and the stream time of the store is %s", c.Store, c.Topic, o.req.Task.Partition, c.LogStart, c.Retention,
				time.UnixMilli(c.StreamTime).UTC().Format(time.RFC3339))}
		}
		o.log.Warn("a store is restored without rows that its changelog may have lost, as accepted", "store", c.Store, "changelog", c.Topic,
			"partition", o.req.Task.Partition, "log_start", c.LogStart, "retention", c.Retention,
			"stream_time", time.UnixMilli(c.StreamTime).UTC())
	}
	return nil
}
