package transition_test

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/processors/decision"
	"github.com/onceward/onceward/processors/internal/processortest"
	"github.com/onceward/onceward/processors/transition"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// takeRefusals returns what was refused since the last time, as "refusal id (state, version)".
func takeRefusals(tb testing.TB, d *processortest.Driver) string {
	tb.Helper()
	var texts []string
	for _, r := range d.Take("refused") {
		var v refused
		if err := json.Unmarshal(r.Value, &v); err != nil {
			tb.Fatal(err)
		}
		if v.Reason == "" || v.Transition != transition.Transition[State](v.Value) {
			tb.Errorf("the refusal is %+v", v)
		}
		texts = append(texts, fmt.Sprintf("%s %s (%s, %d)", v.Refusal, v.Transition.ID, v.State, v.Version))
	}
	return strings.Join(texts, "; ")
}

func rows(d *processortest.Driver) map[string]string {
	all := d.Rows("orders-aggregates", 0)
	for k, v := range d.Rows("orders-transitions", 0) {
		all["transition "+k] = v
	}
	return all
}

// TestF1Declared: a transition has an id, an aggregate and two states. Those that the machine
// declares are accepted, for each aggregate on its own.
func TestF1Declared(t *testing.T) {
	d := newRouted(t, orders)
	send(d, place, pay, ship)
	sendTo(d, "other", place)
	sendTo(d, "other", Ask{ID: "t9", From: Placed, To: Cancelled})
	accepted := d.Take("accepted")
	if len(accepted) != 5 || string(accepted[4].Key) != "other" {
		t.Errorf("%d records were accepted, the last of %q", len(accepted), accepted[len(accepted)-1].Key)
	}
	var facts []string
	for _, r := range d.Take("facts") {
		var f fact
		if err := json.Unmarshal(r.Value, &f); err != nil {
			t.Fatal(err)
		}
		facts = append(facts, fmt.Sprintf("%s: %s %q-%q %d", r.Key, f.ID, f.From, f.To, f.Version))
	}
	want := `[k: t1 ""-"placed" 1 k: t2 "placed"-"paid" 2 k: t3 "paid"-"shipped" 3 ` +
		`other: t1 ""-"placed" 1 other: t9 "placed"-"cancelled" 2]`
	if got := fmt.Sprint(facts); got != want {
		t.Errorf("the facts are\n%s, want\n%s", got, want)
	}
	d.WantCounts("orders.accepted=5")
}

// refusalsOf are a way to each refusal, with what was accepted before.
var refusalsOf = map[string]struct {
	before []Ask
	ask    Ask
	want   string
	opts   []transition.Option
}{
	"duplicate":         {before: []Ask{place, pay, ship}, ask: pay, want: "duplicate t2 (shipped, 3)"},
	"stale":             {before: []Ask{place, pay}, ask: Ask{ID: "x", From: Placed, To: Cancelled}, want: "stale x (paid, 2)"},
	"stale creation":    {before: []Ask{place}, ask: Ask{ID: "x", To: Placed}, want: "stale x (placed, 1)"},
	"illegal":           {before: []Ask{place}, ask: Ask{ID: "x", From: Placed, To: Shipped}, want: "illegal x (placed, 1)"},
	"illegal creation":  {ask: Ask{ID: "x", To: Paid}, want: "illegal x (, 0)"},
	"undeclared from":   {before: []Ask{place}, ask: Ask{ID: "x", From: "lost", To: Paid}, want: "illegal x (placed, 1)"},
	"undeclared to":     {before: []Ask{place}, ask: Ask{ID: "x", From: Placed, To: "lost"}, want: "illegal x (placed, 1)"},
	"missing aggregate": {ask: pay, want: "missing-aggregate t2 (, 0)"},
	"out of order":      {before: []Ask{place}, ask: ship, want: "out-of-order t3 (placed, 1)"},
	"corruption, to": {
		before: []Ask{place, pay}, ask: Ask{ID: "t2", From: Placed, To: Cancelled}, want: "corruption t2 (paid, 2)",
	},
	"corruption, from": {before: []Ask{place}, ask: Ask{ID: "t1", From: Paid, To: Placed}, want: "corruption t1 (placed, 1)"},
	"never to be reached": {
		before: []Ask{place, {ID: "t2", From: Placed, To: Cancelled}}, ask: ship, want: "illegal t3 (cancelled, 2)",
	},
	"version, duplicate": {
		opts: versioned, before: []Ask{numbered(place, 4), numbered(pay, 5)}, ask: numbered(place, 4),
		want: "duplicate t1 (paid, 5)",
	},
	"version, corruption of an id": {
		opts: versioned, before: []Ask{numbered(place, 4)}, ask: numbered(place, 5), want: "corruption t1 (placed, 4)",
	},
	"version, stale": {
		opts: versioned, before: []Ask{numbered(place, 4), numbered(pay, 5)},
		ask: Ask{ID: "x", From: Placed, To: Paid, Version: 3}, want: "stale x (paid, 5)",
	},
	"version, fork": {
		opts: versioned, before: []Ask{numbered(place, 4), numbered(pay, 5), numbered(ship, 6)},
		ask: Ask{ID: "x", From: Placed, To: Cancelled, Version: 5}, want: "corruption x (shipped, 6)",
	},
	"version, fork at the end": {
		opts: versioned, before: []Ask{numbered(place, 4), numbered(pay, 5)},
		ask: Ask{ID: "x", From: Placed, To: Paid, Version: 5}, want: "corruption x (paid, 5)",
	},
	"version, fork at the beginning": {
		opts: versioned, before: []Ask{numbered(place, 4), numbered(pay, 5)},
		ask: Ask{ID: "x", To: Placed, Version: 4}, want: "corruption x (paid, 5)",
	},
	"version, out of order": {
		opts: versioned, before: []Ask{numbered(place, 4)},
		ask: Ask{ID: "x", From: Placed, To: Paid, Version: 6}, want: "out-of-order x (placed, 4)",
	},
	"version, corruption of the history": {
		opts: versioned, before: []Ask{numbered(place, 4)}, ask: numbered(ship, 5), want: "corruption t3 (placed, 4)",
	},
	"version, missing aggregate": {opts: versioned, ask: numbered(pay, 2), want: "missing-aggregate t2 (, 0)"},
	"version, illegal": {
		opts: versioned, before: []Ask{numbered(place, 4)},
		ask: Ask{ID: "x", From: Placed, To: Shipped, Version: 5}, want: "illegal x (placed, 4)",
	},
}

var versioned = []transition.Option{transition.Versioned()}

// TestF2Refusals: the six refusals are told apart, are counted under their own names, and change
// nothing.
func TestF2Refusals(t *testing.T) {
	for name, way := range refusalsOf {
		t.Run(name, func(t *testing.T) {
			d := newRouted(t, orders, way.opts...)
			send(d, way.before...)
			before := rows(d)
			d.Want("refused")
			d.Take("facts")
			d.Take("accepted")
			send(d, way.ask)
			if got := takeRefusals(t, d); got != way.want {
				t.Errorf("refused: %s, want %s", got, way.want)
			}
			d.Want("facts")
			d.Want("accepted")
			d.Want("dead")
			if after := rows(d); !maps.Equal(after, before) {
				t.Errorf("the rows changed from %q to %q", before, after)
			}
			refusal, _, _ := strings.Cut(way.want, " ")
			counted := map[string]string{"duplicate": "duplicates"}[refusal]
			if d.Count("orders", cmp.Or(counted, refusal)) != 1 {
				t.Errorf("the counts are %v", d.Counts())
			}
		})
	}
}

// TestF2Unrouted: a refusal that is not emitted fails under its name, and a duplicate ends.
func TestF2Unrouted(t *testing.T) {
	classes := map[string]topology.Class{
		"stale": topology.Conflict, "illegal": topology.Validation, "missing-aggregate": topology.Validation,
		"out-of-order": topology.Validation, "corruption": topology.Conflict,
	}
	for name, way := range refusalsOf {
		t.Run(name, func(t *testing.T) {
			d := newBare(t, way.opts...)
			send(d, way.before...)
			before := rows(d)
			send(d, way.ask)
			refusal, _, _ := strings.Cut(way.want, " ")
			letters, err := d.DeadLetters()
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case refusal == "duplicate":
				if len(letters) != 0 || d.Count("orders", "duplicates") != 1 {
					t.Errorf("there are %d dead letters, and the counts are %v", len(letters), d.Counts())
				}
			case len(letters) != 1 || letters[0].Info.Class != classes[refusal] ||
				!strings.HasPrefix(letters[0].Info.Message, refusal+": "):
				t.Errorf("the dead letters are %+v", letters)
			}
			if after := rows(d); !maps.Equal(after, before) {
				t.Errorf("the rows changed from %q to %q", before, after)
			}
		})
	}
}

// TestF2Cycle: in a machine with a cycle a state that is left is stale, and versions tell when it
// is ahead.
func TestF2Cycle(t *testing.T) {
	d := newRouted(t, doors)
	send(d, Ask{ID: "1", To: "open"}, Ask{ID: "2", From: "open", To: "open"}, Ask{ID: "3", From: "open", To: "shut"},
		Ask{ID: "5", From: "open", To: "shut"}, Ask{ID: "6", From: "locked", To: "shut"},
		Ask{ID: "4", From: "shut", To: "open"}, Ask{ID: "5", From: "open", To: "shut"})
	if got, want := takeRefusals(t, d), "stale 5 (shut, 3); out-of-order 6 (shut, 3)"; got != want {
		t.Errorf("refused: %s, want %s", got, want)
	}
	d = newRouted(t, doors, transition.Versioned())
	send(d, Ask{ID: "1", To: "open", Version: 1}, Ask{ID: "2", From: "open", To: "shut", Version: 2},
		Ask{ID: "4", From: "open", To: "shut", Version: 4}, Ask{ID: "x", From: "open", To: "shut", Version: 2},
		Ask{ID: "3", From: "shut", To: "open", Version: 3}, Ask{ID: "4", From: "open", To: "shut", Version: 4})
	if got, want := takeRefusals(t, d), "out-of-order 4 (shut, 2); corruption x (shut, 2)"; got != want {
		t.Errorf("refused with versions: %s, want %s", got, want)
	}
}

// TestF3RecordedOnce: however often a transition comes, also after a restart, there is one fact and
// one row.
func TestF3RecordedOnce(t *testing.T) {
	d := newRouted(t, orders)
	at := topologytest.At(time.UnixMilli(946_684_800_123))
	sendTo(d, "k", place, at, topologytest.Header("fail", ""))
	d.WantDeadLetter("fragile", topology.Poison, "asked to")
	d.Want("facts")
	for range 3 {
		sendTo(d, "k", place, at)
		d.Restart()
	}
	d.Want("facts", `{"id":"t1","from":"","to":"placed","version":1,"timestamp":946684800123}`)
	d.Want("accepted", `{"id":"t1","from":"","to":"placed"}`)
	if n := len(d.Rows("orders-transitions", 0)); n != 1 {
		t.Errorf("%d transitions are recorded", n)
	}
	d.WantCounts("fragile.dead-letter-poison=1 orders.accepted=1 orders.duplicates=2")
}

// TestGolden pins what is stored, for ever.
func TestGolden(t *testing.T) {
	var g guarded
	d := processortest.New(t, func(b *topology.Builder) { g = routed(b, orders, transition.Versioned()) })
	at := topologytest.At(time.UnixMilli(0x0102030405))
	sendTo(d, "a\x00b", numbered(place, 7), at)
	sendTo(d, "a\x00b", numbered(pay, 8), at)
	text := func(s string) string { return fmt.Sprintf("%02x", len(s)) + hex.EncodeToString([]byte(s)) }
	const time1 = "0000000102030405"
	for store, want := range map[string]map[string]string{
		"orders-aggregates": {"a\x00b": "02" + "0000000000000008" + time1 + "0000000000000007" + "02" + text("paid") + text("placed")},
		"orders-transitions": {
			"a\x00\xffb\x00\x01t1": "01" + "0000000000000007" + time1 + "00" + text("placed"),
			"a\x00\xffb\x00\x01t2": "01" + "0000000000000008" + time1 + text("placed") + text("paid"),
		},
	} {
		got := d.Rows(store, 0)
		for k, v := range got {
			got[k] = hex.EncodeToString([]byte(v))
		}
		if !maps.Equal(got, want) {
			t.Errorf("store %s has %q, want %q", store, got, want)
		}
	}
	aggregates, err := topologytest.Store(d.Driver, g.AggregateStore(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if a, ok, err := aggregates.Get("a\x00b"); fmt.Sprint(a, ok, err) != "{paid 8 4328719365 7 [placed]} true <nil>" {
		t.Error(a, ok, err)
	}
	facts, err := topologytest.Store(d.Driver, g.FactStore(), 0)
	if err != nil {
		t.Fatal(err)
	}
	key := transition.FactKey[string]{Aggregate: "a\x00b", ID: "t2"}
	if f, ok, err := facts.Get(key); fmt.Sprint(f, ok, err) != "{ placed paid 8 4328719365} true <nil>" {
		t.Error(f, ok, err)
	}
}

// TestRoutes: each refusal goes to every stream that has it, and only refusals that are emitted do
// not fail.
func TestRoutes(t *testing.T) {
	d := processortest.New(t, func(b *topology.Builder) {
		g := transition.Guard(topology.From(b, askTopic), "orders", orders, read, transition.EmitRefused(transition.Illegal, transition.Stale))
		g.Refused(transition.Illegal, transition.Stale).Into(refusedTopic)
		g.Refused(transition.Stale, transition.Illegal, transition.Stale).IntoNamed("again", refusedTopic)
		g.Refused(transition.Stale).Into(topology.Topic("stale", schemas.String(), schemas.JSON[refused]()))
		g.Refused(transition.OutOfOrder) // nothing uses it
	})
	send(d, place, Ask{ID: "x", To: Placed}, Ask{ID: "x", To: Paid})
	if got, want := takeRefusals(t, d), "stale x (placed, 1); stale x (placed, 1); illegal x (placed, 1); "+
		"illegal x (placed, 1)"; got != want {
		t.Errorf("refused: %s, want %s", got, want)
	}
	if n := len(d.Take("stale")); n != 1 {
		t.Errorf("%d records on the stream of the stale ones", n)
	}
	send(d, ship)
	d.WantDeadLetter("orders", topology.Validation,
		"out-of-order: the aggregate has not come to the state that the transition leaves")
}

// TestUnusable: what is no transition fails before it is compared with anything.
func TestUnusable(t *testing.T) {
	d := newRouted(t, orders)
	send(d, place)
	for reason, a := range map[string]Ask{
		"the id is missing":                               {From: Placed, To: Paid},
		"the id has more than 1024 bytes":                 {ID: strings.Repeat("x", 1025), From: Placed, To: Paid},
		"the state that the transition enters is missing": {ID: "t1", From: Placed},
	} {
		send(d, a)
		d.WantDeadLetter("orders", topology.Validation, reason)
	}
	if err := d.PipeRaw("asks", []byte("k"), []byte(`{"id":"x","from":"placed","to":"paid","version":2}`)); err == nil ||
		!strings.Contains(err.Error(), "config: the transition has a version, and the guard is declared without") {
		t.Errorf("Pipe returned %v", err)
	}
	d = newRouted(t, orders, transition.Versioned())
	for _, version := range []int64{0, -1} {
		send(d, numbered(place, version))
		d.WantDeadLetter("orders", topology.Validation, "the version of the transition is not one from 1")
	}
}

func TestReadError(t *testing.T) {
	for _, class := range []topology.Class{0, topology.Poison, topology.Validation} {
		d := processortest.New(t, func(b *topology.Builder) {
			routedFrom(b, orders, func(ask) (transition.Transition[State], error) {
				err := error(schemas.Reason("unreadable"))
				if class != 0 {
					err = topology.Fail(class, err)
				}
				return transition.Transition[State]{}, err
			})
		})
		send(d, place)
		d.WantDeadLetter("orders", max(class, topology.Validation), "unreadable")
	}
}

func TestNullKey(t *testing.T) {
	d := processortest.New(t, func(b *topology.Builder) {
		s := topology.From(b, topology.Topic("asks", schemas.Bytes(), schemas.JSON[Ask]()))
		transition.Guard(s, "orders", orders, func(r topology.Record[[]byte, Ask]) (transition.Transition[State], error) {
			return transition.Transition[State](r.Value), nil
		})
	})
	if err := d.PipeRaw("asks", nil, []byte(`{"id":"t1","from":"","to":"placed"}`)); err != nil {
		t.Fatal(err)
	}
	d.WantDeadLetter("orders", topology.Validation, "the key is null, and the state is kept by key")
}

func TestOnError(t *testing.T) {
	d := newBare(t, transition.OnError(topology.Validation, topology.Policy{Action: topology.Stop}))
	err := d.PipeRaw("asks", []byte("k"), []byte(`{"id":"t2","from":"placed","to":"paid"}`))
	if err == nil || !strings.Contains(err.Error(), "validation: missing-aggregate: ") {
		t.Fatalf("Pipe returned %v", err)
	}
}

// TestDamage: rows that contradict each other or the machine stop the task, and are never a
// refusal. Row of the failure matrix: corrupt state directory.
func TestDamage(t *testing.T) {
	row := func(version byte, states string) string {
		return "\x01\x00\x00\x00\x00\x00\x00\x00" + string(version) + strings.Repeat("\x00", 8) + states
	}
	for name, damage := range map[string]struct{ aggregate, fact, want string }{
		"fact without aggregate": {fact: row(1, "\x00\x06placed"),
			want: "corruption: the recorded transitions of the aggregate do not lead to its state"},
		"fact of a later version": {aggregate: row(1, "\x01\x06placed"), fact: row(2, "\x06placed\x04paid"),
			want: "corruption: the recorded transitions of the aggregate do not lead to its state"},
		"other format": {aggregate: "\x03" + strings.Repeat("x", 40), want: "a format that this build does not read"},
		"unknown state": {aggregate: row(1, "\x01\x04lost"),
			want: "config: the aggregate is in a state that the machine does not have"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newRouted(t, orders)
			if damage.aggregate != "" {
				d.SetRow("orders-aggregates", "k", damage.aggregate)
			}
			if damage.fact != "" {
				d.SetRow("orders-transitions", "k\x00\x01t1", damage.fact)
			}
			err := d.PipeRaw("asks", []byte("k"), []byte(`{"id":"t1","from":"","to":"placed"}`))
			if err == nil || !strings.Contains(err.Error(), damage.want) {
				t.Fatalf("Pipe returned %v", err)
			}
		})
	}
}

// TestDecisions is requirement J1: each outcome is told with its row, whether it is emitted or not,
// and one that fails is not.
func TestDecisions(t *testing.T) {
	logTopic := topology.Topic("log", schemas.Bytes(), schemas.String())
	d := processortest.New(t, func(b *topology.Builder) {
		g := transition.Guard(topology.From(b, askTopic), "orders", orders, read, transition.EmitRefused(transition.OutOfOrder))
		g.Refused(transition.OutOfOrder).Filter("end", func(topology.Record[string, refused]) (bool, error) {
			return false, nil
		})
		topology.MapValues(g.Decisions(), "log", func(v decision.Decision) (string, error) {
			return fmt.Sprint(v.Node, " ", v.Outcome, " ", v.Store, " ", v.Subject, v.Before, v.After, v.Reason != ""), nil
		}).Into(logTopic)
	})
	send(d, place, place, ship, pay, Ask{ID: "x", From: Placed, To: Paid})
	const node = "orders "
	got := d.Want("log", node+"accepted orders-aggregates t1{0 false} {1 true} false",
		node+"duplicates orders-aggregates t1{1 true} {1 true} true",
		node+"out-of-order orders-aggregates t3{1 true} {1 true} true",
		node+"accepted orders-aggregates t2{1 true} {2 true} false")
	if string(got[0].Key) != "k" {
		t.Errorf("the row is %q", got[0].Key)
	}
	d.Want("dead", `{"id":"x","from":"placed","to":"paid","version":0}`)
}
