package simulation

import "time"

// judgeCopies finds copies of tasks that are at no commit of the task's owner. It ends with the
// life, and does not end before it.
func (l *life) judgeCopies() {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	r := l.instance.r
	for {
		select {
		case <-l.ended:
			return
		case <-tick.C:
		}
		for _, c := range l.app.Status().Standbys {
			for _, in := range c.Inputs {
				if in.Offset > 0 && !r.kafka.IsCommit(r.application(), in.Topic, in.Partition, in.Offset) {
					r.found("%s has a copy of task %s at %s[%d] offset %d, which no commit names", l.name, c.ID, in.Topic, in.Partition, in.Offset)
				}
				r.count(Copied)
			}
		}
	}
}
