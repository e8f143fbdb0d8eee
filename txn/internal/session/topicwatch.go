package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/txn/internal/topics"
	"github.com/onceward/onceward/txn/internal/worker"
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
		problems, err := s.lookAtTopics(ctx)
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

// lookAtTopics returns all problems of topics. It ends the session if sources by pattern have new
// topics, so that the next one reads them.
func (s *Session) lookAtTopics(ctx context.Context) ([]topics.Problem, error) {
	problems, err := topics.Watch(ctx, s.cfg.Cluster, s.cfg.Topology, s.cfg.Layout)
	if err != nil {
		return problems, err
	}
	bound, left, err := topics.Bind(ctx, s.cfg.Cluster, s.cfg.Topology)
	if err != nil && !errors.Is(err, topics.ErrAbsent) { // what is absent is among the problems
		return nil, err
	}
	if err == nil {
		if fresh := topics.Fresh(s.cfg.Topology, bound); len(fresh) > 0 {
			s.endPoll(fmt.Errorf("%w: %s", errMatched, strings.Join(fresh, ", ")))
		}
	}
	return append(problems, left...), nil
}

// errMatched ends a session so that the next one reads new topics.
var errMatched = fmt.Errorf("%w: patterns match new topics", worker.ErrReopen)

// haltUsers stops the tasks that cannot go on because of a problem. One that has stopped already
// keeps its reason.
func (s *Session) haltUsers(p topics.Problem) {
	for _, id := range s.tasks.Tasks() {
		if slices.Contains(p.Stops, id.Subtopology) {
			s.haltTask(id, fmt.Errorf("%w%s", p.Err, s.positionIn(id, p.Topic)))
		}
	}
}
