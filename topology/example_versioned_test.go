package topology_test

import (
	"fmt"
	"log"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// The example of versioned tables: prices, and orders that are priced as of their time.
var (
	prices     = topology.Topic("prices", schemas.String(), schemas.Int64())
	priceTable = topology.VersionedStore("price-table", schemas.String(), schemas.Int64(), time.Hour)
	pieces     = topology.Topic("pieces", schemas.String(), schemas.Int64())
	totals     = topology.Topic("totals", schemas.String(), schemas.Int64())
)

func total(_ string, pieces, price int64) (int64, error) { return pieces * price, nil }

// A versioned table: a price that comes late is one of the past, and can be asked for.
func ExampleTableFrom_versioned() {
	b := topology.NewBuilder("prices")
	topology.TableFrom(b, prices, priceTable)
	d := driver(b)
	for _, r := range []topology.Record[string, int64]{
		{Key: "tea", Value: 3, Timestamp: 1000}, {Key: "tea", Value: 5, Timestamp: 3000}, {Key: "tea", Value: 4, Timestamp: 2000},
	} {
		if err := topologytest.Pipe(d, prices, r.Key, r.Value, topologytest.At(r.Time())); err != nil {
			log.Fatal(err)
		}
	}
	table, err := topologytest.Store(d, priceTable, 0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(table.Get("tea"))
	fmt.Println(table.GetAsOf("tea", 2500))
	// Output:
	// 5 3000 true <nil>
	// 4 2000 true <nil>
}

// An order costs what its pieces cost when it was made.
func ExampleJoinStreamTable_versioned() {
	b := topology.NewBuilder("totals")
	topology.JoinStreamTable(topology.From(b, pieces), topology.TableFrom(b, prices, priceTable), "total", total).Into(totals)
	run(b, totals, sendAt(0, prices, "tea", 3), sendAt(10*second, prices, "tea", 5), sendAt(9*second, pieces, "tea", 2))
	// Output:
	// tea 6
}

// An order waits for a minute, because prices can be late by so much.
func ExampleJoinStreamTableWithGrace() {
	b := topology.NewBuilder("totals")
	topology.JoinStreamTableWithGrace(topology.From(b, pieces), topology.TableFrom(b, prices, priceTable), "total", time.Minute,
		schemas.String(), schemas.Int64(), total).Into(totals)
	run(b, totals, sendAt(0, prices, "tea", 3), sendAt(9*second, pieces, "tea", 2), sendAt(8*second, prices, "tea", 4),
		sendAt(69*second, pieces, "tea", 1))
	// Output:
	// tea 8
}

// An order without a price after the wait is free.
func ExampleLeftJoinStreamTableWithGrace() {
	b := topology.NewBuilder("totals")
	topology.LeftJoinStreamTableWithGrace(topology.From(b, pieces), topology.TableFrom(b, prices, priceTable), "total", time.Minute,
		schemas.String(), schemas.Int64(),
		func(_ string, pieces int64, price topology.Option[int64]) (int64, error) {
			return pieces * price.Or(0), nil
		}).Into(totals)
	run(b, totals, sendAt(9*second, pieces, "tea", 2), sendAt(9*second, pieces, "rum", 2), sendAt(8*second, prices, "tea", 4),
		sendAt(69*second, pieces, "tea", 1))
	// Output:
	// rum 0
	// tea 8
}
