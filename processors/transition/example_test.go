package transition_test

import (
	"fmt"

	"github.com/onceward/onceward/processors/transition"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

func ExampleGuard() {
	type Status string
	const (
		Placed, Paid, Shipped, Cancelled Status = "placed", "paid", "shipped", "cancelled"
	)
	type Step struct {
		ID   string `json:"id"`
		From Status `json:"from"`
		To   Status `json:"to"`
	}
	type (
		Fact    = transition.Fact[Status]
		Refused = transition.Refused[Status, Step]
	)
	steps := topology.Topic("order-steps", schemas.String(), schemas.JSON[Step]())
	facts := topology.Topic("order-facts", schemas.String(), schemas.JSON[Fact]())
	refusals := topology.Topic("order-refusals", schemas.String(), schemas.JSON[Refused]())

	machine := transition.Machine[Status]{
		Initial: []Status{Placed},
		Next: map[Status][]Status{
			Placed: {Paid, Cancelled}, Paid: {Shipped}, Shipped: nil, Cancelled: nil,
		},
	}
	read := func(r topology.Record[string, Step]) (transition.Transition[Status], error) {
		return transition.Transition[Status]{ID: r.Value.ID, From: r.Value.From, To: r.Value.To}, nil
	}
	b := topology.NewBuilder("orders", topology.DeadLetters("orders.dead"))
	orders := transition.Guard(topology.From(b, steps), "orders", machine, read, transition.EmitRefused())
	orders.Facts().Into(facts)
	orders.Refused().Into(refusals)
	t, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}

	d, err := topologytest.New(t)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, step := range []Step{
		{"s1", "", Placed},
		{"s3", Paid, Shipped}, // too early
		{"s2", Placed, Paid},
		{"s2", Placed, Paid},      // again
		{"s4", Placed, Cancelled}, // too late
		{"s3", Paid, Shipped},
	} {
		if err := topologytest.Pipe(d, steps, "order-7", step); err != nil {
			fmt.Println(err)
			return
		}
	}
	accepted, err := topologytest.Output(d, facts)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range accepted {
		fmt.Printf("%s %d: %q to %q\n", r.Value.ID, r.Value.Version, r.Value.From, r.Value.To)
	}
	refused, err := topologytest.Output(d, refusals)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range refused {
		fmt.Printf("%s is %s: %s\n", r.Value.Transition.ID, r.Value.Refusal, r.Value.Reason)
	}
	// Output:
	// s1 1: "" to "placed"
	// s2 2: "placed" to "paid"
	// s3 3: "paid" to "shipped"
	// s3 is out-of-order: the aggregate has not come to the state that the transition leaves
	// s2 is duplicate: the transition was accepted before
	// s4 is stale: the aggregate has left the state that the transition leaves
}
