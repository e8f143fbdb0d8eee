package topology_test

import (
	"fmt"
	"log"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// A processor node with a store, a counter and two outlets. Where nobody listens to the second one, a
// conflict is an error instead.
func ExampleStateful() {
	type claim = topology.Record[string, string]
	claims := topology.Topic("claims", schemas.String(), schemas.String())
	granted := topology.Topic("granted", schemas.String(), schemas.String())
	owners := topology.Store("owners", schemas.String(), schemas.String())

	b := topology.NewBuilder("seats", topology.DeadLetters("claims.dead"))
	node := topology.Stateful(topology.From(b, claims), "seats", owners)
	first := topology.Outlet[string, string](node, "first")
	late := topology.Outlet[string, string](node, "late")
	node.Process(func(t *topology.Setup) (topology.Handler[string, string], error) {
		owners, grant, refuse := owners.In(t), first.In(t), late.In(t)
		repeated := t.Counter("repeated")
		return func(c *topology.Context, r claim) error {
			owner, taken, err := owners.PutIfAbsent(r.Key, r.Value)
			switch {
			case err != nil:
				return err
			case !taken:
				return grant(c, r)
			case owner == r.Value:
				repeated.Inc()
				return nil
			case late.Connected():
				return refuse(c, r)
			}
			return topology.Fail(topology.Conflict, schemas.Reason("the seat is taken"))
		}, nil
	})
	first.Stream().Into(granted)

	t, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}
	d, err := topologytest.New(t)
	if err != nil {
		log.Fatal(err)
	}
	for _, name := range []string{"ada", "ada", "bob"} {
		if err := topologytest.Pipe(d, claims, "12a", name); err != nil {
			log.Fatal(err)
		}
	}
	records, err := topologytest.Output(d, granted)
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range records {
		fmt.Println("granted:", r.Key, r.Value)
	}
	for _, c := range d.Counts() {
		fmt.Println("counted:", c.Node, c.Outcome, c.N)
	}
	// Output:
	// granted: 12a ada
	// counted: seats dead-letter-conflict 1
	// counted: seats repeated 1
}

// The short form of a node with one store and one outlet.
func ExampleProcess() {
	type text = topology.Record[string, string]
	last := topology.Store("last", schemas.String(), schemas.String())
	b := topology.NewBuilder("changes")
	topology.Process(topology.From(b, said), "changed", last, func(
		c *topology.Context, last state.KeyValue[string, string], r text, emit topology.Emit[string, string],
	) error {
		before, known, err := last.Get(r.Key)
		if err != nil || known && before == r.Value {
			return err
		}
		if err := last.Put(r.Key, r.Value); err != nil {
			return err
		}
		return emit(c, r)
	}).Into(heard)
	run(b, heard, send(said, "ann", "hello"), send(said, "ann", "hello"), send(said, "ann", "bye"))
	// Output:
	// ann hello
	// ann bye
}
