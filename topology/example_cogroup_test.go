package topology_test

import (
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// account is what two streams of different types add up to.
type account struct {
	Paid, Refunds int64
}

var (
	deposits = topology.Topic("deposits", schemas.String(), schemas.Int64())
	refunds  = topology.Topic("refunds", schemas.String(), schemas.String())
)

func addDeposit(sofar account, r topology.Record[string, int64]) (account, error) {
	sofar.Paid += r.Value
	return sofar, nil
}

func addRefund(sofar account, _ topology.Record[string, string]) (account, error) {
	sofar.Refunds++
	return sofar, nil
}

// Payments are amounts and refunds are texts. Both change one account for each key.
func ExampleCogroup() {
	accounts := topology.Topic("accounts", schemas.String(), schemas.JSON[account]())
	store := topology.TimestampedStore("accounts", schemas.String(), schemas.JSON[account]())
	b := topology.NewBuilder("cogroup")
	topology.Cogroup([]topology.Folded[string, account]{
		topology.Fold(topology.From(b, deposits), addDeposit),
		topology.Fold(topology.From(b, refunds), addRefund),
	}, store, nil).Into(accounts)
	run(b, accounts, send(deposits, "ann", 5), send(refunds, "ann", "broken"), send(deposits, "ann", 2))
	// Output:
	// ann {5 0}
	// ann {5 1}
	// ann {7 1}
}

// One account for each minute, when the minute is over. The time moves with the records of both
// streams.
func ExampleCogroupWindows() {
	minute := topology.Tumbling(time.Minute)
	accounts := topology.Topic("accounts", topology.WindowedCodec(schemas.String(), minute.Size()), schemas.JSON[account]())
	store := topology.WindowStore("accounts", schemas.String(), schemas.JSON[account](), minute.Retention())
	b := topology.NewBuilder("cogroup")
	topology.CogroupWindows([]topology.Folded[string, account]{
		topology.Fold(topology.From(b, deposits), addDeposit),
		topology.Fold(topology.From(b, refunds), addRefund),
	}, minute, store, nil).Closed().Into(accounts)
	run(b, accounts, sendAt(0, deposits, "ann", 5), sendAt(30*second, refunds, "ann", "broken"), sendAt(60*second, refunds, "bob", "late"))
	// Output:
	// {ann 0 60000} {5 1}
}

// One account for each visit, with the records of both streams.
func ExampleCogroupSessions() {
	visit := topology.Sessions(time.Minute)
	accounts := topology.Topic("accounts", topology.SessionCodec(schemas.String()), schemas.JSON[account]())
	store := topology.SessionStore("accounts", schemas.String(), schemas.JSON[account](), visit.Retention())
	b := topology.NewBuilder("cogroup")
	topology.CogroupSessions([]topology.Folded[string, account]{
		topology.Fold(topology.From(b, deposits), addDeposit),
		topology.Fold(topology.From(b, refunds), addRefund),
	}, visit, store, nil, func(_ string, x, y account) (account, error) {
		return account{Paid: x.Paid + y.Paid, Refunds: x.Refunds + y.Refunds}, nil
	}).Closed().Into(accounts)
	run(b, accounts, sendAt(0, deposits, "ann", 5), sendAt(50*second, refunds, "ann", "broken"), sendAt(200*second, deposits, "bob", 1))
	// Output:
	// {ann 0 50000} {5 1}
}
