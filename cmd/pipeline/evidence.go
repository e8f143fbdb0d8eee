package pipeline

import (
	"github.com/onceward/onceward/processors/decision"
	"github.com/onceward/onceward/processors/evidence"
	"github.com/onceward/onceward/topology"
)

// evidenceOf writes the decisions of one step down. The zero value does not.
type evidenceOf struct{ node, topic string }

// evidenceOf claims the names of the node that writes the evidence of a step, if the pipeline has a
// topic for it.
func (r *reader) evidenceOf(step string) evidenceOf {
	r.decides = true
	e := evidenceOf{node: step + "-evidence", topic: r.evidence.Text()}
	if e.topic == "" || step == "" {
		return evidenceOf{}
	}
	r.claim(e.node, r.evidence)
	r.claim(e.node+"-sink", r.evidence)
	return e
}

func (e evidenceOf) record(decisions func() topology.Stream[[]byte, decision.Decision]) {
	if e.topic != "" {
		evidence.Record(decisions(), e.node, evidence.Topic(e.topic))
	}
}
