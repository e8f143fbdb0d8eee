package effect_test

import (
	"testing"
	"time"

	"github.com/onceward/onceward/processors/effect"
	"github.com/onceward/onceward/topology"
)

// TestResolutionsOverruleNothing: what is known, or is being found out, is not for people to say.
func TestResolutionsOverruleNothing(t *testing.T) {
	g := newGateway(fine, refused)
	d := newDriver(t, topology.Live, func(b *topology.Builder) {
		effect.Resolve(declare(b, g), topology.From(b, resolutionsTopic), "people")
	})
	d.request(oneOfTen)
	d.request(`{"id":"c2","amount":1}`)
	for _, test := range []struct {
		value   string
		class   topology.Class
		message string
	}{
		{`{"id":"c1","status":"FAILED_TERMINAL","by":"ada"}`, topology.Conflict,
			"the effect is not one of which the outcome is unknown or which was suppressed"},
		{`{"id":"c2","status":"COMPLETED","by":"ada"}`, topology.Conflict,
			"the effect is not one of which the outcome is unknown or which was suppressed"},
		{`{"id":"c3","status":"COMPLETED","by":"ada"}`, topology.Validation, "there is no effect with that id"},
		{`{"id":"c1","status":"STARTED","by":"ada"}`, topology.Validation,
			"a resolution has the status COMPLETED, FAILED_TERMINAL or FAILED_RETRYABLE, and says who says so"},
		{`{"id":"c1","status":"COMPLETED"}`, topology.Validation,
			"a resolution has the status COMPLETED, FAILED_TERMINAL or FAILED_RETRYABLE, and says who says so"},
	} {
		d.Pipe("resolutions", "k", test.value)
		d.WantDeadLetter("people", test.class, test.message)
	}
}

// TestResolutionsNameTheirAttempt is requirement H3 for what people say: a copy of a release, and a release of an
// attempt that nobody has judged, make no call.
func TestResolutionsNameTheirAttempt(t *testing.T) {
	g := newGateway(lost, lost, lost)
	d := newDriver(t, topology.Live, func(b *topology.Builder) {
		effect.Resolve(declare(b, g), topology.From(b, resolutionsTopic), "people")
	})
	resolve := func(value string, calls int) {
		t.Helper()
		d.Pipe("resolutions", "k", value)
		d.pass(time.Second)
		if made, _ := g.count("c1"); made != calls {
			t.Fatalf("there were %d calls, want %d", made, calls)
		}
	}
	const (
		first  = `{"id":"c1","attempts":1,"status":"FAILED_RETRYABLE","by":"ada"}`
		second = `{"id":"c1","attempts":2,"status":"FAILED_RETRYABLE","by":"ada"}`
	)
	d.request(oneOfTen)
	for attempt, release := range []string{first, second} {
		if r := d.one("unknown"); r.Attempts != attempt+1 {
			t.Fatalf("people see %+v", r)
		}
		resolve(release, attempt+2)
		resolve(first, attempt+2)
		resolve(release, attempt+2)
	}
	for _, other := range []string{
		`{"id":"c1","attempts":1,"status":"FAILED_RETRYABLE","by":"bob"}`,
		`{"id":"c1","attempts":4,"status":"FAILED_RETRYABLE","by":"ada"}`,
		`{"id":"c1","status":"FAILED_RETRYABLE","by":"ada"}`,
	} {
		resolve(other, 3)
		d.WantDeadLetter("people", topology.Conflict, "the resolution is about another attempt than the last one of the effect")
	}
	resolve(`{"id":"c1","attempts":3,"status":"COMPLETED","by":"ada"}`, 3)
	resolve(`{"id":"c1","attempts":3,"status":"COMPLETED","by":"ada"}`, 3)
	d.one("completed")
	if resolved, copies := d.Count("people", "resolved"), d.Count("people", "duplicates"); resolved != 3 || copies != 5 {
		t.Errorf("%d resolutions were taken, and %d were copies", resolved, copies)
	}
}
