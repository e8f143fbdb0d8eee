package effect_test

import (
	"testing"
	"time"

	"github.com/onceward/onceward/processors/effect"
	"github.com/onceward/onceward/topology"
)

// TestRepeatable: where the provider makes one effect of one key, a call is made again without a
// lookup.
func TestRepeatable(t *testing.T) {
	g := newGateway(cut, cut)
	d := newDriver(t, topology.Live, func(b *topology.Builder) { declare(b, g, effect.Repeatable()) })
	d.request(oneOfTen)
	d.pass(10 * time.Second)
	d.one("completed")
	if calls, captured := g.count("c1"); calls != 3 || captured != 1 {
		t.Errorf("there were %d calls and %d captures", calls, captured)
	}
}

// TestDoubtStays is requirement H3: what the provider answers to one call says nothing about an
// earlier one whose reply was lost.
func TestDoubtStays(t *testing.T) {
	const (
		failed = "the gateway has failed"
		doubt  = "an earlier call may have had its effect, and the last one had none: " + failed
	)
	for name, test := range map[string]struct {
		next   []behaviour
		topic  string
		reason string
		calls  int
	}{
		"refused to the last":       {[]behaviour{lost, refused, refused}, "unknown", doubt, 3},
		"declined":                  {[]behaviour{lost, declined}, "unknown", doubt, 2},
		"refused, then declined":    {[]behaviour{lost, refused, declined}, "unknown", doubt, 3},
		"refused, then fine":        {[]behaviour{lost, refused}, "completed", "", 3},
		"no doubt, declined":        {[]behaviour{refused, declined}, "failed", failed, 2},
		"no doubt, refused to last": {[]behaviour{refused, refused, refused}, "failed", "the last attempt has failed: " + failed, 3},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGateway(test.next...)
			g.idempotent = true
			d := newDriver(t, topology.Live, func(b *topology.Builder) {
				declare(b, g, effect.Repeatable(), effect.Retry(3, time.Second, time.Second))
			})
			d.request(oneOfTen)
			d.pass(time.Second)
			d.request(oneOfTen)
			for _, r := range d.results("progress") {
				if test.next[0] == lost && r.Status != effect.Unknown {
					t.Errorf("a duplicate gets %+v", r)
				}
			}
			d.pass(time.Minute)
			if r := d.results(test.topic); len(r) == 0 || r[0].Replayed || r[0].Reason != test.reason {
				t.Errorf("topic %s got %+v", test.topic, r)
			}
			if calls, _ := g.count("c1"); calls != test.calls {
				t.Errorf("there were %d calls", calls)
			}
			if row := d.row("c1"); row.Due != 0 || row.Doubt != (test.topic == "unknown") {
				t.Errorf("the row is %+v", row)
			}
		})
	}
}

// TestDoubtOutlivesClaims that expire, and those that are given back: an effect whose reply was
// lost stays unknown.
func TestDoubtOutlivesClaims(t *testing.T) {
	for name, interrupt := range map[string]func(w *world){
		"given back": func(w *world) { w.now = w.now.Add(time.Hour) },
		"expired": func(w *world) {
			w.crash()
			w.life.tick(time.Hour)
			w.life.commit()
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := repeating(t)
			w.gateway.next = []behaviour{lost, declined}
			w.request("c1", 10)
			w.step(time.Second)
			w.called(t, 1)
			w.life.tick(time.Minute)
			w.life.commit() // the claim of the second call
			interrupt(w)
			for w.life.work() {
			}
			w.life.commit()
			w.called(t, 1)
			if e := w.row(t, "c1"); e.Status != effect.Unknown || !e.Doubt || e.Due == 0 {
				t.Errorf("the row is %+v", e)
			}
			w.settle()
			if err := w.check(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestExpiryIsADoubt: a call that may have been made is one that the next call knows nothing of.
func TestExpiryIsADoubt(t *testing.T) {
	w := repeating(t)
	w.gateway.next = []behaviour{lost, declined}
	w.request("c1", 10)
	w.life.work()
	w.life.tick(time.Second)
	w.life.commit()
	w.life.work() // the call, whose outcome is lost with its round
	w.crash()
	w.settle()
	w.called(t, 2)
	if err := w.check(); err != nil {
		t.Error(err)
	}
	if e := w.row(t, "c1"); e.Status != effect.Unknown {
		t.Errorf("the row is %+v", e)
	}
}

// TestDeploymentWithoutAnAnswer is requirement H3 for the next version of an application: what is
// unknown, and was to be looked up or called again, waits for a person in a version that has
// neither, and is not called blindly.
func TestDeploymentWithoutAnAnswer(t *testing.T) {
	g := newGateway()
	lookup, once := effect.Lookup(g.find), effect.Retry(1, time.Second, time.Second)
	for name, test := range map[string]struct {
		before, after []effect.Option
		end           effect.Status
	}{
		"a lookup, then none":        {[]effect.Option{lookup}, nil, effect.Unknown},
		"repeatable, then not":       {[]effect.Option{effect.Repeatable()}, nil, effect.Unknown},
		"a lookup, then no attempts": {[]effect.Option{lookup}, []effect.Option{effect.Repeatable(), once}, effect.Unknown},
		"repeatable, then a lookup":  {[]effect.Option{effect.Repeatable()}, []effect.Option{lookup, once}, effect.Completed},
	} {
		t.Run(name, func(t *testing.T) {
			g.next, g.calls, g.captured = []behaviour{lost}, map[string]int{}, map[string]int{}
			w := newWorld(t, g, test.before...)
			w.request("c1", 10)
			w.step(time.Second)
			if e := w.row(t, "c1"); e.Status != effect.Unknown || e.Due == 0 {
				t.Fatalf("the row is %+v", e)
			}
			w.deploy(test.after...)
			w.settle()
			w.called(t, 1)
			if err := w.check(); err != nil {
				t.Error(err)
			}
			if e := w.row(t, "c1"); e.Status != test.end || len(w.results) != 1 {
				t.Errorf("the row is %+v, and told was %+v", e, w.results)
			}
		})
	}
}
