package effect_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/processors/effect"
	"github.com/onceward/onceward/processors/internal/processortest"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// TestLedger is requirement H2: an effect is a row with everything that is known of it.
func TestLedger(t *testing.T) {
	g := newGateway()
	d := newDriver(t, topology.Live, func(b *topology.Builder) { declare(b, g) })
	d.request(oneOfTen, topologytest.Header("traceparent", "t"))
	got := d.Take("completed")
	if len(got) != 1 || string(got[0].Key) != "k" || string(got[0].Headers[0].Value) != "t" {
		t.Fatalf("the results are %+v", got)
	}
	row := d.row("c1")
	if row.Status != effect.Completed || row.Type != "capture" || row.Target != "gateway" || row.BusinessKey != "o1" ||
		row.IdempotencyKey != effect.IdempotencyKey("capture", "c1") || row.Attempts != 1 || row.Due != 0 ||
		len(row.Request) != 64 || len(row.Response) != 64 || string(row.ResponseBody) != "receipt of c1" {
		t.Errorf("the row is %+v", row)
	}
	if rows := d.Rows("capture-claim", 0); len(rows) != 0 {
		t.Errorf("claims are left: %q", rows)
	}
	if rows := d.Rows("capture-due", 0); len(rows) != 0 {
		t.Errorf("the agenda has %q", rows)
	}
	d.WantCounts("capture.claims=1 capture.requested=1 capture-caller.completed=1")
}

// TestIdempotencyKeyStays: providers have seen it, so it must never change.
func TestIdempotencyKeyStays(t *testing.T) {
	if got := effect.IdempotencyKey("capture", "c1"); got != "d81bed6d14e31305df81121f7873edea" {
		t.Errorf("the key is %s", got)
	}
	if effect.IdempotencyKey("a", "bc") == effect.IdempotencyKey("ab", "c") {
		t.Error("two effects have one key")
	}
}

// TestDuplicates is requirement H4: a duplicate gets an answer of its own while the effect is in
// progress, after its end, and with another payload. None of them is a call.
func TestDuplicates(t *testing.T) {
	g := newGateway(refused)
	d := newDriver(t, topology.Live, func(b *topology.Builder) {
		declare(b, g, effect.EmitConflicts()).Conflicts().Into(conflictsTopic)
	})
	d.Pipe("captures", "k", oneOfTen)
	d.Pipe("captures", "k", `{"amount":10, "order":"o1", "id":"c1"}`)
	if r := d.one("progress"); r.Status != effect.Received || !r.Replayed {
		t.Errorf("before the call a duplicate gets %+v", r)
	}
	d.pass(100 * time.Millisecond)
	d.Pipe("captures", "k", oneOfTen)
	if r := d.one("progress"); r.Status != effect.FailedRetryable || r.Attempts != 1 {
		t.Errorf("between two calls a duplicate gets %+v", r)
	}
	d.Pipe("captures", "k", oneOfSix)
	d.pass(2 * time.Second)
	if r := d.one("completed"); r.Replayed || r.Attempts != 2 {
		t.Errorf("the end is %+v", r)
	}
	d.Pipe("captures", "k", oneOfTen)
	if r := d.one("completed"); !r.Replayed || string(r.ResponseBody) != "receipt of c1" {
		t.Errorf("after the end a duplicate gets %+v", r)
	}
	d.Pipe("captures", "k", oneOfSix)
	d.Want("conflicts", oneOfSix, oneOfSix)
	if calls, captured := g.count("c1"); calls != 2 || captured != 1 {
		t.Errorf("there were %d calls and %d captures", calls, captured)
	}
}

// TestConflictFails: without EmitConflicts, a conflict is a dead letter.
func TestConflictFails(t *testing.T) {
	g := newGateway()
	d := newDriver(t, topology.Live, func(b *topology.Builder) { declare(b, g) })
	d.request(oneOfTen)
	d.request(oneOfSix)
	d.WantDeadLetter("capture", topology.Conflict,
		"the effect was requested before with another payload, type, target, business or idempotency key")
}

// TestConflictPolicy: OnError is how a conflict stops the task.
func TestConflictPolicy(t *testing.T) {
	g := newGateway()
	d := newDriver(t, topology.Live, func(b *topology.Builder) {
		declare(b, g, effect.OnError(topology.Conflict, topology.Policy{Action: topology.Stop}))
	})
	d.request(oneOfTen)
	err := d.PipeRaw("captures", []byte("k"), []byte(oneOfSix))
	if failure, ok := errors.AsType[*topology.Failure](err); !ok || failure.Class != topology.Conflict {
		t.Fatalf("Pipe returned %v", err)
	}
}

// TestOutcomesOfCalls is requirement H3: an unknown outcome is looked up; a call that certainly had
// no effect is tried again, with the same key. Row of the failure matrix: failing dependency.
func TestOutcomesOfCalls(t *testing.T) {
	tests := map[string]struct {
		next            []behaviour
		topic           string
		reason          string
		calls, captured int
	}{
		"at once":            {nil, "completed", "", 1, 1},
		"a lost reply":       {[]behaviour{lost}, "completed", "", 1, 1},
		"a lost request":     {[]behaviour{cut}, "completed", "", 2, 1},
		"a panic":            {[]behaviour{panics}, "completed", "", 1, 1},
		"refused, then fine": {[]behaviour{refused, refused}, "completed", "", 3, 1},
		"refused, then lost": {[]behaviour{refused, lost}, "completed", "", 2, 1},
		"declined":           {[]behaviour{declined}, "failed", "the gateway has failed", 1, 0},
		"refused to the last": {
			[]behaviour{refused, refused, refused}, "failed", "the last attempt has failed: the gateway has failed", 3, 0,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			g := newGateway(test.next...)
			d := newDriver(t, topology.Live, func(b *topology.Builder) {
				declare(b, g, effect.Lookup(g.find), effect.Retry(3, time.Second, time.Second))
			})
			d.request(oneOfTen)
			d.pass(30 * time.Second)
			if r := d.one(test.topic); r.Reason != test.reason {
				t.Errorf("the reason is %q", r.Reason)
			}
			if calls, captured := g.count("c1"); calls != test.calls || captured != test.captured {
				t.Errorf("there were %d calls and %d captures", calls, captured)
			}
			for i, n := range g.attempts {
				if n != i+1 {
					t.Errorf("the attempts are %v", g.attempts)
				}
			}
		})
	}
}

// TestIrreversibleEffects is the other half of requirement H3: without a lookup, and without a
// provider that makes one effect of all repetitions, a person decides.
func TestIrreversibleEffects(t *testing.T) {
	for _, test := range []struct {
		end             effect.Status
		topic           string
		calls, captured int
	}{
		{effect.Completed, "completed", 1, 1},
		{effect.FailedTerminal, "failed", 1, 1},
		{effect.FailedRetryable, "completed", 2, 2},
	} {
		t.Run(test.end.String(), func(t *testing.T) {
			g := newGateway(lost)
			d := newDriver(t, topology.Live, func(b *topology.Builder) {
				effect.Resolve(declare(b, g), topology.From(b, resolutionsTopic), "people")
			})
			d.request(oneOfTen)
			d.pass(time.Hour)
			if r := d.one("unknown"); r.Status != effect.Unknown || r.Reason != "there was no answer in time" {
				t.Errorf("people see %+v", r)
			}
			if calls, _ := g.count("c1"); calls != 1 {
				t.Fatalf("there were %d calls", calls)
			}
			err := topologytest.Pipe(d.Driver.Driver, resolutionsTopic, "k",
				effect.Resolution{ID: "c1", Attempts: 1, Status: test.end, By: "ada", Note: "by phone", Response: []byte("seen")})
			if err != nil {
				t.Fatal(err)
			}
			d.pass(time.Second)
			by, note := "ada", "by phone"
			if test.end == effect.FailedRetryable {
				by, note = "", "" // the program has found out how it ends
			}
			if r := d.one(test.topic); r.ResolvedBy != by || r.ResolvedNote != note || d.row("c1").Doubt {
				t.Errorf("the end is %+v", r)
			}
			if calls, captured := g.count("c1"); calls != test.calls || captured != test.captured {
				t.Errorf("there were %d calls and %d captures", calls, captured)
			}
		})
	}
}

// TestModes is requirement I2: outside of a live run no calls are made, unless they are asked for.
func TestModes(t *testing.T) {
	for _, test := range []struct {
		app    topology.Mode
		header string
		opts   []effect.Option
		calls  int
	}{
		{topology.Live, "", nil, 1},
		{topology.Live, "REPAIR", nil, 0},
		{topology.Live, "REPAIR", []effect.Option{effect.AlsoIn(topology.Repair)}, 1},
		{topology.Replay, "", nil, 0},
		{topology.Backfill, "", nil, 0},
		{topology.Backfill, "", []effect.Option{effect.AlsoIn(topology.Backfill)}, 1},
		{topology.Live, "BACKFILL", nil, 0},
		{topology.Repair, "", nil, 0},
		{topology.Forensic, "", nil, 0},
		{topology.Forensic, "", []effect.Option{effect.AlsoIn(topology.Replay)}, 0},
	} {
		g := newGateway()
		d := newDriver(t, test.app, func(b *topology.Builder) { declare(b, g, test.opts...) })
		var opts []topologytest.PipeOption
		if test.header != "" {
			opts = append(opts, topologytest.Header(topology.HeaderMode, test.header))
		}
		d.request(oneOfTen, opts...)
		calls, _ := g.count("c1")
		if calls != test.calls {
			t.Errorf("%+v: there were %d calls", test, calls)
		}
		if n := len(d.Take("suppressed")); n != 1-test.calls {
			t.Errorf("%+v: there are %d suppressed results", test, n)
		}
	}
}

// TestSuppressedStays: a live duplicate of a request that a replay has suppressed is no reason to
// call. A person can release it.
func TestSuppressedStays(t *testing.T) {
	g := newGateway()
	d := newDriver(t, topology.Live, func(b *topology.Builder) {
		effect.Resolve(declare(b, g), topology.From(b, resolutionsTopic), "people")
	})
	d.request(oneOfTen, topologytest.Header(topology.HeaderMode, "REPLAY"))
	if r := d.one("suppressed"); r.Status != effect.Suppressed || r.Reason != "no calls are made in mode REPLAY" {
		t.Errorf("the result is %+v", r)
	}
	d.request(oneOfTen)
	if r := d.one("suppressed"); !r.Replayed {
		t.Errorf("a duplicate gets %+v", r)
	}
	if calls, _ := g.count("c1"); calls != 0 {
		t.Fatalf("there were %d calls", calls)
	}
	d.Pipe("resolutions", "k", `{"id":"c1","status":"FAILED_RETRYABLE","by":"ada"}`)
	d.pass(time.Second)
	if calls, _ := g.count("c1"); calls != 1 {
		t.Errorf("there were %d calls after the release", calls)
	}
}

// TestFailureBehindAnEffectUndoesNothing: the record that fails is the result's, and the call is
// not made again.
func TestFailureBehindAnEffectUndoesNothing(t *testing.T) {
	g := newGateway()
	d := newDriver(t, topology.Live, func(b *topology.Builder) {
		e := declare(b, g)
		e.Completed().Peek("fragile", func(topology.Record[string, effect.Result]) error {
			return schemas.Reason("asked to")
		})
	})
	d.request(oneOfTen)
	d.WantDeadLetter("fragile", topology.Poison, "asked to")
	if row := d.row("c1"); row.Status != effect.Completed {
		t.Errorf("the row is %+v", row)
	}
	d.pass(time.Minute)
	if calls, _ := g.count("c1"); calls != 1 {
		t.Errorf("there were %d calls", calls)
	}
}

func TestRequestsThatCannotBeKept(t *testing.T) {
	large := strings.Repeat("x", effect.PayloadBytesMax)
	tests := map[string]struct{ value, message string }{
		"no id":    {`{"amount":1}`, "the id is missing"},
		"large":    {`{"id":"` + "c1" + `","amount":1,"order":"` + large[:2000] + `"}`, "the id has more than 1024 bytes"},
		"too much": {`{"id":"c1","amount":1}`, "payload and headers of the request have more than 256 KiB"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d := newDriver(t, topology.Live, func(b *topology.Builder) { declare(b, newGateway()) })
			var opts []topologytest.PipeOption
			if name == "too much" {
				opts = append(opts, topologytest.Header("large", large))
			}
			d.request(test.value, opts...)
			d.WantDeadLetter("capture", topology.Validation, test.message)
		})
	}
}

// TestLargeResponse: its hash stays, and the effect is as complete as any other.
func TestLargeResponse(t *testing.T) {
	g := newGateway()
	d := newDriver(t, topology.Live, func(b *topology.Builder) {
		e := effect.Perform(topology.From(b, capturesTopic), "capture", captureRequest, largely(g.capture))
		e.Completed().Into(topology.Topic("completed", schemas.String(), resultCodec))
	})
	d.request(oneOfTen)
	if r := d.one("completed"); r.ResponseBody != nil || len(r.Response) != 64 {
		t.Errorf("the result is %+v", r)
	}
}

func TestMistakes(t *testing.T) {
	request := func(b *topology.Builder, opts ...effect.Option) int {
		effect.Perform(topology.From(b, capturesTopic), "capture", captureRequest, newGateway().capture, opts...)
		return processortest.Above()
	}
	tests := map[string]struct {
		opt  effect.Option
		text string
	}{
		"nil":      {nil, "an option is nil"},
		"lookup":   {effect.Lookup(nil), "Lookup: the function is nil"},
		"parallel": {effect.Parallel(0), "a number from 1 to 1024"},
		"timeout":  {effect.Timeout(0), "at least a millisecond"},
		"long":     {effect.Timeout(time.Minute), "too short for calls of 1m0s"},
		"claims":   {effect.Claims(0, 0), "the first one is not zero"},
		"retry":    {effect.Retry(0, 1, 1), "at least one attempt"},
		"forensic": {effect.AlsoIn(topology.Forensic), "a forensic run makes no calls"},
		"key":      {effect.Key(schemas.Int64()), "not one for string"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			texts := []string{test.text}
			if name == "claims" {
				texts = []string{test.text, "too short"}
			}
			processortest.WantMistakes(t, func(b *topology.Builder) int { return request(b, test.opt) }, texts[:1]...)
		})
	}
	processortest.WantMistakes(t, func(b *topology.Builder) int {
		effect.Perform[string, Capture](topology.From(b, capturesTopic), "capture", nil, nil)
		return processortest.Above()
	}, "reads the request is nil", "makes the calls is nil")
	processortest.WantMistakes(t, func(b *topology.Builder) int {
		g := newGateway()
		return request(b, effect.Lookup(g.find), effect.Repeatable())
	}, "give one of them")
}

func TestMarkedErrors(t *testing.T) {
	if effect.Retryable(nil) != nil || effect.Terminal(nil) != nil {
		t.Error("nil is marked")
	}
	if err := effect.Terminal(errGateway); !errors.Is(err, errGateway) || err.Error() != string(errGateway) {
		t.Errorf("the error is %v", err)
	}
}

// TestClauses is requirement H1: a contract says plainly that calls are outside of the promise, and
// K3: it says what becomes of duplicates, of disorder and of replays.
func TestClauses(t *testing.T) {
	b := topology.NewBuilder("app")
	g := newGateway()
	effect.Perform(topology.From(b, capturesTopic), "capture", captureRequest, g.capture, effect.Lookup(g.find),
		effect.AlsoIn(topology.Repair))
	topo, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	said := map[topology.Aspect]string{}
	for _, c := range topo.Clauses() {
		said[c.Aspect] = c.Text
	}
	for aspect, text := range map[topology.Aspect]string{
		topology.SideEffects: "outside of the exactly-once promise", topology.IdempotencyKey: "the name capture",
		topology.OnDuplicate: "not called again", topology.OutOfOrder: "not ordered", topology.OnReplay: "LIVE, REPAIR",
		topology.KeyAssumption: "same record key", topology.Retention: "without a limit",
	} {
		if !strings.Contains(said[aspect], text) {
			t.Errorf("%s: %q", aspect, said[aspect])
		}
	}
}
