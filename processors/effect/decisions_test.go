package effect_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/onceward/onceward/processors/decision"
	"github.com/onceward/onceward/processors/effect"
	"github.com/onceward/onceward/topology"
)

// TestDecisions is requirements J1 and J2: each request has a decision, and each effect one, whatever the attempts and
// however often it is asked for again.
func TestDecisions(t *testing.T) {
	var requests, outcomes []string
	g := newGateway(refused, fine, declined)
	d := newDriver(t, topology.Live, func(b *topology.Builder) {
		e := declare(b, g, effect.Retry(3, time.Second, time.Second))
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
		"capture: conflicts c1 capture c1: the effect was requested before with another payload, type, target or business key",
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
