package effect

import (
	"github.com/onceward/onceward/processors/decision"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// outlets are the ways of results.
type outlets[K any] struct {
	completed, failed, unknown, inProgress, suppressed topology.OutletOf[K, Result]
}

// errEvidence stops the task: a dead letter would be one of a claim, and leave its effects open for
// ever.
const errEvidence = schemas.Reason("what was to take the evidence of an effect has refused it")

// declareEvidence declares the node that emits the outcomes of effects, in the round in which they
// are written. It is beside the topic of the results: a node that fails on a result takes nothing
// of the evidence away.
func declareEvidence[K any](results topology.Stream[K, Result], name string) decision.Outlet {
	node := topology.Stateful(results, name+"-outcomes")
	decisions := decision.Declare(node)
	node.Process(func(t *topology.Setup) (topology.Handler[K, Result], error) {
		log := decisions.In(t)
		return func(c *topology.Context, r topology.Record[K, Result]) error {
			if log == nil || r.Value.Replayed { // the answer to a duplicate is a decision about the request, and no second fact
				return nil
			}
			refused, err := c.Try(func() error {
				return log(c, decision.Decision{
					Outcome: r.Value.Status.String(), Reason: r.Value.Reason, Store: name,
					Row: []byte(r.Value.ID), Subject: r.Value.ID,
				})
			})
			if err == nil && refused != nil {
				err = topology.Fail(topology.Fatal, errEvidence+": "+schemas.Reason(refused.Error()))
			}
			return err
		}, nil
	})
	return decisions
}

// declareAnswers declares the node that sends every result its way.
func declareAnswers[K any](results topology.Stream[K, Result], name string) outlets[K] {
	node := topology.Stateful(results, name+"-answers").Copartitioned() // it emits what it gets
	out := outlets[K]{
		completed:  topology.Outlet[K, Result](node, "completed"),
		failed:     topology.Outlet[K, Result](node, "failed"),
		unknown:    topology.Outlet[K, Result](node, "unknown"),
		inProgress: topology.Outlet[K, Result](node, "in-progress"),
		suppressed: topology.Outlet[K, Result](node, "suppressed"),
	}
	node.Process(func(t *topology.Setup) (topology.Handler[K, Result], error) {
		completed, failed, unknown := out.completed.In(t), out.failed.In(t), out.unknown.In(t)
		inProgress, suppressed := out.inProgress.In(t), out.suppressed.In(t)
		return func(c *topology.Context, r topology.Record[K, Result]) error {
			emit := inProgress
			switch {
			case r.Value.Status == Completed:
				emit = completed
			case r.Value.Status == FailedTerminal:
				emit = failed
			case r.Value.Status == Suppressed:
				emit = suppressed
			case r.Value.Status == Unknown && !r.Value.Replayed:
				emit = unknown
			}
			return emit(c, r)
		}, nil
	})
	return out
}
