package topology

import (
	"fmt"
	"time"

	"github.com/onceward/onceward/topology/graph"
)

// RetryTopics gives a source delayed retry topics, one for each delay:
// <application>-<topic>.retry-<delay>-repartition. A record that fails with an error whose [Policy]
// is Delay goes to the first retry topic, after its second failure to the second, and so on. The
// last one serves all further attempts.
//
// The same task reads the record again once the delay is over, from the same partition. It
// processes the record as if it had just been read from its source: with the original position,
// timestamp and headers, and with its attempts, which the record carries.
//
// Everything else goes on meanwhile, the later records of the same key included: the order is given
// up. Where it counts, keys are parked instead ([ParkKeys]).
//
// Retry topics are internal topics: created by the application, and purged behind the committed
// offsets. A record that is too large for its retry topic becomes a dead letter, or stops the task
// if there is no dead-letter topic. Its size there includes the stored attempts and position.
//
// Delays are whole milliseconds, and all different. Keep the option, without the policies, until
// the topics are empty.
func RetryTopics(delays ...time.Duration) SourceOption {
	return sourceOption(func(s *sourceSettings) { s.delays = delays })
}

// addRetryTopics declares the sources of the delayed retry topics of n.
func (n *node) addRetryTopics(b *Builder, delays []time.Duration) {
	for i, delay := range delays {
		switch {
		case delay < time.Millisecond || delay%time.Millisecond != 0:
			b.mistakeAt(n.pos, n.name, fmt.Errorf("RetryTopics(%s): a delay is in whole milliseconds, at least one", delay))
			continue
		case i > 0 && delay <= delays[i-1]:
			b.mistakeAt(n.pos, n.name,
				fmt.Errorf("RetryTopics: %s does not come after %s; each delay is longer than the one before it",
					delay, delays[i-1]))
			continue
		}
		ref := topicRef{name: n.topic.name + graph.RetryInfix + delay.String(), repartition: true, formats: n.topic.formats}
		if err := graph.CheckName(ref.name); err != nil {
			b.mistakeAt(n.pos, n.name, fmt.Errorf("name of a retry topic: %w", err))
			continue
		}
		retry := b.add(&node{
			kind: sourceNode, name: ref.local() + graph.SourceSuffix, pos: n.pos, topic: ref, of: n, delay: delay, rows: n.rows,
		}, nil)
		n.retries = append(n.retries, retry)
	}
}

// checkAgain reports policies without the means for them: each source of a node that parks or
// delays needs the store or the topics.
func (b *Builder) checkAgain() {
	for _, s := range divide(b.nodes) {
		for _, action := range []Action{Park, Delay} {
			for _, n := range s.nodes {
				class, ok := b.classWith(n, action)
				if !ok {
					continue
				}
				without := n.sourceWithout(action)
				if without == nil {
					continue
				}
				what := "park the record, and the source %s (%s:%d) has no store for that; give it the option ParkKeys"
				if action == Delay {
					what = "delay the record, and the source %s (%s:%d) has no topics for that; give it the option RetryTopics"
				}
				if without.topic.pattern != nil {
					what = "park or delay the record, and the source by pattern %s (%s:%d) can do neither; put Repartition before the node"
				}
				b.mistakeAt(n.pos, n.name,
					fmt.Errorf("errors of class %s "+what, class, without.name, without.pos.file, without.pos.line))
				break // one for each subtopology says it all
			}
		}
	}
}

// sourceWithout returns a source of which records come to n, and could not be parked, or delayed;
// nil if there is none. Other sources of the subtopology do not count: that of an internal topic,
// which users cannot give an option, is often among them.
func (n *node) sourceWithout(action Action) *node {
	met := map[*node]bool{n: true}
	for above := []*node{n}; len(above) > 0; {
		a := above[0]
		above = above[1:]
		if a.kind == sourceNode && a.of == nil && (action == Park && a.parked == "" || action == Delay && len(a.retries) == 0) {
			return a
		}
		for _, parent := range a.parents {
			if !met[parent.node] {
				met[parent.node] = true
				above = append(above, parent.node)
			}
		}
	}
	return nil
}

// classWith returns a class for whose errors the node has that action.
func (b *Builder) classWith(n *node, action Action) (Class, bool) {
	for c := Transient; c <= Fatal; c++ {
		policy, own := n.policies[c]
		if !own {
			policy = b.policies[c]
		}
		if policy.Action == action {
			return c, true
		}
	}
	return 0, false
}

// retryTopic is a delayed retry topic that a graph writes.
type retryTopic struct {
	*sink
	delay time.Duration
}

func (g *Graph) newRetryTopics(n *node) ([]retryTopic, error) {
	var out []retryTopic
	for _, r := range n.retries {
		s, err := g.newSink(r)
		if err != nil {
			return nil, err
		}
		out = append(out, retryTopic{s, r.delay})
	}
	return out, nil
}

// retry returns the topic for a record that has failed so often.
func (s *graphSource) retry(attempts int) retryTopic {
	return s.retries[min(attempts, len(s.retries))-1]
}

// delay returns the verdict that sends the record at work to a retry topic. It is false if the
// topic does not take it.
func (g *Graph) delay(to retryTopic, f *Failure) (graph.Verdict, bool) {
	in, now := &g.in, g.config.Now()
	first := in.FirstFailure
	if first.IsZero() {
		first = now
	}
	out := graph.Output{
		Topic: to.topic, Partition: g.id.Partition,
		Timestamp: now.UnixMilli(), // not when it is due: brokers refuse what is far ahead
		Key:       in.Key, Value: in.Value,
		Headers: append(append(make([]Header, 0, len(in.Headers)+1), in.Headers...), graph.DelayedHeader(in, f.Attempt, first)),
	}
	if to.check(&out) != nil {
		f.Note = "the record is too large to be delayed"
		return graph.Verdict{}, false
	}
	g.outputs = append(g.outputs[:0], out)
	node := f.Node
	g.counts = append(g.counts[:0], graph.OutcomeCount{Node: node, Outcome: delayedOutcomes[f.Class], N: 1})
	return graph.Verdict{Action: Delay, Outputs: g.outputs, Counts: g.counts, Failure: f, Backoff: to.delay}, true
}

// delayedOutcomes are what a record is counted as when it is delayed.
var delayedOutcomes = func() (outcomes [classes]string) {
	for c := Transient; c <= Fatal; c++ {
		outcomes[c] = "delayed-" + c.String()
	}
	return outcomes
}()

// processDelayed runs a record of a delayed retry topic as the one that it was.
func (g *Graph) processDelayed(s *graphSource) graph.Verdict {
	in := g.in
	if err := graph.RestoreDelayed(&in); err != nil {
		_ = g.fail(nil, Fail(Poison, err))
		return g.conclude()
	}
	in.Topic = s.of
	in.StreamTime = max(in.StreamTimeBefore, in.Timestamp)
	g.in, g.eventTime = in, in.Timestamp
	source := g.source(in.Topic)
	held := false
	var v graph.Verdict
	if source != nil && source.parking != nil {
		v, held = source.parking.hold()
	}
	if !held {
		g.run(source)
		v = g.conclude()
	}
	v.Released = in.Topic
	return v
}
