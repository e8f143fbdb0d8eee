package topology_test

import (
	"strings"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// The orders of the examples: each names a customer, as "ann: a book" does.
var (
	purchases     = topology.Topic("purchases", schemas.String(), schemas.String())
	purchaseTable = topology.TimestampedStore("purchase-table", schemas.String(), schemas.String())
	deliveryTable = topology.TimestampedStore("delivery-table", schemas.String(), schemas.String())
)

// customerOf returns the customer of an order. An order without one has no foreign key.
func customerOf(_, order string) (topology.Option[string], error) {
	customer, _, ok := strings.Cut(order, ":")
	if !ok {
		return topology.None[string](), nil
	}
	return topology.Some(customer), nil
}

// Orders with the city of their customer: a change of either side changes all results that it is
// in.
func ExampleJoinForeignKey() {
	b := topology.NewBuilder("deliveries")
	orders, customers := topology.TableFrom(b, purchases, purchaseTable), topology.TableFrom(b, cities, cityTable)
	topology.JoinForeignKey(orders, customers, "deliveries", customerOf,
		func(_, order, city string) (string, error) { return order + " to " + city, nil }).Into(results)
	run(b, results, send(purchases, "1", "ann: a book"), send(cities, "ann", "Bern"), send(purchases, "2", "ann: a lamp"),
		send(cities, "ann", "Basel"), remove(purchases, "1"))
	// Output:
	// 1 ann: a book to Bern
	// 2 ann: a lamp to Bern
	// 1 ann: a book to Basel
	// 2 ann: a lamp to Basel
	// 1 null
}

// Without a customer, or with one whose city is not known, an order goes to the shop.
func ExampleLeftJoinForeignKey() {
	b := topology.NewBuilder("deliveries")
	orders, customers := topology.TableFrom(b, purchases, purchaseTable), topology.TableFrom(b, cities, cityTable)
	topology.LeftJoinForeignKey(orders, customers, "deliveries", customerOf,
		func(_, order string, city topology.Option[string]) (string, error) {
			return order + " to " + city.Or("the shop"), nil
		}).Into(results)
	run(b, results, send(purchases, "1", "ann: a book"), send(purchases, "2", "a lamp"), send(cities, "ann", "Bern"))
	// Output:
	// 1 ann: a book to the shop
	// 2 a lamp to the shop
	// 1 ann: a book to Bern
}

// The results of a join are in no store. Kept in one, they are a table like any other.
func ExampleJoinForeignKey_kept() {
	b := topology.NewBuilder("deliveries")
	joined := topology.JoinForeignKey(topology.TableFrom(b, purchases, purchaseTable), topology.TableFrom(b, cities, cityTable), "deliveries",
		customerOf, func(_, order, city string) (string, error) { return order + " to " + city, nil })
	kept := topology.ToTableWithDeletes(joined.Stream(), deliveryTable)
	kept.Filter("to-basel", func(_, delivery string) (bool, error) { return strings.HasSuffix(delivery, "Basel"), nil }).Into(results)
	run(b, results, send(purchases, "1", "ann: a book"), send(cities, "ann", "Bern"), send(cities, "ann", "Basel"), send(cities, "ann", "Biel"))
	// Output:
	// 1 ann: a book to Basel
	// 1 null
}
