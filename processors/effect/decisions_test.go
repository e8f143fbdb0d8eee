package effect_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/processors/decision"
	"github.com/onceward/onceward/processors/effect"
	"github.com/onceward/onceward/processors/evidence"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// TestDecisions is requirements J1 and J2: each request has a decision, and each effect one,
// whatever the attempts and however often it is asked for again.
func TestDecisions(t *testing.T) {
	var requests, outcomes []string
	g := newGateway(refused, fine, declined)
	d := newDriver(t, topology.Live, func(b *topology.Builder) {
		e := declare(b, g, effect.Retry(3, time.Second, time.Second), effect.EmitConflicts())
		e.Conflicts().Into(conflictsTopic)
		listen := func(s topology.Stream[[]byte, decision.Decision], name string, to *[]string) {
			s.Peek(name, func(r topology.Record[[]byte, decision.Decision]) error {
				v := r.Value
				*to = append(*to, fmt.Sprintf("%s: %s %s %s %s: %s", v.Node, v.Outcome, v.Subject, v.Store, r.Key, v.Reason))
				return nil
			})
		}
		listen(e.Requests(), "see-requests", &requests)
		listen(e.Outcomes(), "see-outcomes", &outcomes)
	})
	d.Pipe("captures", "k", oneOfTen)
	d.Pipe("captures", "k", oneOfTen)
	d.pass(30 * time.Second)
	d.request(oneOfTen)
	d.request(oneOfSix)
	d.request(`{"id":"c2","amount":1}`)
	d.pass(30 * time.Second)
	want := []string{
		"capture: requested c1 capture c1: ", "capture: in-progress c1 capture c1: ", "capture: replayed c1 capture c1: ",
		"capture: conflicts c1 capture c1: the effect was requested before with another payload, type, target, business or idempotency key",
		"capture: requested c2 capture c2: ",
	}
	if !slices.Equal(requests, want) {
		t.Errorf("the decisions about requests are\n%q, want\n%q", requests, want)
	}
	want = []string{
		"capture-outcomes: COMPLETED c1 capture c1: ", "capture-outcomes: FAILED_TERMINAL c2 capture c2: the gateway has failed",
	}
	if !slices.Equal(outcomes, want) {
		t.Errorf("the decisions about effects are\n%q, want\n%q", outcomes, want)
	}
	if calls, _ := g.count("c1"); calls != 2 {
		t.Errorf("there were %d calls, want an attempt that failed, and one more", calls)
	}
}

// TestEvidenceOfCallsStays is requirement J1: what was called is told also where whoever stands
// behind the effect fails, and with the mode of the request.
func TestEvidenceOfCallsStays(t *testing.T) {
	auditTopic := evidence.Topic("audit")
	d := newDriver(t, topology.Live, func(b *topology.Builder) {
		e := effect.Perform(topology.From(b, capturesTopic), "capture", captureRequest, newGateway(fine, declined).capture,
			effect.AlsoIn(topology.Repair))
		refuse := func(topology.Record[string, effect.Result]) error { return schemas.Reason("asked to") }
		e.Completed().Peek("fragile", refuse)
		e.Failed().Peek("frail", refuse)
		evidence.Record(e.Outcomes(), "capture-audit", auditTopic)
	})
	d.request(oneOfTen)
	d.WantDeadLetter("fragile", topology.Poison, "asked to")
	d.request(`{"id":"c2","amount":1}`, topologytest.Header(topology.HeaderMode, "REPAIR"))
	d.WantDeadLetter("frail", topology.Poison, "asked to")
	var got []string
	for _, r := range d.Take("audit") {
		e, err := evidence.Decode(r.Key, r.Value)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s %s %s %s %q", e.Node, e.Outcome, e.Row, e.Mode, e.Topic))
	}
	want := []string{`capture-outcomes COMPLETED c1 LIVE ""`, `capture-outcomes FAILED_TERMINAL c2 REPAIR ""`}
	if !slices.Equal(got, want) {
		t.Errorf("the evidence is %q, want %q", got, want)
	}
}

// TestEvidenceIsNotLost: where the evidence of a call is refused the task stops, and no dead letter
// ends the claim.
func TestEvidenceIsNotLost(t *testing.T) {
	d := newDriver(t, topology.Live, func(b *topology.Builder) {
		declare(b, newGateway(fine)).Outcomes().Peek("fragile", func(topology.Record[[]byte, decision.Decision]) error {
			return schemas.Reason("asked to")
		})
	})
	d.Pipe("captures", "k", oneOfTen)
	err := d.Advance(time.Second)
	if topology.ClassOf(err) != topology.Fatal || !strings.Contains(err.Error(),
		"what was to take the evidence of an effect has refused it: node fragile: poison: asked to") {
		t.Errorf("the task has stopped with %v", err)
	}
	d.Want("dead")
	if e := d.row("c1"); e.Status != effect.Started {
		t.Errorf("the row is %+v", e)
	}
}
