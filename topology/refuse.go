package topology

import (
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology/graph"
)

// Refuse returns the verdict for a record whose output the cluster has refused for good, as if the
// node that wrote it had failed with a Validation error: the record itself is not processed. The
// runtime calls it for the one record that it has found guilty, since a refusal comes long after
// Process has returned.
//
// what is shown in logs and in the dead letter, so it must quote nothing of the record. An action
// of Retry is possible if the policy for Validation says so; where it says Park, the record becomes
// a dead letter. For a record that was parked and is tried again there is [Punctuation.Refuse].
func (g *Graph) Refuse(in graph.Input, what string) graph.Verdict {
	g.begin(&in)
	if s := g.source(in.Topic); s != nil && s.of != "" && graph.RestoreDelayed(&g.in) == nil {
		g.in.Topic = s.of // it dies as the record that it was
	}
	g.unparkable = true
	_ = g.fail(nil, Fail(Validation, schemas.Reason(what)))
	return g.judge()
}
