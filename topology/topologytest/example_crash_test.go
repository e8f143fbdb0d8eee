package topologytest_test

import (
	"fmt"
	"log"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// A test of a crash: what was not committed is processed again, and counts once.
func ExampleDriver_Crash() {
	payments := topology.Topic("payments", schemas.String(), schemas.Int64())
	sums := topology.Topic("sums", schemas.String(), schemas.Int64())
	sumOf := topology.KeyValueStore("sums", schemas.String(), schemas.Int64())

	b := topology.NewBuilder("bank")
	topology.Process(topology.From(b, payments), "sum", sumOf, func(
		c *topology.Context, store state.KeyValue[string, int64], r topology.Record[string, int64],
		emit topology.Emit[string, int64],
	) error {
		sum, _, err := store.Get(r.Key)
		if err != nil {
			return err
		}
		sum += r.Value
		if err := store.Put(r.Key, sum); err != nil {
			return err
		}
		return emit(c, topology.WithValue(r, sum))
	}).Into(sums)
	t, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}

	d, err := topologytest.New(t, topologytest.CommitByHand())
	if err != nil {
		log.Fatal(err)
	}
	pipe := func(amount int64) {
		if err := topologytest.Pipe(d, payments, "anna", amount); err != nil {
			log.Fatal(err)
		}
	}
	commit := func() {
		if err := d.Commit(); err != nil {
			log.Fatal(err)
		}
		records, err := topologytest.Output(d, sums)
		if err != nil {
			log.Fatal(err)
		}
		for _, r := range records {
			fmt.Println(r.Key, r.Value)
		}
	}
	pipe(20)
	commit()
	pipe(30)
	fmt.Println(d.Uncommitted(), "not committed")
	if err := d.Crash(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(d.Uncommitted(), "not committed")
	commit()
	// Output:
	// anna 20
	// 1 not committed
	// 1 not committed
	// anna 50
}
