package cli_test

import (
	"time"

	"github.com/onceward/onceward/processors/inbox"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// mailroomTopology has an inbox with a retention and a business key: an order is recognised by its
// key under every id.
func mailroomTopology() *topology.Topology {
	b := topology.NewBuilder("mailroom", topology.DeadLetters("dead"))
	orders := topology.From(b, topology.Topic("orders", schemas.String(), schemas.JSON[order]()))
	requests := inbox.Dedupe(orders, "requests", orderID, inbox.Retain(time.Hour), inbox.TolerateLongerTopics(), inbox.PayloadWithout("id"),
		inbox.BusinessKey(func(r orderRecord) (string, error) { return r.Key, nil }), inbox.EmitConflicts())
	requests.Accepted().Into(topology.Topic("accepted", schemas.String(), schemas.JSON[order]()))
	requests.Conflicts().Into(topology.Topic("disputed", schemas.String(), schemas.JSON[order]()))
	return mustBuild(b)
}
