package envelope_test

import (
	"fmt"

	"github.com/onceward/onceward/processors/envelope"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

func ExampleCaused() {
	orders := topology.Topic("orders", schemas.String(), schemas.String())
	invoices := topology.Topic("invoices", schemas.String(), schemas.String())
	b := topology.NewBuilder("shop", topology.DeadLetters("shop.dead"))
	envelope.Caused(topology.From(b, orders), "invoice", envelope.EventID[string, string]).Into(invoices)
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
	if err := topologytest.Pipe(d, orders, "order-7", "two books", topologytest.Header("ce_id", "event-1")); err != nil {
		fmt.Println(err)
		return
	}
	records, err := topologytest.Output(d, invoices)
	if err != nil {
		fmt.Println(err)
		return
	}
	ids := envelope.Of(records[0])
	fmt.Println(ids.CausationID, ids.MessageID == envelope.DerivedID("event-1", "invoice"))
	// Output: event-1 true
}
