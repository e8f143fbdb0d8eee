package session

import (
	"time"

	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/task"
)

// client is the group client. It exists from the first callback on.
func (s *Session) client() *broker.Group {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.group
}

// dispatch hands records to their tasks. It never blocks: between Poll and Release no callback can run.
func (s *Session) dispatch(b broker.Batch) {
	s.dispatcher.Began(time.Now())
	s.cfg.Metrics.Polled(b.Topic, b.Partition, b.Records)
	s.tasks.RLock()
	r := s.tasks.routes[partitionKey{b.Topic, b.Partition}]
	s.tasks.RUnlock()
	if r == nil {
		return // given up; the next owner, or our next membership, reads them again from the committed offset
	}
	r.task.SetEnd(r.input, b.LastStableOffset)
	waiting, ok := r.task.Enqueue(r.input, b.Records)
	if !ok {
		return
	}
	if waiting > s.intake.high() {
		// In this order: a resume that comes between the two finds no reason to clear, and the reading below sees the drained queue.
		s.pauses.set(b.Topic, b.Partition, queueFull)
		if r.task.Waiting(r.input) < s.intake.low() {
			s.resume(b.Topic, b.Partition)
		}
	}
	r.worker.Wake()
}

// resume lets a partition be fetched again if its full queue had stopped it.
func (s *Session) resume(topic string, partition int32) { s.pauses.clear(topic, partition, queueFull) }

// retrying pauses a task's inputs while it waits long for the next attempt of a record, and resumes them.
func (s *Session) retrying(t *task.Task, waits bool) {
	s.tasks.RLock() // a task that was given up meanwhile must not pause the one that follows it
	defer s.tasks.RUnlock()
	for _, in := range t.Spec.Inputs {
		r := s.tasks.routes[partitionKey{in.Topic, in.Partition}]
		switch {
		case r == nil || r.task != t:
		case waits:
			s.pauses.set(in.Topic, in.Partition, retrying)
		default:
			s.pauses.clear(in.Topic, in.Partition, retrying)
		}
	}
}
