package pipeline_test

import (
	"fmt"
	"log"

	"github.com/onceward/onceward/cmd/pipeline"
	"github.com/onceward/onceward/topology/topologytest"
)

// A pipeline is a topology like any other: it can be described, tested in memory, and run by
// package txn.
func ExampleLoad() {
	t, err := pipeline.Load("testdata/balances.yaml")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(t.Describe())

	d, err := topologytest.New(t)
	if err != nil {
		log.Fatal(err)
	}
	for _, payment := range []string{
		`{"payment_id": "p1", "cents": 1250}`,
		`{"payment_id": "p2", "cents": 300}`,
		`{"payment_id": "p1", "cents": 1250}`, // delivered twice
	} {
		if err := d.PipeRaw("payments", []byte("account-7"), []byte(payment)); err != nil {
			log.Fatal(err)
		}
	}
	balances, err := d.OutputRaw("balances")
	if err != nil {
		log.Fatal(err)
	}
	for _, b := range balances {
		fmt.Printf("%s %s\n", b.Key, b.Value)
	}
	// Output:
	// Topologies:
	//    Sub-topology: payments
	//     Source: payments-source (topics: [payments])
	//       --> balances
	//     Processor: balances (stores: [balances-balances, balances-contributions])
	//       --> balances-into-sink
	//       <-- payments-source
	//     Sink: balances-into-sink (topic: balances)
	//       <-- balances
	//
	// account-7 {"count":1,"amounts":{"cents":1250},"contribution":"p1"}
	// account-7 {"count":2,"amounts":{"cents":1550},"contribution":"p2"}
}

// All mistakes come at once, each with its place.
func ExampleParse() {
	_, err := pipeline.Parse("payments.yaml", []byte(`
name: payments
source: {topic: payments, vlaue: json}
steps:
  - filter: {name: large, where: evnt.cents > 10000}
  - sink: {topic: large-payments}
`))
	fmt.Println(err)
	// Output:
	// payments.yaml:3:27: source: unknown key "vlaue"; did you mean "value"?
	// payments.yaml:5:34: steps[0].filter.where: undeclared reference to 'evnt' (did you mean 'event'?)
}

// Each shop writes to a topic of its own. A topic that is created while the pipeline runs is read
// from its first record. The counts are in memory.
func ExampleParse_pattern() {
	top, err := pipeline.Parse("shops.yaml", []byte(`
name: shops
source: {name: sales, pattern: 'sales\..+'}
steps:
  - rekey: {name: by-customer, key: event.customer, partitions: 6}
  - count: {name: totals, in_memory: true}
  - sink: {topic: totals}
`))
	if err != nil {
		log.Fatal(err)
	}
	d, err := topologytest.New(top)
	if err != nil {
		log.Fatal(err)
	}
	for _, shop := range []string{"sales.berlin", "sales.lisbon"} {
		if err := d.CreateTopic(shop, 2); err != nil {
			log.Fatal(err)
		}
		if err := d.PipeRaw(shop, nil, []byte(`{"customer": "ann"}`)); err != nil {
			log.Fatal(err)
		}
	}
	totals, err := d.OutputRaw("totals")
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range totals {
		fmt.Printf("%s %s\n", r.Key, r.Value)
	}
	// Output:
	// ann {"count":1}
	// ann {"count":2}
}
