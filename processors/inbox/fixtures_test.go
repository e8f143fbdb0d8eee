package inbox_test

import (
	"github.com/onceward/onceward/processors/inbox"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// Payment is what the tests dedupe.
type Payment struct {
	ID     string `json:"id"`
	Amount int64  `json:"amount"`
	Note   string `json:"note,omitempty"`
}

type (
	payments = topology.Stream[string, Payment]
	payment  = topology.Record[string, Payment]
)

var (
	paymentsTopic = topology.Topic("payments", schemas.String(), schemas.JSON[Payment]())
	acceptedTopic = topology.Topic("accepted", schemas.String(), schemas.JSON[Payment]())
	dupTopic      = topology.Topic("duplicates", schemas.String(), schemas.JSON[Payment]())
	conflictTopic = topology.Topic("conflicts", schemas.String(), schemas.JSON[Payment]())
)

func paymentID(r payment) (string, error) { return r.Value.ID, nil }

// routed declares an inbox whose accepted records, duplicates and conflicts go to topics. It keeps
// ids forever, unless opts have Retain.
func routed(b *topology.Builder, opts ...inbox.Option) inbox.Inbox[string, Payment] {
	in := inbox.Dedupe(topology.From(b, paymentsTopic), "inbox", paymentID, inbox.Kept(append([]inbox.Option{inbox.EmitConflicts()}, opts...)...)...)
	in.Accepted().Into(acceptedTopic)
	in.Duplicates().Into(dupTopic)
	in.Conflicts().Into(conflictTopic)
	return in
}
