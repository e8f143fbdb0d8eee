package restore

import "time"

// tellLost says which stores come out of their changelogs with less than they could have. Brokers delete by the clock, and stores forget by
// their stream time: where old input is processed, the beginning of a changelog can be gone of which a store could still read the rows. Who
// has had the task all the time has them, and a restore cannot bring them back.
func (o *opening) tellLost(replays []Replay, now time.Time) {
	for _, c := range replays {
		at, _ := o.db.Positions().Changelog(c.Store)
		complete := c.Full == "" && at.TopicID == c.TopicID && at.Scanned >= c.LogStart
		if !c.Deletes || c.Retention == 0 || c.LogStart == 0 || complete || c.Target == 0 {
			continue
		}
		if !c.expired(now, c.StreamTime) {
			o.log.Warn("a changelog has lost rows by the clock that its store could still read by its stream time", "store", c.Store,
				"changelog", c.Topic, "partition", o.req.Task.Partition, "log_start", c.LogStart, "retention", c.Retention,
				"stream_time", time.UnixMilli(c.StreamTime).UTC(),
				"remedy", "for input that is that old, raise retention.ms of the topic before it is processed")
		}
	}
}
