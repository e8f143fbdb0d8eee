package inbox_test

import (
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/processors/inbox"
	"github.com/onceward/onceward/processors/internal/processortest"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/schemas/codectest"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// byNote guards the note of a payment.
func byNote(r payment) (string, error) {
	if r.Value.Note == "none" {
		return "", schemas.Reason("no note")
	}
	return r.Value.Note, nil
}

// TestBusinessKey_C4: the same fact under a new id is caught by its business key: a duplicate if it
// says the same, a conflict if it does not. An operator sees both.
func TestBusinessKey_C4(t *testing.T) {
	d := processortest.New(t, func(b *topology.Builder) {
		routed(b, inbox.BusinessKey(byNote), inbox.PayloadWithout("id"))
	})
	d.Pipe("payments", "k", `{"id":"e1","amount":1,"note":"order-7"}`, at(0))
	d.Want("accepted", `{"id":"e1","amount":1,"note":"order-7"}`)
	d.Pipe("payments", "k", `{"id":"e2","amount":1,"note":"order-7"}`, at(1))
	r := d.Want("duplicates", `{"id":"e2","amount":1,"note":"order-7"}`)[0]
	wantHeaders(t, r, inbox.HeaderFirstID, "e1", inbox.HeaderFirstSeen, "1700000000000")
	d.Pipe("payments", "k", `{"id":"e3","amount":2,"note":"order-7"}`, at(2))
	r = d.Want("conflicts", `{"id":"e3","amount":2,"note":"order-7"}`)[0]
	wantHeaders(t, r, inbox.HeaderFirstID, "e1", inbox.HeaderFirstSeen, "1700000000000")
	// What was decided about an id stays: the repetition is a duplicate, and what was disputed is
	// so again, whatever it says now.
	d.Pipe("payments", "k", `{"id":"e2","amount":1,"note":"order-7"}`)
	d.Want("duplicates", `{"id":"e2","amount":1,"note":"order-7"}`)
	d.Pipe("payments", "k", `{"id":"e3","amount":2,"note":"order-7"}`)
	r = d.Want("conflicts", `{"id":"e3","amount":2,"note":"order-7"}`)[0]
	wantHeaders(t, r, inbox.HeaderFirstID, "e1", inbox.HeaderFirstSeen, "1700000000000")
	d.Pipe("payments", "k", `{"id":"e3","amount":2,"note":"order-8"}`)
	r = d.Want("conflicts", `{"id":"e3","amount":2,"note":"order-8"}`)[0]
	wantHeaders(t, r, inbox.HeaderFirstID, "", inbox.HeaderFirstSeen, "1700000120000")
	// Another fact, and no business key at all.
	d.Pipe("payments", "k", `{"id":"e4","amount":1,"note":"order-8"}`)
	d.Pipe("payments", "k", `{"id":"e5","amount":1}`)
	d.Pipe("payments", "k", `{"id":"e6","amount":1}`)
	d.Want("dead")
	d.WantCounts("inbox.accepted=4 inbox.conflicts=3 inbox.duplicates=2")
	store, err := topologytest.Store(d.Driver, inbox.Store("inbox"), 0)
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]inbox.Status{"e1": inbox.Processed, "e2": inbox.Duplicate, "e3": inbox.Quarantined} {
		if entry, ok, err := store.Get(id); err != nil || !ok || entry.Outcome.Status() != want {
			t.Errorf("%s is %s, %v, %v, want %s", id, entry.Outcome.Status(), ok, err, want)
		}
	}
}

func wantHeaders(t *testing.T, r topologytest.Raw, pairs ...string) {
	t.Helper()
	got := map[string]string{}
	for _, h := range r.Headers {
		got[h.Key] = string(h.Value)
	}
	for i := 0; i < len(pairs); i += 2 {
		if got[pairs[i]] != pairs[i+1] {
			t.Errorf("header %s is %q, want %q", pairs[i], got[pairs[i]], pairs[i+1])
		}
	}
}

// TestBusinessConflictFails: without EmitConflicts it is a dead letter that leaves nothing else,
// and with the payload as it is by default, everything under a new id is one: nothing is taken for
// a duplicate unseen.
func TestBusinessConflictFails(t *testing.T) {
	d := processortest.New(t, func(b *topology.Builder) {
		inbox.Dedupe(topology.From(b, paymentsTopic), "inbox", paymentID, inbox.Forever(), inbox.BusinessKey(byNote)).
			Accepted().Into(acceptedTopic)
	})
	d.Pipe("payments", "k", `{"id":"e1","amount":1,"note":"order-7"}`)
	d.Pipe("payments", "k", `{"id":"e2","amount":1,"note":"order-7"}`)
	d.WantDeadLetter("inbox", topology.Conflict, "the business key was seen before, under another id and with another payload")
	if rows := d.Rows("inbox", 0); len(rows) != 1 {
		t.Errorf("there are %d rows", len(rows))
	}
	d.Pipe("payments", "k", `{"id":"e3","amount":1,"note":"none"}`)
	d.WantDeadLetter("inbox", topology.Validation, "no note")
	d.Pipe("payments", "k", `{"id":"e4","note":"`+strings.Repeat("x", 1025)+`"}`)
	d.WantDeadLetter("inbox", topology.Validation, "the business key is not valid UTF-8 of at most 1024 bytes")
	d.Pipe("payments", "k", `{"id":"e2","amount":1,"note":"order-9"}`)
	d.WantCounts("inbox.accepted=2 inbox.dead-letter-conflict=1 inbox.dead-letter-validation=2")
}

// TestBusinessKeyWithoutID: what has no id is guarded by its business key all the same.
func TestBusinessKeyWithoutID(t *testing.T) {
	d := processortest.New(t, func(b *topology.Builder) {
		routed(b, inbox.AllowMissingID(), inbox.BusinessKey(byNote), inbox.PayloadWithout("id"), inbox.Retain(time.Hour), inbox.EmitLate()).
			Late().Into(topology.Topic("late", schemas.String(), schemas.JSON[Payment]()))
	})
	d.Pipe("payments", "k", `{"amount":1,"note":"order-7"}`, at(0))
	d.Pipe("payments", "k", `{"amount":1,"note":"order-7"}`, at(0))
	d.Pipe("payments", "k", `{"id":"e1","amount":1,"note":"order-7"}`, at(0))
	d.Pipe("payments", "k", `{"amount":1}`, at(0))
	d.WantCounts("inbox.duplicates=2 inbox.missing=2")
	// A record without an id moves the time of the keys ahead of that of the ids: what is late by
	// the one is late.
	d.Pipe("payments", "k", `{"amount":1,"note":"order-8"}`, at(600))
	d.Pipe("payments", "k", `{"id":"e2","amount":1,"note":"order-9"}`, at(1))
	d.Want("late", `{"id":"e2","amount":1,"note":"order-9"}`)
	d.Pipe("payments", "k", `{"id":"e2","amount":1,"note":"order-9"}`, at(600))
	if got := d.Take("accepted"); len(got) != 4 {
		t.Errorf("%d are accepted", len(got))
	}
	d.Want("dead")
}

// TestBusinessKeyRetained: keys are forgotten with the ids.
func TestBusinessKeyRetained(t *testing.T) {
	d := processortest.New(t, func(b *topology.Builder) {
		routed(b, inbox.BusinessKey(byNote), inbox.PayloadWithout("id"), inbox.Retain(time.Hour))
	})
	d.Pipe("payments", "k", `{"id":"e1","amount":1,"note":"order-7"}`, at(0))
	d.Pipe("payments", "k", `{"id":"e2","amount":1,"note":"order-7"}`, at(59))
	d.Pipe("payments", "k", `{"id":"e3","amount":1,"note":"order-7"}`, at(60))
	d.WantCounts("inbox.accepted=2 inbox.duplicates=1")
}

// TestBusinessKeyIsSilent: no failure quotes the business key.
func TestBusinessKeyIsSilent(t *testing.T) {
	d := processortest.New(t, func(b *topology.Builder) {
		key := func(payment) (string, error) { return codectest.Canary, nil }
		inbox.Dedupe(topology.From(b, paymentsTopic), "inbox", paymentID, inbox.Forever(), inbox.BusinessKey(key))
	})
	d.Pipe("payments", "k", `{"id":"a","note":"`+codectest.Canary+`"}`)
	d.Pipe("payments", "k", `{"id":"b","note":"`+codectest.Canary+`"}`)
	processortest.WantSilence(t, nil, d.Take("dead"), "x", codectest.Canary)
}
