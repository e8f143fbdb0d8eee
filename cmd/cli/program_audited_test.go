package cli_test

import (
	"github.com/onceward/onceward/processors/decision"
	"github.com/onceward/onceward/processors/evidence"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// auditedTopology decides about every record, and writes evidence of it. The value no fails.
func auditedTopology() *topology.Topology {
	b := topology.NewBuilder("audited", topology.DeadLetters("dead"))
	node := topology.Stateful(topology.From(b, topology.Topic("in", schemas.String(), schemas.String())), "judge")
	node.Clause(topology.OnDuplicate, "it is judged again")
	out := decision.Declare(node)
	node.Process(func(t *topology.Setup) (topology.Handler[string, string], error) {
		log := out.In(t)
		return func(c *topology.Context, r topology.Record[string, string]) error {
			if r.Value == "no" {
				return topology.Fail(topology.Validation, schemas.Reason("asked to"))
			}
			return log(c, decision.Decision{
				Outcome: "accepted", Reason: "why not", Store: "rows", Row: []byte(r.Key), Subject: "s1",
				After: topology.Some(int64(1)),
			})
		}, nil
	})
	evidence.Record(out.Stream(), "judge-audit", evidence.Topic("audit"))
	return mustBuild(b)
}
