package deadletter

import (
	"errors"
	"fmt"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// Send declares an end of the topology, a node of that name, at which every record becomes a dead
// letter with that class and reason; the package documentation says what that takes along.
//
// The class is Conflict, Validation or Poison: the others blame the program or its surroundings,
// and not the record. The policies of the topology do not apply to it. The reason is the same for
// all records and quotes none; it goes into headers and logs.
//
// Behind a stream whose records cannot die, such as projection.Projection.Abandoned, it is a
// mistake that Build reports.
func Send[K, V any](s topology.Stream[K, V], name string, class topology.Class, reason string) {
	node := topology.Stateful(s, name).DeadEnd()
	switch class {
	case topology.Conflict, topology.Validation, topology.Poison:
		node.OnError(class, topology.Policy{Action: topology.DeadLetter})
	default:
		node.Mistake(fmt.Errorf("%s is no class for a dead letter on purpose; it takes conflict, validation or "+
			"poison", class))
	}
	if reason == "" {
		node.Mistake(errors.New("the reason is empty; a dead letter says why it is one"))
	}
	node.Clause(topology.OnPoison, fmt.Sprintf("every record that comes here fails on purpose, of class %s: %q", class, reason))
	failure := topology.Fail(class, schemas.Reason(reason))
	node.Process(func(*topology.Setup) (topology.Handler[K, V], error) {
		return func(*topology.Context, topology.Record[K, V]) error { return failure }, nil
	})
}
