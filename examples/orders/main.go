// Command orders joins each order with its customer, and waits for its payment. An order that is
// not paid within half an hour is written as unpaid.
//
//	orders run --brokers localhost:9092 --state-dir ./state
//	orders describe
//
// The topics:
//
//	orders          key: number of the order    value: {"customer": "c1", "cents": 1200}
//	customers       key: customer               value: {"name": "Ann"}
//	payments        key: number of the order    value: {"cents": 1200}
//	settled-orders  key: number of the order    value: {"name": "Ann", "cents": 1200, "paid": 1200}
//	unpaid-orders   the same with what was paid, which is less than the order costs
//
// Customers are a global table, because the orders are not partitioned by customer. orders and
// payments have the same key, so they need the same number of partitions.
package main

import (
	"os"
	"time"

	"github.com/onceward/onceward/cmd/cli"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

type order struct {
	Customer string `json:"customer"`
	Cents    int64  `json:"cents"`
}

type customer struct {
	Name string `json:"name"`
}

type payment struct {
	Cents int64 `json:"cents"`
}

// named is an order with the name of its customer, which is empty if the customer is not known.
type named struct {
	Name  string `json:"name"`
	Cents int64  `json:"cents"`
}

// settlement is an order with what was paid for it.
type settlement struct {
	Name  string `json:"name"`
	Cents int64  `json:"cents"`
	Paid  int64  `json:"paid"`
}

var (
	orders    = topology.Topic("orders", schemas.String(), schemas.JSON[order]())
	customers = topology.Topic("customers", schemas.String(), schemas.JSON[customer]())
	payments  = topology.Topic("payments", schemas.String(), schemas.JSON[payment]())
	settled   = topology.Topic("settled-orders", schemas.String(), schemas.JSON[settlement]())
	unpaid    = topology.Topic("unpaid-orders", schemas.String(), schemas.JSON[settlement]())

	customerStore = topology.TimestampedStore("customers", schemas.String(), schemas.JSON[customer]())
)

// toPay is how long a payment may come after its order. A payment may be late by another minute.
var toPay = topology.Within(0).After(30 * time.Minute).Grace(time.Minute)

func settlements() (*topology.Topology, error) {
	b := topology.NewBuilder("orders", topology.DeadLetters("orders-dead"))
	withName := topology.LeftJoinGlobalTable(topology.From(b, orders), topology.GlobalTableFrom(b, customers, customerStore),
		"customer", customerOf, addName)
	all := topology.LeftJoinStreams(withName, topology.From(b, payments), "payment", toPay,
		schemas.String(), schemas.JSON[named](), schemas.JSON[payment](), settle)
	all.Filter("is-settled", isSettled).Into(settled)
	all.Filter("is-unpaid", isUnpaid).Into(unpaid)
	return b.Build()
}

func customerOf(r topology.Record[string, order]) (topology.Option[string], error) {
	return topology.Some(r.Value.Customer), nil
}

func addName(_ string, o order, c topology.Option[customer]) (named, error) {
	return named{Name: c.Or(customer{}).Name, Cents: o.Cents}, nil
}

// settle is called for each payment of an order, and for an order whose time is over without one.
func settle(_ string, o named, p topology.Option[payment]) (settlement, error) {
	return settlement{Name: o.Name, Cents: o.Cents, Paid: p.Or(payment{}).Cents}, nil
}

func isSettled(r topology.Record[string, settlement]) (bool, error) {
	return r.Value.Paid >= r.Value.Cents, nil
}

func isUnpaid(r topology.Record[string, settlement]) (bool, error) {
	return r.Value.Paid < r.Value.Cents, nil
}

func main() { os.Exit(cli.Run(settlements)) }
