package inbox_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/onceward/onceward/processors/decision"
	"github.com/onceward/onceward/processors/inbox"
	"github.com/onceward/onceward/processors/internal/processortest"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// TestDecisions is requirement J1: every record that does not fail has one decision, and listening
// changes nothing.
func TestDecisions(t *testing.T) {
	var got []string
	d := processortest.New(t, func(b *topology.Builder) {
		in := inbox.Dedupe(topology.From(b, paymentsTopic), "inbox", paymentID, inbox.AllowMissingID(), inbox.Retain(time.Hour),
			inbox.BusinessKey(byNote), inbox.PayloadWithout("id"), inbox.EmitConflicts(), inbox.EmitLate())
		in.Conflicts().Into(conflictTopic)
		in.Late().Into(topology.Topic("late", schemas.String(), schemas.JSON[Payment]()))
		in.Decisions().Peek("see", func(r topology.Record[[]byte, decision.Decision]) error {
			v := r.Value
			got = append(got, fmt.Sprintf("%s %s %q>%q %s %s: %s", v.Node, v.Outcome, v.Subject, v.Names, v.Store, v.Row, v.Reason))
			return nil
		})
	})
	for _, value := range []string{
		`{"id":"a","amount":1,"note":"n"}`, `{"id":"a","amount":1,"note":"n"}`, `{"id":"a","amount":2,"note":"n"}`,
		`{"id":"b","amount":1,"note":"n"}`, `{"id":"c","amount":2,"note":"n"}`,
		`{"id":"c","amount":2,"note":"n"}`, `{"amount":1}`, `{"id":"x","note":"none"}`,
	} {
		d.Pipe("payments", "k", value, at(100))
	}
	d.Pipe("payments", "k", `{"id":"z","amount":1}`, at(0))
	want := []string{
		`inbox accepted "a">"" inbox a: `,
		`inbox duplicates "a">"" inbox a: `,
		`inbox conflicts "a">"" inbox a: the id was seen before with another payload`,
		`inbox duplicates "b">"a" inbox b: the business key was seen before, under another id and with the same payload`,
		`inbox conflicts "c">"a" inbox c: the business key was seen before, under another id and with another payload`,
		`inbox conflicts "c">"a" inbox c: the business key was seen before, under another id and with another payload`,
		`inbox missing "">""  : `,
		`inbox late "z">"" inbox z: the record is older than what the inbox remembers, so nobody knows whether its id was seen`,
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the decisions are\n%q, want\n%q", got, want)
	}
}
