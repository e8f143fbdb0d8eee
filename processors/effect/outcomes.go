package effect

import (
	"github.com/onceward/onceward/processors/decision"
	"github.com/onceward/onceward/topology"
)

// outlets are the ways of results.
type outlets[K any] struct {
	completed, failed, unknown, inProgress, suppressed topology.OutletOf[K, Result]
}

// declareOutcomes declares the node that sends every result its way.
func declareOutcomes[K any](results topology.Stream[K, Result], name string) (outlets[K], decision.Outlet) {
	node := topology.Stateful(results, name+"-outcomes")
	out := outlets[K]{
		completed:  topology.Outlet[K, Result](node, "completed"),
		failed:     topology.Outlet[K, Result](node, "failed"),
		unknown:    topology.Outlet[K, Result](node, "unknown"),
		inProgress: topology.Outlet[K, Result](node, "in-progress"),
		suppressed: topology.Outlet[K, Result](node, "suppressed"),
	}
	decisions := decision.Declare(node)
	node.Process(func(t *topology.Setup) (topology.Handler[K, Result], error) {
		completed, failed, unknown := out.completed.In(t), out.failed.In(t), out.unknown.In(t)
		inProgress, suppressed := out.inProgress.In(t), out.suppressed.In(t)
		log := decisions.In(t)
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
			if log != nil && !r.Value.Replayed { // the answer to a duplicate is a decision about the request, and no second fact
				err := log(c, decision.Decision{
					Outcome: r.Value.Status.String(), Reason: r.Value.Reason, Store: name,
					Row: []byte(r.Value.ID), Subject: r.Value.ID,
				})
				if err != nil {
					return err
				}
			}
			return emit(c, r)
		}, nil
	})
	return out, decisions
}
