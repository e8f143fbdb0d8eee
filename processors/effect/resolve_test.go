package effect_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/processors/effect"
	"github.com/onceward/onceward/processors/evidence"
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

// TestResolutionsNameTheirAttempt is requirement H3 for decisions of people: a copy of a release,
// and a release of an attempt that was not judged, make no call.
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

// TestEffectAccepts is requirement H3 for tools that check a resolution first: the row says how
// Resolve will react.
func TestEffectAccepts(t *testing.T) {
	d := newDriver(t, topology.Live, func(b *topology.Builder) {
		effect.Resolve(declare(b, newGateway(lost, fine)), topology.From(b, resolutionsTopic), "people")
	})
	d.request(oneOfTen)
	said := effect.Resolution{ID: "c1", Attempts: 1, Status: effect.FailedRetryable, By: "ada", Note: "not in their books"}
	takes := func(v effect.Resolution, before bool, class topology.Class) {
		t.Helper()
		e := d.row("c1")
		if got, err := e.Accepts(&v); got != before || topology.ClassOf(err) != class {
			t.Errorf("%+v: taken before %v, %v", v, got, err)
		}
	}
	takes(said, false, 0)
	other := said
	other.Attempts = 2
	takes(other, false, topology.Conflict)
	d.Pipe("resolutions", "k", `{"id":"c1","attempts":1,"status":"FAILED_RETRYABLE","by":"ada","note":"not in their books"}`)
	takes(said, true, 0)
	d.pass(time.Second)
	d.one("completed")
	takes(said, true, 0) // a copy stays one
	for _, v := range []effect.Resolution{{ID: "c1", Attempts: 2, Status: effect.FailedTerminal, By: "ada"}, other} {
		takes(v, false, topology.Conflict)
	}

	valid := func(change func(v *effect.Resolution)) error {
		v := said
		change(&v)
		return v.Check()
	}
	if err := valid(func(*effect.Resolution) {}); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(v *effect.Resolution){
		"no id":           func(v *effect.Resolution) { v.ID = "" },
		"no status":       func(v *effect.Resolution) { v.Status = 0 },
		"unknown":         func(v *effect.Resolution) { v.Status = effect.Unknown },
		"nobody":          func(v *effect.Resolution) { v.By = "" },
		"a long nobody":   func(v *effect.Resolution) { v.By = strings.Repeat("x", 1025) },
		"too much to say": func(v *effect.Resolution) { v.Note = strings.Repeat("x", effect.NoteBytesMax+1) },
	} {
		if err := valid(change); topology.ClassOf(err) != topology.Validation {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDecisionsOfPeople is requirement J1 for decisions of people: evidence names the person and
// the reason.
func TestDecisionsOfPeople(t *testing.T) {
	auditTopic := evidence.Topic("audit")
	d := newDriver(t, topology.Live, func(b *topology.Builder) {
		r := effect.Resolve(declare(b, newGateway(lost)), topology.From(b, resolutionsTopic), "people")
		evidence.Record(r.Decisions(), "people-audit", auditTopic)
	})
	d.request(oneOfTen)
	const said = `{"id":"c1","attempts":1,"status":"COMPLETED","by":"ada","note":"seen in their console"}`
	for range 2 {
		d.Pipe("resolutions", "k", said)
	}
	var got []string
	for _, r := range d.Take("audit") {
		e, err := evidence.Decode(r.Key, r.Value)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s: %s %s %s, %s, by %s: %s", e.Node, e.Outcome, e.Store, e.Row, e.Reason, e.By, e.Note))
	}
	want := []string{
		"people: resolved capture c1, COMPLETED after attempt 1, by ada: seen in their console",
		"people: duplicates capture c1, COMPLETED after attempt 1, by ada: seen in their console",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the evidence is %q, want %q", got, want)
	}
	if e := d.row("c1"); e.ResolvedBy != "ada" || e.ResolvedNote != "seen in their console" {
		t.Errorf("the row is %+v", e)
	}
	d.Pipe("resolutions", "k", `{"id":"c1","attempts":1,"status":"COMPLETED","by":"ada","note":"`+
		strings.Repeat("x", effect.NoteBytesMax+1)+`"}`)
	d.WantDeadLetter("people", topology.Validation, "the note of the resolution has more than 4096 bytes")
}

// TestResolutionDuringALookup: a person who comes in between is answered at once. The task would
// not hear the answer of the lookup while it waits for it.
func TestResolutionDuringALookup(t *testing.T) {
	d := newDriver(t, topology.Live, func(b *topology.Builder) {
		effect.Resolve(declare(b, newGateway(lost)), topology.From(b, resolutionsTopic), "people")
	})
	d.request(oneOfTen)
	d.one("unknown")
	d.SetRow("capture-claim", "another", `{"opening":"another","number":1,"at":1,"expires":9000000000000,`+
		`"steps":[{"id":"c1","was":"UNKNOWN","lookup":true}]}`)
	const said = `{"id":"c1","attempts":1,"status":"COMPLETED","by":"ada"}`
	d.Pipe("resolutions", "k", said)
	letter := d.WantDeadLetter("people", topology.Conflict,
		"the effect is being looked up; what is not known after that can be resolved")
	if letter.Info.Attempts != 1 {
		t.Errorf("there were %d attempts", letter.Info.Attempts)
	}
	d.DeleteRow("capture-claim", "another")
	d.Pipe("resolutions", "k", said)
	d.pass(time.Second)
	d.one("completed")
}

// TestClausesOfResolve: the contract says what people who end effects may rely on. Requirement K3.
func TestClausesOfResolve(t *testing.T) {
	b := topology.NewBuilder("app")
	effect.Resolve(declare(b, newGateway()), topology.From(b, resolutionsTopic), "people")
	topo, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	said := map[topology.Aspect]string{}
	for _, c := range topo.Clauses() {
		if c.Node == "people" {
			said[c.Aspect] = c.Text
		}
	}
	for aspect, text := range map[topology.Aspect]string{
		topology.KeyAssumption: "the key of its request", topology.IdempotencyKey: "all that the resolution says",
		topology.OnDuplicate: "is counted and changes nothing", topology.OutOfOrder: "another attempt than the last one",
	} {
		if !strings.Contains(said[aspect], text) {
			t.Errorf("%s: the contract does not say %q: %q", aspect, text, said[aspect])
		}
	}
}
