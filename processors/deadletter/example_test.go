package deadletter_test

import (
	"fmt"

	"github.com/onceward/onceward/processors/deadletter"
	"github.com/onceward/onceward/processors/inbox"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

func Example() {
	orders := topology.Topic("orders", schemas.String(), schemas.Int64())
	dead := topology.Topic("orders.dead", schemas.Bytes(), schemas.Bytes())

	b := topology.NewBuilder("shop", topology.DeadLetters(dead.Name()))
	kinds := topology.From(b, orders).Split("kinds")
	free := kinds.Case("free", func(r topology.Record[string, int64]) (bool, error) { return r.Value <= 0, nil })
	kinds.Otherwise("paid")
	deadletter.Send(free, "refuse-free", topology.Validation, "the price is not positive")
	shop, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	d, err := topologytest.New(shop)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, price := range []int64{10, 0} {
		if err := topologytest.Pipe(d, orders, "order-7", price); err != nil {
			fmt.Println(err)
			return
		}
	}

	// The records that a reader of the dead-letter topic gets.
	records, err := topologytest.Output(d, dead)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range records {
		letter, err := deadletter.Parse(r)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s, offset %d: %s\n", letter.Origin.Topic, letter.Origin.Offset, letter.Message)
		fmt.Printf("class %s, node %s, %d bytes of value\n", letter.Class, letter.Node, len(letter.Value))
	}
	// Output:
	// orders, offset 1: the price is not positive
	// class validation, node refuse-free, 8 bytes of value
}

// A conflict of an inbox dies with a reason of the program's own.
func ExampleSend() {
	captures := topology.Topic("captures", schemas.String(), schemas.Int64())
	b := topology.NewBuilder("payments", topology.DeadLetters("captures.dead"))
	id := func(r topology.Record[string, int64]) (string, error) { return r.Key, nil }
	once := inbox.Dedupe(topology.From(b, captures), "inbox", id, inbox.Forever(), inbox.EmitConflicts())
	deadletter.Send(once.Conflicts(), "disputed", topology.Conflict, "two amounts under one capture id")
	payments, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	d, err := topologytest.New(payments)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, amount := range []int64{100, 100, 999} {
		if err := topologytest.Pipe(d, captures, "capture-7", amount); err != nil {
			fmt.Println(err)
			return
		}
	}
	letters, err := d.DeadLetters()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, l := range letters {
		fmt.Printf("%s at node %s, offset %d: %s\n", l.Info.Class, l.Info.Node, l.Info.Origin.Offset, l.Info.Message)
	}
	// Output: conflict at node disputed, offset 2: two amounts under one capture id
}
