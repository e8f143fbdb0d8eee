package inbox_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/onceward/onceward/processors/decision"
	"github.com/onceward/onceward/processors/inbox"
	"github.com/onceward/onceward/processors/internal/processortest"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/schemas/codectest"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

var (
	missingTopic   = topology.Topic("missing", schemas.String(), schemas.JSON[Payment]())
	malformedTopic = topology.Topic("malformed", schemas.String(), schemas.JSON[Payment]())
)

// noID is a way to have no usable id.
type noID struct {
	id func(payment) (string, error)
	// outcome is missing or malformed.
	outcome, reason string
}

var noIDs = map[string]noID{
	"none":      {paymentID, "missing", "the id is missing"},
	"too long":  {returns(strings.Repeat("x", 1025), nil), "malformed", "the id has more than 1024 bytes"},
	"not UTF-8": {returns("a\xff", nil), "malformed", "the id is not valid UTF-8"},
	"a reason":  {returns("", schemas.Reason("the id is no number")), "malformed", "the id is no number"},
	"validation": {
		returns("", topology.Fail(topology.Validation, schemas.Reason("the id is no number"))), "malformed", "the id is no number",
	},
	"an error": {returns("", errors.New("quote")), "malformed", "error of type *errors.errorString"},
}

func returns(id string, err error) func(payment) (string, error) {
	return func(payment) (string, error) { return id, err }
}

// scopes are the options of an inbox without and with a detour, by the node that looks at the ids.
var scopes = map[string][]inbox.Option{"inbox": nil, "inbox-by-id": {globally()}}

// TestMissingAndMalformed_C2: a record without a usable id is an outcome of its own if it is
// emitted, and no error. With it C5: the outcomes have types, and streams.
func TestMissingAndMalformed_C2(t *testing.T) {
	for node, opts := range scopes {
		for name, way := range noIDs {
			t.Run(node+", "+name, func(t *testing.T) {
				var told []string
				d := processortest.New(t, func(b *topology.Builder) {
					opts := append([]inbox.Option{inbox.EmitMissing(), inbox.EmitMalformed()}, opts...)
					in := inbox.Dedupe(topology.From(b, paymentsTopic), "inbox", way.id, inbox.Kept(opts...)...)
					in.Accepted().Into(acceptedTopic)
					in.Missing().Into(missingTopic)
					in.Malformed().Into(malformedTopic)
					in.Decisions().Peek("see", func(r topology.Record[[]byte, decision.Decision]) error {
						v := r.Value
						told = append(told, fmt.Sprintf("%s %s %q %q %q: %s", v.Node, v.Outcome, v.Subject, v.Store, v.Row, v.Reason))
						return nil
					})
				})
				const value = `{"id":"","amount":1}`
				stale := topologytest.Header(inbox.HeaderReason, "that of an inbox before this one")
				for range 2 {
					d.Pipe("payments", "k", value, topologytest.Header("x", "y"), stale)
				}
				for _, r := range d.Want(way.outcome, value, value) {
					want := fmt.Sprintf("k [{x y} {onceward.inbox.reason %s}]", way.reason)
					if got := fmt.Sprintf("%s %s", r.Key, r.Headers); got != want {
						t.Errorf("the record has %s, want %s", got, want)
					}
				}
				d.Want("dead")
				d.Want("accepted")
				d.WantCounts("inbox." + way.outcome + "=2")
				if rows := d.Rows("inbox", 0); len(rows) > 0 {
					t.Errorf("the store has %x", rows)
				}
				want := fmt.Sprintf(`inbox %s "" "" "": %s`, way.outcome, way.reason)
				if len(told) != 2 || told[0] != want || told[1] != want {
					t.Errorf("the decisions are %q, want %q twice", told, want)
				}
			})
		}
	}
}

// TestMissingAndMalformedApart: a record whose outcome is not emitted becomes a dead letter, also
// where the other outcome is emitted.
func TestMissingAndMalformedApart(t *testing.T) {
	for node, opts := range scopes {
		for _, way := range noIDs {
			d := processortest.New(t, func(b *topology.Builder) {
				dedupe := func(emit inbox.Option) inbox.Inbox[string, Payment] {
					return inbox.Dedupe(topology.From(b, paymentsTopic), "inbox", way.id, inbox.Kept(append([]inbox.Option{emit}, opts...)...)...)
				}
				if way.outcome == "missing" {
					dedupe(inbox.EmitMalformed()).Malformed().Into(malformedTopic)
				} else {
					dedupe(inbox.EmitMissing()).Missing().Into(missingTopic)
				}
			})
			d.Pipe("payments", "k", `{"amount":1}`)
			d.WantDeadLetter(node, topology.Validation, way.reason)
			d.WantCounts(node + ".dead-letter-validation=1")
		}
	}
}

// TestNoneOfTheRecord: an error of another class than Validation is no outcome, and is handled by
// its class.
func TestNoneOfTheRecord(t *testing.T) {
	for node, opts := range scopes {
		for _, class := range []topology.Class{topology.Transient, topology.Poison, topology.Config} {
			d := processortest.New(t, func(b *topology.Builder) {
				opts := append([]inbox.Option{
					inbox.OnError(class, topology.Policy{Action: topology.Stop}), inbox.EmitMalformed(),
				}, opts...)
				inbox.Dedupe(topology.From(b, paymentsTopic), "inbox", returns("", topology.Fail(class, schemas.Reason("not now"))), inbox.Kept(opts...)...).
					Malformed().Into(malformedTopic)
			})
			err := d.PipeRaw("payments", []byte("k"), []byte(`{}`))
			var failure *topology.Failure
			if !errors.As(err, &failure) || failure.Class != class || failure.Node != node {
				t.Errorf("Pipe returned %v, want class %s of %s", err, class, node)
			}
			d.Want("malformed")
		}
	}
}

// TestMissingIDIsAllowed: a record without an id is accepted as it came. A malformed id is not
// allowed by that.
func TestMissingIDIsAllowed(t *testing.T) {
	for _, opts := range scopes {
		d := processortest.New(t, func(b *topology.Builder) {
			in := inbox.Dedupe(topology.From(b, paymentsTopic), "inbox", func(r payment) (string, error) {
				return r.Value.ID + r.Value.Note, nil
			}, inbox.Kept(append([]inbox.Option{inbox.AllowMissingID(), inbox.EmitMalformed()}, opts...)...)...)
			in.Accepted().Into(acceptedTopic)
			in.Malformed().Into(malformedTopic)
		})
		long := strings.Repeat("x", 1025)
		reason := topologytest.Header(inbox.HeaderReason, "that of an inbox before this one")
		d.Pipe("payments", "k", `{"amount":1}`, reason)
		d.Pipe("payments", "k", `{"id":"a","amount":1}`, reason)
		d.Pipe("payments", "k", `{"id":"`+long+`","amount":1}`)
		for _, r := range d.Want("accepted", `{"id":"","amount":1}`, `{"id":"a","amount":1}`) {
			if got := fmt.Sprintf("%s", r.Headers); got != "[{onceward.inbox.reason that of an inbox before this one}]" {
				t.Errorf("an accepted record has headers %s", got)
			}
		}
		d.Want("malformed", `{"id":"`+long+`","amount":1}`)
		d.Want("dead")
		d.WantCounts("inbox.accepted=1 inbox.malformed=1 inbox.missing=1")
	}
}

// TestNoPayloadInReasons looks for the canary in what is said of records that have no usable id.
func TestNoPayloadInReasons(t *testing.T) {
	for name, id := range map[string]func(payment) (string, error){
		"malformed": func(r payment) (string, error) { return "", errors.New(r.Value.Note) },
		"not UTF-8": func(r payment) (string, error) { return r.Value.Note + "\xff", nil },
		"too long":  func(r payment) (string, error) { return strings.Repeat(r.Value.Note, 1000), nil },
	} {
		for node, opts := range scopes {
			t.Run(node+", "+name, func(t *testing.T) {
				d := processortest.New(t, func(b *topology.Builder) {
					in := inbox.Dedupe(topology.From(b, paymentsTopic), "inbox", id, inbox.Kept(append([]inbox.Option{inbox.EmitMalformed()}, opts...)...)...)
					in.Malformed().Into(malformedTopic)
					in.Decisions().Peek("see", func(r topology.Record[[]byte, decision.Decision]) error {
						if text := fmt.Sprintf("%+v", r.Value); strings.Contains(text, codectest.Canary) {
							t.Errorf("the decision quotes the record: %s", text)
						}
						return nil
					})
				})
				d.Pipe("payments", codectest.Canary, `{"note":"`+codectest.Canary+`"}`, topologytest.Header("x", codectest.Canary))
				processortest.WantSilence(t, nil, d.Take("malformed"), "x", codectest.Canary)
			})
		}
	}
}
