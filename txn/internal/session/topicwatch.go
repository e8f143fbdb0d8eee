package session

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/onceward/onceward/txn/internal/topics"
)

// The clients say little of a topic that is gone. Fetches of it and writes to it are tried again
// for ever or for long, and partitions that no task reads are not fetched. So a session looks at
// all topics by itself (protocol rules 11.1 and 11.2): every problem is an alert, and the tasks
// that cannot continue without a topic stop (rule 10.5).

const (
	// topicsEvery is how often the topics are looked at, topicsAgain how soon while something seems
	// to be wrong.
	topicsEvery = 10 * time.Second
	topicsAgain = 2 * time.Second
)

// topicWatch decides which problems are believed. It belongs to one goroutine.
type topicWatch struct {
	seen map[topicProblem]time.Time
}

type topicProblem struct {
	topic string
	kind  topics.Kind
}

// believe returns the problems that every look has shown for topics.AbsentMax: what one broker
// knows can be old for a moment. Added partitions are believed at once, because an old answer has
// fewer. doubt says that there are others.
func (w *topicWatch) believe(problems []topics.Problem, at time.Time) (believed []topics.Problem, doubt bool) {
	before := w.seen
	w.seen = map[topicProblem]time.Time{}
	for _, p := range problems {
		key := topicProblem{p.Topic, p.Kind}
		since, known := before[key]
		if !known {
			since = at
		}
		w.seen[key] = since
		if p.Kind == topics.NotRead || at.Sub(since) >= topics.AbsentMax {
			believed = append(believed, p)
		} else {
			doubt = true
		}
	}
	return believed, doubt
}

// watchTopics looks at the topics until the session ends.
func (s *Session) watchTopics() {
	var watch topicWatch
	timer := time.NewTimer(topicsEvery)
	defer timer.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-timer.C:
		}
		next := topicsEvery
		ctx, cancel := context.WithTimeout(s.ctx, topicsEvery)
		problems, err := topics.Watch(ctx, s.cfg.Cluster, s.cfg.Topology, s.cfg.Layout)
		cancel()
		switch {
		case s.ctx.Err() != nil:
			return
		case err != nil:
			s.cfg.Logger.Debug("the topics could not be looked at", "error", err)
		default:
			believed, doubt := watch.believe(problems, time.Now())
			s.cfg.Alert(believed)
			for _, p := range believed {
				s.haltUsers(p)
			}
			if doubt {
				next = topicsAgain
			}
		}
		timer.Reset(next)
	}
}

// haltUsers stops the tasks that cannot go on because of a problem. One that has stopped already
// keeps its reason.
func (s *Session) haltUsers(p topics.Problem) {
	for _, id := range s.tasks.Tasks() {
		if slices.Contains(p.Stops, id.Subtopology) {
			s.haltTask(id, fmt.Errorf("%w%s", p.Err, s.positionIn(id, p.Topic)))
		}
	}
}
