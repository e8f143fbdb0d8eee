package ledger_test

import (
	"fmt"
	"testing"

	"github.com/onceward/onceward/processors/decision"
	"github.com/onceward/onceward/processors/internal/processortest"
	"github.com/onceward/onceward/topology"
)

// TestDecisions is requirement J1: every record that does not fail has one decision, whose versions
// are the counts of the balance.
func TestDecisions(t *testing.T) {
	var got []string
	d := processortest.New(t, func(b *topology.Builder) {
		routed(b).Decisions().Peek("see", func(r topology.Record[[]byte, decision.Decision]) error {
			v := r.Value
			got = append(got, fmt.Sprintf("%s %s %s>%s %s %s %d-%d: %s", v.Node, v.Outcome, v.Subject, v.Names, v.Store, v.Row,
				v.Before.Or(-1), v.After.Or(-1), v.Reason))
			return nil
		})
	})
	for _, value := range []string{
		`{"id":"a","amounts":[1]}`, `{"id":"a","amounts":[1]}`, `{"id":"a","amounts":[2]}`, `{"id":"r","reverses":"a"}`,
		`{"id":"s","reverses":"a"}`, `{"amounts":[1]}`, `{"id":"c","amounts":[3],"corrects":"a"}`,
	} {
		d.Pipe("entries", "k", value)
	}
	want := []string{
		"ledger accepted a> ledger-balances k 0-1: ",
		"ledger duplicates a> ledger-balances k -1--1: ",
		"ledger conflicts a> ledger-balances k -1--1: " + errConflict,
		"ledger accepted r>a ledger-balances k 1-2: it takes another contribution back",
		"ledger conflicts s>a ledger-balances k -1--1: " +
			"the contribution reverses one that another contribution has reversed already",
		"ledger accepted c>a ledger-balances k 2-3: it corrects another contribution",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the decisions are\n%q, want\n%q", got, want)
	}
}
