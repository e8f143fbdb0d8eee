package evidence_test

import (
	"reflect"
	"testing"

	"github.com/onceward/onceward/processors/decision"
	"github.com/onceward/onceward/processors/envelope"
	"github.com/onceward/onceward/processors/evidence"
	"github.com/onceward/onceward/processors/internal/processortest"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/schemas/codectest"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

var (
	ordersTopic = topology.Topic("orders", schemas.String(), schemas.String())
	audit       = evidence.Topic("audit")
)

// judge declares a processor that accepts every record, and fails at the first attempt at "again".
func judge(b *topology.Builder) decision.Outlet {
	node := topology.Stateful(topology.From(b, ordersTopic), "judge")
	out := decision.Declare(node)
	node.Process(func(t *topology.Setup) (topology.Handler[string, string], error) {
		log := out.In(t)
		return func(c *topology.Context, r topology.Record[string, string]) error {
			if r.Value == "again" && c.Attempt() == 1 {
				return topology.Fail(topology.Transient, schemas.Reason("asked to"))
			}
			if log == nil {
				return nil
			}
			err := log(c, decision.Decision{
				Outcome: "accepted", Reason: "because", Store: "judged", Row: []byte(r.Key), Subject: "s1",
				Before: topology.Some(int64(0)), After: topology.Some(int64(1)),
			})
			if err == nil && r.Value == "fail" {
				err = topology.Fail(topology.Validation, schemas.Reason("asked to"))
			}
			return err
		}, nil
	})
	return out
}

func newDriver(t *testing.T, mode topology.Mode) *processortest.Driver {
	return processortest.New(t, func(b *topology.Builder) { evidence.Record(judge(b).Stream(), "judge-audit", audit) },
		topologytest.Mode(mode))
}

func entries(t *testing.T, d *processortest.Driver) (list []evidence.Entry) {
	t.Helper()
	for _, r := range d.Take("audit") {
		e, err := evidence.Decode(r.Key, r.Value)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, e)
	}
	return list
}

// TestEvidence is requirement J1: all that an operator can ask about a row is in its evidence. With it B1: the ids are
// there under their own names.
func TestEvidence(t *testing.T) {
	d := newDriver(t, topology.Backfill)
	d.Pipe("orders", "k0", "v")
	d.Pipe("orders", "k", "v", topologytest.Header(envelope.HeaderMessageID, "m"),
		topologytest.Header("ce_id", "e"), topologytest.Header("ce_type", "t"),
		topologytest.Header(evidence.HeaderEventVersion, "2"), topologytest.Header(envelope.HeaderIdempotencyKey, "i"),
		topologytest.Header(envelope.HeaderAggregateID, "a"), topologytest.Header(envelope.HeaderCorrelationID, "c"),
		topologytest.Header(envelope.HeaderCausationID, "p"))
	got := entries(t, d)
	if len(got) != 2 {
		t.Fatalf("there are %d entries", len(got))
	}
	before, after := int64(0), int64(1)
	want := evidence.Entry{
		Row: []byte("k"), Application: "app", Version: got[0].Version, Node: "judge", Task: "orders_0",
		Outcome: "accepted", Reason: "because", Store: "judged", Subject: "s1", Before: &before, After: &after,
		Topic: "orders", Offset: 1, Time: d.Now().UnixMilli(), StreamTime: d.Now().UnixMilli(),
		Mode: "BACKFILL", Attempt: 1,
		MessageID: "m", EventID: "e", EventType: "t", EventVersion: "2", IdempotencyKey: "i", AggregateID: "a",
		CorrelationID: "c", CausationID: "p",
	}
	if !reflect.DeepEqual(got[1], want) || len(want.Version) != 32 {
		t.Errorf("the entry is\n%+v, want\n%+v", got[1], want)
	}
}

// TestOneFactForAnIntent is requirement J2: attempts leave no facts, and a record that fails leaves none either.
func TestOneFactForAnIntent(t *testing.T) {
	d := newDriver(t, topology.Live)
	d.Pipe("orders", "k", "again")
	if got := entries(t, d); len(got) != 1 || got[0].Attempt != 2 || got[0].Mode != "LIVE" {
		t.Errorf("two attempts left %+v", got)
	}
	d.Pipe("orders", "k", "fail")
	if got := entries(t, d); len(got) != 0 {
		t.Errorf("a failure left %+v", got)
	}
	d.WantDeadLetter("judge", topology.Validation, "asked to")
}

// TestEntriesAreStrict: what is no entry is an error that does not quote it.
func TestEntriesAreStrict(t *testing.T) {
	codectest.Run(t, schemas.JSON[evidence.Entry](), evidence.Entry{}, evidence.Entry{Subject: codectest.Canary, Offset: 7})
	for _, value := range [][]byte{nil, []byte(codectest.Canary)} {
		if e, err := evidence.Decode([]byte("k"), value); err == nil {
			t.Errorf("%q is read as %+v", value, e)
		}
	}
}

// FuzzDecode: whatever a topic holds, there is an entry or an error.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("k"), []byte(`{"node":"judge","outcome":"accepted","before":1}`))
	f.Fuzz(func(t *testing.T, key, value []byte) {
		e, err := evidence.Decode(key, value)
		if err == nil && string(e.Row) != string(key) {
			t.Fatalf("the row is %q", e.Row)
		}
	})
}
