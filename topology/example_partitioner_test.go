package topology_test

import (
	"fmt"
	"log"
	"strings"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// A topic whose partitions are regions: the first part of the key says which. An order of
// no region goes where Kafka's partitioner puts its key.
func ExamplePartitionBy() {
	regions := []string{"eu", "us", "ap"}
	byRegion := topology.PartitionBy("by-region", func(_, key, _ string, partitions int32) int32 {
		for i, region := range regions {
			if strings.HasPrefix(key, region+"/") && int32(i) < partitions {
				return int32(i)
			}
		}
		return topology.ByKey
	})
	orders := topology.Topic("orders", schemas.String(), schemas.String())
	regional := topology.Topic("regional-orders", schemas.String(), schemas.String()).PartitionedBy(byRegion)

	b := topology.NewBuilder("regions")
	topology.From(b, orders).Into(regional)
	t, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}
	d, err := topologytest.New(t, topologytest.TopicPartitions("regional-orders", 3))
	if err != nil {
		log.Fatal(err)
	}
	for _, key := range []string{"us/1", "ap/2", "eu/3"} {
		if err := topologytest.Pipe(d, orders, key, "tea"); err != nil {
			log.Fatal(err)
		}
	}
	raw, err := d.OutputRaw("regional-orders")
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range raw {
		fmt.Printf("%s in partition %d\n", r.Key, r.Partition)
	}
	// Output:
	// us/1 in partition 1
	// ap/2 in partition 2
	// eu/3 in partition 0
}

// A partitioner that goes by a part of the key alone keeps the records of a key together, so that
// state by key is right behind it.
func ExampleTopicOf_PartitionedBy() {
	byHouse := topology.PartitionBy("by-house", func(_, key, _ string, partitions int32) int32 {
		house, _, _ := strings.Cut(key, "/")
		return int32(len(house)) % partitions
	})
	counts := topology.Topic("counts", schemas.String(), schemas.Int64())
	store := topology.TimestampedStore("said-counts", schemas.String(), schemas.Int64())

	b := topology.NewBuilder("houses")
	topology.Count(topology.From(b, said.PartitionedBy(byHouse)).Copartitioned(), store).Into(counts)
	run(b, counts, send(said, "red/ann", "hello"), send(said, "blue/bob", "hi"), send(said, "red/ann", "bye"))
	// Output:
	// red/ann 1
	// blue/bob 1
	// red/ann 2
}
