package evidence_test

import (
	"fmt"

	"github.com/onceward/onceward/processors/evidence"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

func ExampleRecord() {
	b := topology.NewBuilder("orders")
	decisions := judge(b).Stream() // every processor has a method Decisions
	evidence.Record(decisions, "judge-audit", evidence.Topic("orders.audit"))
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
	if err := topologytest.Pipe(d, ordersTopic, "o1", "placed"); err != nil {
		fmt.Println(err)
		return
	}
	entries, err := topologytest.Output(d, evidence.Topic("orders.audit"))
	if err != nil {
		fmt.Println(err)
	}
	for _, r := range entries {
		e := r.Value
		fmt.Printf("%s: %s by %s, from %s[%d]@%d, %s\n", r.Key, e.Outcome, e.Node, e.Topic, e.Partition, e.Offset, e.Mode)
	}
	// Output: o1: accepted by judge, from orders[0]@0, LIVE
}
