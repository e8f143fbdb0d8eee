package topics

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/broker"
)

// Tolerated returns the topics whose retention exceeds the dedupe window of a node that tolerates
// it, as the last look has found them. The caller warns about them.
func (p *Plan) Tolerated() []*Mismatch { return p.tolerated }

// verifyDedupeWindows compares how long inputs keep records with how long the nodes behind them
// know a record again. It returns what is refused, and notes what is tolerated.
func (p *Plan) verifyDedupeWindows(found map[string]broker.TopicInfo) (refused []error) {
	p.tolerated = nil
	for _, w := range p.topology.DedupeWindows() {
		for _, name := range w.Topics {
			m := outlives(found[name], w)
			switch {
			case m == nil:
			case w.Tolerated:
				p.tolerated = append(p.tolerated, m)
			default:
				refused = append(refused, m)
			}
		}
	}
	return refused
}

// outlives returns what is wrong with an input whose retention exceeds a dedupe window, nil if it
// does not, or if the cluster did not say. retention.ms is the topic's promise: it can have a
// record longer, until its segment is full.
func outlives(info broker.TopicInfo, w graph.DedupeWindow) *Mismatch {
	policy, known := info.Settings["cleanup.policy"]
	limit := strconv.FormatInt(w.Retention.Milliseconds(), 10)
	remedy := fmt.Sprintf("node %s recognises a record for %s of stream time, and the topic could bring one back after that; "+
		"give the node a longer retention, the topic a shorter one, or tolerate it", w.Node, w.Retention)
	switch {
	case !known:
		return nil
	case !strings.Contains(policy.Value, "delete"):
		return &Mismatch{Topic: info.Name, Use: "topic", Setting: "cleanup.policy", Found: policy.Value,
			Needed: "delete, with a retention.ms of at most " + limit, Remedy: remedy}
	}
	if n := number(info, "retention.ms", 0); n < 0 || n > w.Retention.Milliseconds() {
		return &Mismatch{Topic: info.Name, Use: "topic", Setting: "retention.ms", Found: strconv.FormatInt(n, 10),
			Needed: "at most " + limit, Remedy: remedy}
	}
	return nil
}
