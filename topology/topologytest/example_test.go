package topologytest_test

import (
	"fmt"
	"log"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// A test of a topology: pipe records in, look at what comes out and at what died.
func Example() {
	payments := topology.Topic("payments", schemas.String(), schemas.Int64())
	large := topology.Topic("large-payments", schemas.String(), schemas.Int64())

	b := topology.NewBuilder("watch", topology.DeadLetters("payments.dead"))
	topology.From(b, payments).
		Filter("large", func(r topology.Record[string, int64]) (bool, error) {
			if r.Value < 0 {
				return false, topology.Fail(topology.Validation, schemas.Reason("amount is negative"))
			}
			return r.Value >= 1000, nil
		}).
		Into(large)
	t, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}

	d, err := topologytest.New(t, topologytest.Partitions(3))
	if err != nil {
		log.Fatal(err)
	}
	for i, amount := range []int64{20, 5000, -1} {
		if err := topologytest.Pipe(d, payments, fmt.Sprintf("payment-%d", i), amount); err != nil {
			log.Fatal(err)
		}
	}
	records, err := topologytest.Output(d, large)
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range records {
		fmt.Println(r.Key, r.Value)
	}
	letters, err := d.DeadLetters()
	if err != nil {
		log.Fatal(err)
	}
	for _, l := range letters {
		fmt.Printf("%s died in node %s: %s: %s\n", l.Key, l.Info.Node, l.Info.Class, l.Info.Message)
	}
	// Output:
	// payment-1 5000
	// payment-2 died in node large: validation: amount is negative
}
