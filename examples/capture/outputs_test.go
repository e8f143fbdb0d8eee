package capture

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/processors/effect"
	"github.com/onceward/onceward/processors/evidence"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// told are the topics that say what has become of requests.
var told = []string{TopicCaptured, TopicRefused, TopicHeld, TopicPeople, TopicAudit, TopicDead}

// seen is what the application has told, as a reader of committed records sees it.
type seen struct {
	prefix string
	// decisions are those of the evidence.
	decisions decisionCounts
	// ends are what each capture has come to, each time that this was told without being asked
	// again.
	ends map[string][]effect.Status
	// dead counts dead letters by their class.
	dead map[topology.Class]int
	// asked are the captures that people were asked about.
	asked []question
}

// question is what people are asked: what has become of a capture.
type question struct {
	key    []byte
	result effect.Result
}

func newSeen(prefix string) *seen {
	return &seen{prefix: prefix, decisions: newDecisionCounts(), ends: map[string][]effect.Status{}, dead: map[topology.Class]int{}}
}

// take takes a record of one of the topics.
func (s *seen) take(r *kgo.Record) error {
	switch r.Topic {
	case s.prefix + TopicAudit:
		e, err := evidence.Decode(r.Key, r.Value)
		if err == nil {
			s.decisions.add(decisionOf(e), e.Subject)
		}
		return err
	case s.prefix + TopicDead:
		headers := make([]topology.Header, len(r.Headers))
		for i, h := range r.Headers {
			headers[i] = topology.Header{Key: h.Key, Value: h.Value}
		}
		info, err := graph.ParseDeadLetter(headers)
		s.dead[info.Class]++
		return err
	default:
		v, err := schemas.JSON[effect.Result]().Decode(r.Value)
		switch {
		case err != nil || v.Replayed:
		case r.Topic == s.prefix+TopicPeople:
			s.asked = append(s.asked, question{r.Key, v})
		default:
			s.ends[v.ID] = append(s.ends[v.ID], v.Status)
		}
		return err
	}
}

// read reads everything that the application has told so far.
func read(t *testing.T, c *cluster.Cluster, prefix string) *seen {
	t.Helper()
	s := newSeen(prefix)
	for _, topic := range told {
		for _, r := range c.Records(t, prefix+topic) {
			if err := s.take(r); err != nil {
				t.Fatalf("%s[%d]@%d: %v", r.Topic, r.Partition, r.Offset, err)
			}
		}
	}
	return s
}

// follower sees what the application tells while it works.
type follower struct {
	*seen
	t      *testing.T
	client *kgo.Client
}

func follow(t *testing.T, c *cluster.Cluster, prefix string) *follower {
	t.Helper()
	var topics []string
	for _, topic := range told {
		topics = append(topics, prefix+topic)
	}
	return &follower{newSeen(prefix), t, c.Client(t, kgo.ConsumeTopics(topics...), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(50*time.Millisecond))}
}

// look takes what has been fetched. It waits for nothing.
func (f *follower) look() {
	f.t.Helper()
	fetched := f.client.PollFetches(nil) //nolint:staticcheck // without a context it does not wait
	if err := fetched.Err(); err != nil {
		f.t.Fatal(err)
	}
	fetched.EachRecord(func(r *kgo.Record) {
		if err := f.take(r); err != nil {
			f.t.Fatalf("%s[%d]@%d: %v", r.Topic, r.Partition, r.Offset, err)
		}
	})
}

// decisionCounts counts decisions.
type decisionCounts struct {
	// of counts by what was decided and by what it was about, which is a message or a capture;
	// totals by what was decided alone.
	of     map[string]map[string]int
	totals map[string]int
}

func newDecisionCounts() decisionCounts {
	return decisionCounts{map[string]map[string]int{}, map[string]int{}}
}

func (t decisionCounts) add(decision, subject string) {
	if t.of[decision] == nil {
		t.of[decision] = map[string]int{}
	}
	t.of[decision][subject]++
	t.totals[decision]++
}

// The kinds of decisions.
const (
	isAccepted  = nodeInbox + " accepted"
	isDuplicate = nodeInbox + " duplicates"
	isRequested = nodeCapture + " requested"
	// isAnswered is the answer to a repeated request: the end, or that there is none yet. Which of
	// the two depends on the timing.
	isAnswered   = nodeCapture + " answered"
	isSuppressed = nodeCapture + " suppressed"
	isEnd        = nodeCapture + "-outcomes "
	isResolved   = nodePeople + " resolved"
)

func decisionOf(e evidence.Entry) string {
	if e.Node == nodeCapture && (e.Outcome == "replayed" || e.Outcome == "in-progress") {
		return isAnswered
	}
	return e.Node + " " + e.Outcome
}

// difference returns an error that names what is not as often in got as in t.
func (t decisionCounts) difference(got decisionCounts) error {
	var differ differences
	for decision, subjects := range t.of {
		for subject, n := range subjects {
			if now := got.of[decision][subject]; now != n {
				differ.add("%s is %d times %q, want %d", subject, now, decision, n)
			}
		}
	}
	for decision, subjects := range got.of {
		for subject, n := range subjects {
			if t.of[decision][subject] == 0 {
				differ.add("%s is %d times %q, want none", subject, n, decision)
			}
		}
	}
	return differ.err()
}

// differences keeps the first ones and counts them all.
type differences struct {
	n     int
	first []error
}

func (d *differences) add(format string, args ...any) {
	if d.n++; d.n <= 10 {
		d.first = append(d.first, fmt.Errorf(format, args...))
	}
}

func (d *differences) err() error {
	if d.n == 0 {
		return nil
	}
	return fmt.Errorf("%d differences: %w", d.n, errors.Join(d.first...))
}
