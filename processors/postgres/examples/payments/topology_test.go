package main

import (
	"fmt"
	"testing"

	"github.com/onceward/onceward/processors/envelope"
	"github.com/onceward/onceward/processors/ledger"
	"github.com/onceward/onceward/topology/topologytest"
)

// TestTopology: a refund takes back a capture. A step that is not valid is refused once, however
// often it is published. A step without an id is a dead letter.
func TestTopology(t *testing.T) {
	names := topicsOf("payments-")
	top, err := names.topology()
	if err != nil {
		t.Fatal(err)
	}
	d := topologytest.Start(t, top)
	asked := topologytest.In(d, names.steps)
	ask := func(id, from, to string) {
		step := Step{Payment: "p1", Account: "alice", Cents: 1250, From: from, To: to}
		asked.Pipe("p1", step, topologytest.Header(envelope.HeaderEventID, id))
	}
	ask("s1", "", authorized)
	ask("s2", authorized, captured)
	ask("s2", authorized, captured) // a copy
	ask("s3", authorized, cancelled)
	ask("s3", authorized, cancelled) // a copy
	ask("s4", captured, refunded)
	asked.Pipe("p1", Step{Payment: "p1"})

	var got []string
	for _, f := range topologytest.Out(d, names.facts).Read() {
		got = append(got, fmt.Sprintf("%s %d %s", f.Value.ID, f.Value.Version, f.Value.To))
	}
	if want := "[s1 1 authorized s2 2 captured s4 3 refunded]"; fmt.Sprint(got) != want {
		t.Errorf("facts %v, want %s", got, want)
	}
	if r := topologytest.Out(d, names.refused).Read(); len(r) != 1 || r[0].Value.Transition.ID != "s3" {
		t.Errorf("refusals %v, want that of s3", r)
	}
	topologytest.Out(d, names.balances).Want(
		topologytest.KV("alice", ledger.Balance{Count: 1, Amounts: []int64{1250}, Contribution: "p1-captured"}),
		topologytest.KV("alice", ledger.Balance{Count: 2, Amounts: []int64{0}, Contribution: "p1-refunded"}),
	)
	d.WantDead("inbox: validation")
}
