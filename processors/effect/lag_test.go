package effect_test

import (
	"testing"
	"time"

	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// TestEffectLag is requirement K2: for how long effects wait is told apart from the lag of the
// input, which is 0 all the time here.
func TestEffectLag(t *testing.T) {
	w := newWorld(t, newGateway())
	shows := func(want time.Duration) {
		t.Helper()
		var got []graph.GaugeReading
		for _, g := range w.life.graph.Gauges() {
			if g.Node == "capture" && g.Name == "overdue-milliseconds" {
				got = append(got, g)
			}
		}
		if len(got) != 1 || got[0].Value != want.Milliseconds() {
			t.Errorf("the lag is %+v, want %s", got, want)
		}
	}
	request := func(id string) {
		w.request(id, 10)
		w.life.work()
		w.life.commit()
	}
	w.life.tick(time.Second)
	shows(0)
	request("c1")
	w.life.tick(time.Second) // claims it
	shows(time.Second)
	w.life.commit()
	w.life.tick(2 * time.Second) // the claim is still on its way
	shows(3 * time.Second)
	w.life.work()
	w.life.commit()
	w.life.tick(time.Second)
	shows(0)

	request("c2")
	w.life.tick(time.Second)
	w.life.commit()
	w.crash() // leaves the claim
	w.life.tick(5 * time.Second)
	shows(5 * time.Second)
	w.life.tick(2 * time.Minute)
	shows(0)
}

// TestCounters is requirement K1: requests, claims, those that have expired, and what became of
// calls are counted.
func TestCounters(t *testing.T) {
	d := newDriver(t, topology.Live, func(b *topology.Builder) { declare(b, newGateway(refused, lost, declined)) })
	d.request(oneOfTen)
	d.pass(time.Minute)
	d.request(`{"id":"c2","amount":1}`)
	d.Restart()
	d.SetRow("capture-claim", "another", `{"opening":"another","number":1,"at":1,"expires":2,"steps":[{"id":"c1","was":"RECEIVED"}]}`)
	d.pass(time.Second)
	d.WantCounts("capture.claims=3 capture.expired-claims=1 capture.requested=2 capture-caller.failed-retryable=1 " +
		"capture-caller.failed-terminal=1 capture-caller.unknown=1")
}
