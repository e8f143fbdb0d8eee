package envelope_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/onceward/onceward/processors/envelope"
	"github.com/onceward/onceward/processors/inbox"
	"github.com/onceward/onceward/processors/internal/processortest"
	"github.com/onceward/onceward/processors/ledger"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

type record = topology.Record[string, int64]

var (
	in  = topology.Topic("in", schemas.String(), schemas.JSON[int64]())
	out = topology.Topic("out", schemas.String(), schemas.JSON[ledger.Balance]())
)

// all are headers with six ids that differ, and one that is nobody's.
func all() []topologytest.PipeOption {
	var opts []topologytest.PipeOption
	for _, key := range []string{
		envelope.HeaderMessageID, envelope.HeaderEventID, envelope.HeaderIdempotencyKey, envelope.HeaderAggregateID,
		envelope.HeaderCorrelationID, envelope.HeaderCausationID,
	} {
		opts = append(opts, topologytest.Header(key, "the "+key))
	}
	return append(opts, topologytest.Header("traceparent", "t"))
}

const everyID = "{the onceward.message-id the onceward.event-id the onceward.idempotency-key the onceward.aggregate-id " +
	"the onceward.correlation-id the onceward.causation-id}"

// idsOf reads an envelope off a raw record.
func idsOf(r topologytest.Raw) envelope.Envelope {
	return envelope.Of(record{Headers: r.Headers})
}

// TestEnvelope_B1: six ids with six names, which travel through processors to outputs and into dead
// letters.
func TestEnvelope_B1(t *testing.T) {
	d := processortest.New(t, func(b *topology.Builder) {
		once := inbox.Dedupe(topology.From(b, in), "inbox", envelope.EventID[string, int64], inbox.Forever(),
			inbox.Globally(schemas.String(), schemas.JSON[int64]()))
		ledger.Post(once.Accepted(), "ledger", func(r record) (ledger.Contribution, error) {
			id, err := envelope.IdempotencyKey(r)
			return ledger.Contribution{ID: id, Amounts: []int64{r.Value}}, err
		}).Changes().Into(out)
	})
	d.Pipe("in", "k", `5`, all()...)
	outputs := d.Want("out", `{"count":1,"amounts":[5],"contribution":"the onceward.idempotency-key"}`)
	if got := fmt.Sprint(idsOf(outputs[0])); got != everyID {
		t.Errorf("the output has %s", got)
	}
	d.Pipe("in", "k", `6`, all()...)
	letters := d.Take("dead")
	if len(letters) != 1 || fmt.Sprint(idsOf(letters[0])) != everyID {
		t.Errorf("the dead letters are %+v", letters)
	}
}

func TestOf(t *testing.T) {
	r := record{}.WithHeader("ce_id", []byte("e")).WithHeader("ce_correlationid", []byte("c"))
	r = r.WithHeader("ce_causationid", []byte("a"))
	if got := fmt.Sprintf("%q", envelope.Of(r)); got != `{"" "e" "" "" "c" "a"}` {
		t.Error(got)
	}
	r = r.WithHeader(envelope.HeaderEventID, []byte("own")).WithHeader(envelope.HeaderCorrelationID, nil)
	if got := fmt.Sprintf("%q", envelope.Of(r)); got != `{"" "own" "" "" "c" "a"}` {
		t.Error(got)
	}
	if got := fmt.Sprintf("%q", envelope.Of(record{})); got != `{"" "" "" "" "" ""}` {
		t.Error(got)
	}
}

// TestDerivedID_B4 pins the ids, for ever: they depend on cause and role, and on where the one ends
// and the other begins.
func TestDerivedID_B4(t *testing.T) {
	seen := map[string]string{}
	for _, c := range [][2]string{{"a", "b"}, {"ab", ""}, {"", "ab"}, {"b", "a"}, {"a", "bb"}} {
		id := envelope.DerivedID(c[0], c[1])
		if other, ok := seen[id]; ok || len(id) != 32 {
			t.Errorf("%q has the id %s, as %s", c, id, other)
		}
		seen[id] = fmt.Sprint(c)
	}
	if got := envelope.DerivedID("message-1", "invoice"); got != golden {
		t.Errorf("the id is %s, it was %s", got, golden)
	}
}

const golden = "d03e56603ddfa0248ef2f4276b156bbf"

// TestCaused_B4: an output is another message than its input, caused by it, and the same one
// whenever it is made; so an inbox behind finds what was emitted twice.
func TestCaused_B4(t *testing.T) {
	invoices := topology.Topic("invoices", schemas.String(), schemas.JSON[int64]())
	run := func() (envelope.Envelope, *processortest.Driver) {
		d := processortest.New(t, func(b *topology.Builder) {
			s := topology.From(b, in)
			invoice := envelope.Caused(s, "invoice", envelope.MessageID[string, int64])
			invoice.Into(invoices)
			inbox.Dedupe(invoice, "behind", envelope.MessageID[string, int64], inbox.Forever())
			shipments := topology.Topic("shipments", schemas.String(), schemas.JSON[int64]())
			envelope.Caused(s, "shipment", envelope.MessageID[string, int64]).Into(shipments)
		})
		d.Pipe("in", "k", `5`, all()...)
		r := d.Want("invoices", `5`)[0]
		if len(r.Headers) != 7 {
			t.Errorf("the headers are %v", r.Headers)
		}
		return idsOf(r), d
	}
	first, d := run()
	again, _ := run()
	if first != again {
		t.Errorf("the ids are %v and %v", first, again)
	}
	if first.CausationID != "the onceward.message-id" || first.CorrelationID != "the onceward.correlation-id" ||
		first.MessageID != envelope.DerivedID("the onceward.message-id", "invoice") ||
		first.EventID != envelope.DerivedID("the onceward.event-id", "invoice") ||
		first.IdempotencyKey != envelope.DerivedID("the onceward.idempotency-key", "invoice") ||
		first.AggregateID != "the onceward.aggregate-id" {
		t.Errorf("the ids are %+v", first)
	}
	if shipment := idsOf(d.Take("shipments")[0]); shipment.MessageID == first.MessageID ||
		shipment.EventID == first.EventID || shipment.IdempotencyKey == first.IdempotencyKey {
		t.Errorf("two outputs of one cause have one id: %+v", shipment)
	}
	d.Pipe("in", "k", `5`, all()...)
	d.WantCounts("behind.accepted=1 behind.duplicates=1")
}

// TestCausedIDsForInbox_B4: of several outputs of one cause an inbox behind drops none, whichever
// id it goes by, and every copy of them.
func TestCausedIDsForInbox_B4(t *testing.T) {
	for name, id := range map[string]func(record) (string, error){
		"message": envelope.MessageID[string, int64], "event": envelope.EventID[string, int64],
		"key": envelope.IdempotencyKey[string, int64],
	} {
		t.Run(name, func(t *testing.T) {
			d := processortest.New(t, func(b *topology.Builder) {
				s := topology.From(b, in)
				invoice := envelope.Caused(s, "invoice", envelope.MessageID[string, int64])
				shipment := envelope.Caused(s, "shipment", envelope.MessageID[string, int64])
				inbox.Dedupe(invoice.Merge("both", shipment), "behind", id, inbox.Forever())
			})
			d.Pipe("in", "k", `5`, all()...)
			d.WantCounts("behind.accepted=2")
			d.Pipe("in", "k", `5`, all()...)
			d.WantCounts("behind.accepted=2 behind.duplicates=2")
		})
	}
}

// TestCausedCloudEvent: what reads CloudEvents sees another event too, under the name that it
// knows.
func TestCausedCloudEvent(t *testing.T) {
	d := processortest.New(t, func(b *topology.Builder) {
		numbers := topology.Topic("out", schemas.String(), schemas.JSON[int64]())
		envelope.Caused(topology.From(b, in), "caused", envelope.EventID[string, int64]).Into(numbers)
	})
	d.Pipe("in", "k", `5`, topologytest.Header("ce_id", "e"))
	r := d.Want("out", `5`)[0]
	if value, _ := (record{Headers: r.Headers}).Header("ce_id"); string(value) != envelope.DerivedID("e", "caused") {
		t.Errorf("the event is %q", value)
	}
	if got := idsOf(r); got.CausationID != "e" || got.IdempotencyKey != "" {
		t.Errorf("the ids are %+v", got)
	}
}

func TestCausedWithoutCause(t *testing.T) {
	d := processortest.New(t, func(b *topology.Builder) {
		s := topology.From(b, in)
		numbers := topology.Topic("out", schemas.String(), schemas.JSON[int64]())
		envelope.Caused(s, "caused", envelope.MessageID[string, int64]).Into(numbers)
	})
	d.Pipe("in", "k", `5`)
	d.WantDeadLetter("caused", topology.Validation, "the id is missing")
	d.Pipe("in", "k", `5`, topologytest.Header(envelope.HeaderMessageID, "m"))
	if got := idsOf(d.Want("out", `5`)[0]); got.CorrelationID != "m" {
		t.Errorf("the ids are %+v", got)
	}
	d = processortest.New(t, func(b *topology.Builder) {
		envelope.Caused(topology.From(b, in), "caused", func(record) (string, error) { return "", errors.New("no") })
	})
	d.Pipe("in", "k", `5`)
	if letters := d.Take("dead"); len(letters) != 1 {
		t.Errorf("there are %d dead letters", len(letters))
	}
	processortest.WantMistakes(t, func(b *topology.Builder) int {
		envelope.Caused[string, int64](topology.From(b, in), "caused", nil)
		return processortest.Above()
	}, "the function is nil")
}
