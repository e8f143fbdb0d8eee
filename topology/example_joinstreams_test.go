package topology_test

import (
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// The streams of the examples: what was ordered, and what was paid, by the number of the order.
var (
	orders   = topology.Topic("orders", schemas.String(), schemas.String())
	payments = topology.Topic("payments", schemas.String(), schemas.String())
)

// Each order meets its payments: those that come at most ten minutes after it.
func ExampleJoinStreams() {
	b := topology.NewBuilder("paid")
	text := schemas.String()
	topology.JoinStreams(topology.From(b, orders), topology.From(b, payments), "paid",
		topology.Within(0).After(10*time.Minute), text, text, text,
		func(_, order, payment string) (string, error) { return order + " paid by " + payment, nil }).Into(results)
	run(b, results, sendAt(0, orders, "1", "a book"), sendAt(time.Minute, payments, "1", "card"),
		sendAt(2*time.Minute, payments, "2", "cash"), sendAt(3*time.Minute, orders, "2", "a lamp"))
	// Output:
	// 1 a book paid by card
}

// An order without a payment is passed on alone, when its ten minutes and the grace have passed.
func ExampleLeftJoinStreams() {
	b := topology.NewBuilder("paid")
	text := schemas.String()
	topology.LeftJoinStreams(topology.From(b, orders), topology.From(b, payments), "paid",
		topology.Within(0).After(10*time.Minute).Grace(time.Minute), text, text, text,
		func(_, order string, payment topology.Option[string]) (string, error) {
			return order + " paid by " + payment.Or("nobody"), nil
		}).Into(results)
	run(b, results, sendAt(0, orders, "1", "a book"), sendAt(time.Minute, orders, "2", "a lamp"),
		sendAt(5*time.Minute, payments, "2", "card"), sendAt(12*time.Minute, orders, "3", "a chair"))
	// Output:
	// 2 a lamp paid by card
	// 1 a book paid by nobody
}

// Orders without a payment, and payments without an order.
func ExampleOuterJoinStreams() {
	b := topology.NewBuilder("paid")
	text := schemas.String()
	topology.OuterJoinStreams(topology.From(b, orders), topology.From(b, payments), "paid", topology.Within(time.Minute), text, text, text,
		func(_ string, order, payment topology.Option[string]) (string, error) {
			return order.Or("nothing") + " paid by " + payment.Or("nobody"), nil
		}).Into(results)
	run(b, results, sendAt(0, orders, "1", "a book"), sendAt(second, payments, "2", "card"), sendAt(time.Hour, orders, "3", "a lamp"))
	// Output:
	// 1 a book paid by nobody
	// 2 nothing paid by card
}

// Payments of one order that come within a second of each other. A stream is joined with itself:
// each record meets itself, and each other one from both sides, of which the join leaves one here.
func ExampleJoinStreams_self() {
	b := topology.NewBuilder("twice")
	text := schemas.String()
	s := topology.From(b, payments)
	pairs := topology.JoinStreams(s, s, "pairs", topology.Within(time.Second), text, text, text,
		func(_, one, other string) (string, error) {
			if one >= other {
				return "", nil
			}
			return one + " and " + other, nil
		})
	pairs.Filter("pair", func(r topology.Record[string, string]) (bool, error) { return r.Value != "", nil }).Into(results)
	run(b, results, sendAt(0, payments, "1", "card"), sendAt(second, payments, "1", "cash"), sendAt(3*second, payments, "1", "voucher"))
	// Output:
	// 1 card and cash
}
