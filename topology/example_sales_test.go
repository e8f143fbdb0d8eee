package topology_test

import (
	"fmt"
	"log"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// Customer and Order are the values of two compacted topics, by customer and by order.
type (
	Customer struct {
		Country string `json:"country"`
	}
	Order struct {
		Customer string `json:"customer"`
		Cents    int64  `json:"cents"`
	}
)

// The topics of the sales.
var (
	customerTopic = topology.Topic("customers", schemas.String(), schemas.JSON[Customer]())
	orderTopic    = topology.Topic("orders", schemas.String(), schemas.JSON[Order]())
	salesTopic    = topology.Topic("sales", schemas.String(), schemas.Int64())
)

// sales keeps how much has been sold in each country. An order that is changed or deleted, and a
// customer who moves, change it as well: the sums are always those of what the topics say now.
func sales() (*topology.Topology, error) {
	var (
		text, number = schemas.String(), schemas.Int64()
		customers    = topology.TimestampedStore("customer-table", text, schemas.JSON[Customer]())
		orders       = topology.TimestampedStore("order-table", text, schemas.JSON[Order]())
		perCustomer  = topology.TimestampedStore("sales-per-customer", text, number)
		perCountry   = topology.TimestampedStore("sales-per-country", text, number)
	)
	add := func(sofar int64, _ string, cents int64) (int64, error) { return sofar + cents, nil }
	subtract := func(sofar int64, _ string, cents int64) (int64, error) { return sofar - cents, nil }

	b := topology.NewBuilder("sales")
	byCustomer := topology.GroupTable(topology.TableFrom(b, orderTopic, orders), "orders-by-customer", text, number,
		func(_ string, o Order) (string, int64, error) { return o.Customer, o.Cents, nil })
	spent := topology.ReduceTable(byCustomer, perCustomer, add, subtract)

	type sale struct {
		country string
		cents   int64
	}
	known := topology.JoinTables(spent, topology.TableFrom(b, customerTopic, customers), "with-country",
		func(_ string, cents int64, c Customer) (sale, error) { return sale{c.Country, cents}, nil })
	byCountry := topology.GroupTable(known, "sales-by-country", text, number,
		func(_ string, s sale) (string, int64, error) { return s.country, s.cents, nil })
	topology.ReduceTable(byCountry, perCountry, add, subtract).Into(salesTopic)
	return b.Build()
}

// Tables that are joined, and grouped twice.
func Example_sales() {
	t, err := sales()
	if err != nil {
		log.Fatal(err)
	}
	d, err := topologytest.New(t)
	if err != nil {
		log.Fatal(err)
	}
	customer := func(id, country string) error { return topologytest.Pipe(d, customerTopic, id, Customer{country}) }
	order := func(id, of string, cents int64) error { return topologytest.Pipe(d, orderTopic, id, Order{of, cents}) }
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"ann is from CH", func() error { return customer("ann", "CH") }},
		{"bob is from FR", func() error { return customer("bob", "FR") }},
		{"ann orders", func() error { return order("1", "ann", 1000) }},
		{"bob orders", func() error { return order("2", "bob", 500) }},
		{"ann orders more", func() error { return order("3", "ann", 250) }},
		{"ann changes her first order", func() error { return order("1", "ann", 900) }},
		{"ann moves", func() error { return customer("ann", "FR") }},
	} {
		if err := step.do(); err != nil {
			log.Fatal(err)
		}
		changes, err := topologytest.Output(d, salesTopic)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(step.what, ":")
		for _, c := range changes {
			fmt.Printf(" %s %d", c.Key, c.Value)
		}
		fmt.Println()
	}
	// Output:
	// ann is from CH:
	// bob is from FR:
	// ann orders: CH 1000
	// bob orders: FR 500
	// ann orders more: CH 1250
	// ann changes her first order: CH 1150
	// ann moves: CH 0 FR 1650
}
