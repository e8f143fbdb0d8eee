package topology_test

import (
	"fmt"
	"log"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// Each shop writes to a topic of its own. The count is per customer over all shops, and a new shop
// needs no new version of the program.
func ExampleFromPattern() {
	totals := topology.Topic("totals", schemas.String(), schemas.Int64())
	store := topology.TimestampedStore("totals", schemas.String(), schemas.Int64())

	b := topology.NewBuilder("shops")
	sales := topology.FromPattern(b, "sales", `sales\..+`, schemas.String(), schemas.String())
	byCustomer := sales.Repartition("sales-by-customer", topology.Partitions(6))
	topology.Count(byCustomer, store).Into(totals)
	t, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}
	d, err := topologytest.New(t, topologytest.TopicPartitions("sales.berlin", 2))
	if err != nil {
		log.Fatal(err)
	}
	sell := func(topic, customer, what string) {
		if err := topologytest.Pipe(d, topology.Topic(topic, schemas.String(), schemas.String()), customer, what); err != nil {
			log.Fatal(err)
		}
	}
	sell("sales.berlin", "ann", "tea")
	if err := d.CreateTopic("sales.lisbon", 1); err != nil {
		log.Fatal(err)
	}
	sell("sales.lisbon", "ann", "coffee")
	counted, err := topologytest.Output(d, totals)
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range counted {
		fmt.Println(r.Key, r.Value)
	}
	// Output:
	// ann 1
	// ann 2
}
