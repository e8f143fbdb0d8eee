package inbox_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/onceward/onceward/processors/inbox"
	"github.com/onceward/onceward/processors/internal/processortest"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/topology/topologytest"
)

// The tests of this file show the requirements of an inbox. Other files show C4, C7 and C8.

// TestPerEffect: the id is chosen for each effect, and each of them has seen what it has seen
// itself. Requirement B2.
func TestPerEffect(t *testing.T) {
	d := processortest.New(t, func(b *topology.Builder) {
		s := topology.From(b, paymentsTopic)
		inbox.Dedupe(s, "mails", paymentID, inbox.Forever())
		inbox.Dedupe(s, "captures", func(r payment) (string, error) { return r.Value.Note, nil }, inbox.Forever(), inbox.PayloadWithout("id"))
	})
	d.Pipe("payments", "k", `{"id":"a","amount":1,"note":"capture-1"}`)
	d.Pipe("payments", "k", `{"id":"b","amount":1,"note":"capture-1"}`)
	d.WantCounts("captures.accepted=1 captures.duplicates=1 mails.accepted=2")
}

// TestUnstableIDs: an id that is another one for the same record, such as a random number or a time
// of processing, stops the task before it lets everything pass. Requirement B3.
func TestUnstableIDs(t *testing.T) {
	for node, opts := range map[string][]inbox.Option{"inbox": nil, "inbox-by-id": {globally()}} {
		n := 0
		d := processortest.New(t, func(b *topology.Builder) {
			inbox.Dedupe(topology.From(b, paymentsTopic), "inbox", func(payment) (string, error) {
				n++
				return fmt.Sprint(n), nil
			}, inbox.Kept(opts...)...)
		})
		err := d.PipeRaw("payments", []byte("k"), []byte(`{}`))
		var failure *topology.Failure
		if !errors.As(err, &failure) || failure.Class != topology.Config || failure.Node != node {
			t.Errorf("Pipe returned %v", err)
		}
	}
}

// TestIngestionID: a position is an id where there is no other, and the position of a copy is none.
// Requirement B3.
func TestIngestionID(t *testing.T) {
	d := processortest.New(t, func(b *topology.Builder) {
		s := topology.From(b, paymentsTopic)
		inbox.Dedupe(s, "first", inbox.IngestionID, inbox.Forever())
		inbox.Dedupe(s, "detour", inbox.IngestionID, inbox.Forever(), globally()).Accepted().Into(acceptedTopic)
		copied := topology.RepartitionWith(s, "copy", schemas.String(), schemas.JSON[Payment]())
		inbox.Dedupe(copied, "second", inbox.IngestionID, inbox.Forever())
	})
	err := d.PipeRaw("payments", []byte("k"), []byte(`{}`))
	var failure *topology.Failure
	if !errors.As(err, &failure) || failure.Class != topology.Config || failure.Node != "second" {
		t.Errorf("Pipe returned %v", err)
	}
	if rows := d.Rows("first", 0); len(rows) != 1 || rows["payments/0/0"] == "" {
		t.Errorf("the ids are %q", rows)
	}
	if rows := d.Rows("detour", 0); len(rows) != 1 || rows["payments/0/0"] == "" {
		t.Errorf("the ids are %q", rows)
	}
}

// TestIngestionIDOfAnOrigin: the position of a copy that says of which delivery it is is the id of
// that delivery. Requirement B3.
func TestIngestionIDOfAnOrigin(t *testing.T) {
	d := processortest.New(t, func(b *topology.Builder) {
		copied := topology.RepartitionWith(topology.From(b, paymentsTopic), "copy", schemas.String(), schemas.JSON[Payment](), topology.KeepOrigin())
		inbox.Dedupe(copied, "inbox", inbox.IngestionID, inbox.Forever())
	})
	d.Pipe("payments", "k", `{"amount":1}`)
	d.Pipe("payments", "k", `{"amount":1}`)
	if rows := d.Rows("inbox", 0); len(rows) != 2 || rows["payments/0/0"] == "" || rows["payments/0/1"] == "" {
		t.Errorf("the ids are %q", rows)
	}
}

// TestNoIngestionID: what comes from no topic, or from many records, has no delivery that could
// name it. Requirement B3.
func TestNoIngestionID(t *testing.T) {
	d := processortest.New(t, func(b *topology.Builder) {
		s := topology.From(b, paymentsTopic)
		node := topology.Stateful(s, "tick").Copartitioned()
		out := topology.Outlet[string, Payment](node, "out")
		node.Process(func(t *topology.Setup) (topology.Handler[string, Payment], error) {
			emit := out.In(t)
			t.OnStreamTime(time.Second, func(c *topology.Context, _ time.Time) error {
				refused, err := c.Try(func() error { return emit(c, payment{Key: "tick"}) })
				if refused == nil || refused.Class != topology.Validation || refused.Node != "ticks" {
					return topology.Fail(topology.Fatal, schemas.Reason("the record of a punctuation was not refused"))
				}
				return err
			})
			return func(*topology.Context, payment) error { return nil }, nil
		})
		inbox.Dedupe(out.Stream(), "ticks", inbox.IngestionID, inbox.Forever())
	})
	for seconds := range 3 {
		d.Pipe("payments", "k", `{}`, topologytest.At(time.Unix(int64(seconds), 0)))
	}
	if rows := d.Rows("ticks", 0); len(rows) != 0 {
		t.Errorf("the ids are %q", rows)
	}
}

// TestMarkIsNotSetBeforeTheEffect: the mark and the effect stand or fall together, so a record
// whose effect has failed is seen for the first time when it comes again. A mark that is set
// before, or beside, loses it. Requirement C1.
func TestMarkIsNotSetBeforeTheEffect(t *testing.T) {
	failing := true
	d := processortest.New(t, func(b *topology.Builder) {
		in := inbox.Dedupe(topology.From(b, paymentsTopic), "inbox", paymentID, inbox.Retain(time.Hour),
			inbox.Archive(archiveTopic),
			inbox.BusinessKey(byNote))
		in.Accepted().Into(acceptedTopic)
		in.Accepted().Peek("effect", func(payment) error {
			if failing {
				return schemas.Reason("asked to")
			}
			return nil
		})
	})
	d.Pipe("payments", "k", `{"id":"a","amount":1,"note":"n"}`)
	d.Want("accepted")
	for _, store := range []string{"inbox", "inbox-business", "inbox-archive"} {
		if rows := d.Rows(store, 0); len(rows) != 0 {
			t.Errorf("the failed record has left %x in %s", rows, store)
		}
	}
	failing = false
	d.Pipe("payments", "k", `{"id":"a","amount":1,"note":"n"}`)
	d.Pipe("payments", "k", `{"id":"a","amount":1,"note":"n"}`)
	d.Want("accepted", `{"id":"a","amount":1,"note":"n"}`)
}

// brokenStore is a store that cannot be read.
type brokenStore struct{}

var errOutage = errors.New("outage")

func (brokenStore) Get([]byte) ([]byte, bool, error) { return nil, false, errOutage }
func (brokenStore) Put([]byte, []byte) error         { return errOutage }
func (brokenStore) Delete([]byte) error              { return errOutage }
func (brokenStore) StreamTime() int64                { return 0 }
func (brokenStore) Advance(int64)                    {}
func (brokenStore) Scan(state.Range) iter.Seq2[state.Entry, error] {
	return func(yield func(state.Entry, error) bool) { yield(state.Entry{}, errOutage) }
}

// outage is the state of a task whose stores are all away.
type outage struct{}

func (outage) Store(string) state.Bytes { return brokenStore{} }
func (outage) Mark()                    {}
func (outage) Revert()                  {}
func (outage) Savepoint() func()        { return func() {} }

// TestOutageDropsNothing: where the inbox cannot look, the record is neither accepted nor dropped:
// the task stops in front of it. Row of the failure matrix: failing dependency. Requirement C1.
func TestOutageDropsNothing(t *testing.T) {
	for name, opts := range map[string][]inbox.Option{
		"for ever": nil, "retained": {inbox.Retain(time.Hour)},
		"archived": {inbox.Retain(time.Hour), inbox.Archive(archiveTopic)},
		"guarded":  {inbox.BusinessKey(byNote), inbox.AllowMissingID()},
	} {
		b := topology.NewBuilder("app", topology.DeadLetters("dead"))
		routed(b, opts...)
		top, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		g, err := top.NewGraph(graph.TaskID{Subtopology: "payments"}, outage{}, topology.GraphConfig{
			Partitions: func(string) int32 { return 1 }, Now: time.Now,
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, value := range []string{`{"id":"a","note":"n"}`, `{"note":"n"}`} {
			v := g.Process(graph.Input{Topic: "payments", Timestamp: 1, StreamTime: 1, Key: []byte("k"), Value: []byte(value)})
			if stops := v.Action == topology.Stop; !stops && (value == `{"id":"a","note":"n"}` || name == "guarded") {
				t.Errorf("%s: %s: the verdict is %s", name, value, v.Action)
			}
		}
	}
}

// TestEachOutcomeIsCounted: same id and payload, same id and other payload, no id, no usable id.
// With it K1 and K2: each outcome is counted under its own name. Requirement C2.
func TestEachOutcomeIsCounted(t *testing.T) {
	d := processortest.New(t, func(b *topology.Builder) {
		inbox.Dedupe(topology.From(b, paymentsTopic), "inbox", paymentID, inbox.Forever())
	})
	for _, value := range []string{`{"id":"a","amount":1}`, `{"id":"a","amount":1}`, `{"id":"a","amount":2}`, `{"amount":1}`} {
		d.Pipe("payments", "k", value)
	}
	d.WantCounts("inbox.accepted=1 inbox.dead-letter-conflict=1 inbox.dead-letter-validation=1 inbox.duplicates=1")
}

// TestCanonicalPayload: the spelling of a document does not count, and its amounts do, with more
// digits than a float64 has. A value that is no JSON is compared by its bytes. Requirement C3.
func TestCanonicalPayload(t *testing.T) {
	raw := schemas.JSON[json.RawMessage]()
	for name, values := range map[string][]string{
		"addd": {`{"a":1.0,"b":[1e2]}`, `{"b":[100],"a":1}`,
			` { "a" : 10e-1 , "b" : [ 1.00E+2 ] } `, "{\"b\":[100.0],\n\"\\u0061\":1}"},
		"adc":  {`{"a":9007199254740993}`, `{"a":9007199254740993.0}`, `{"a":9007199254740992}`},
		"adcc": {`{"a":0.1}`, `{"a":1e-1}`, `{"a":0.1000000000000000055511151231257827}`, `{"a":1e400}`},
		"acc":  {`{"a":1e400}`, `{"a":1e401}`, `{"a":"1e400"}`},
	} {
		if got := outcomes(t, raw, values); got != name {
			t.Errorf("%q: the outcomes are %s, want %s", values, got, name)
		}
	}
	if got := outcomes(t, schemas.Bytes(), []string{`{"a":1}`, `{"a":1}`, `{"a": 1}`}); got != "adc" {
		t.Errorf("bytes: the outcomes are %s", got)
	}
}

// TestPayloadWithout: members that are left out do not count, and all others do, exactly.
func TestPayloadWithout(t *testing.T) {
	without := inbox.PayloadWithout("at", "try")
	values := []string{
		`{"a":1,"at":5,"try":1}`, `{"try":2,"a":1.0}`, `{"a":1,"b":{"at":5}}`, `{"a":9007199254740993}`, `{"a":9007199254740992}`,
	}
	if got := outcomes(t, schemas.JSON[json.RawMessage](), values, without); got != "adccc" {
		t.Errorf("the outcomes are %s", got)
	}
	for _, value := range []string{`[1]`, `1`, `"x"`, `{"a":1,"a":1}`} {
		if got := outcomes(t, schemas.JSON[json.RawMessage](), []string{value}, without); got != "x" {
			t.Errorf("%s: the outcome is %s", value, got)
		}
	}
}

// TestTypedOutcomes: a duplicate is no error, has a stream of its own, and is never what a conflict
// is called. Requirement C5.
func TestTypedOutcomes(t *testing.T) {
	d := processortest.New(t, func(b *topology.Builder) { routed(b) })
	d.Pipe("payments", "k", `{"id":"a","amount":1}`, topologytest.At(time.UnixMilli(7)))
	d.Pipe("payments", "k", `{"id":"a","amount":1}`)
	d.Pipe("payments", "k", `{"id":"a","amount":2}`)
	wantHeaders(t, d.Want("duplicates", `{"id":"a","amount":1}`)[0], inbox.HeaderFirstSeen, "7")
	wantHeaders(t, d.Want("conflicts", `{"id":"a","amount":2}`)[0], inbox.HeaderFirstSeen, "7")
	d.Want("dead")
}

// TestCorrections: a correction has an id of its own, and passes. Requirement C6.
func TestCorrections(t *testing.T) {
	d := processortest.New(t, func(b *topology.Builder) { routed(b) })
	d.Pipe("payments", "k", `{"id":"a","amount":1}`)
	d.Pipe("payments", "k", `{"id":"a-corrected","amount":2,"note":"corrects a"}`)
	d.Want("accepted", `{"id":"a","amount":1}`, `{"id":"a-corrected","amount":2,"note":"corrects a"}`)
}

// TestNothingInMemory: between any two records everything but the stores can be lost. Requirement
// C9.
func TestNothingInMemory(t *testing.T) {
	for name, opts := range map[string][]inbox.Option{
		"for ever": {inbox.BusinessKey(byNote), inbox.PayloadWithout("id")},
		"retained": {inbox.Retain(time.Hour), inbox.Archive(archiveTopic)},
		"globally": {globally()},
	} {
		d := processortest.New(t, func(b *topology.Builder) { routed(b, opts...) })
		for range 3 {
			d.Pipe("payments", "k", `{"id":"a","amount":1,"note":"n"}`, at(0))
			d.Restart()
		}
		if got := len(d.Take("accepted")); got != 1 || d.Count("inbox", "duplicates") != 2 {
			t.Errorf("%s: %d are accepted", name, got)
		}
	}
}
