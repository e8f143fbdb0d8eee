package decision_test

import (
	"testing"

	"github.com/onceward/onceward/processors/decision"
	"github.com/onceward/onceward/processors/internal/processortest"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

var (
	wordsTopic = topology.Topic("words", schemas.String(), schemas.String())
	logTopic   = topology.Topic("log", schemas.Bytes(), schemas.String())
)

// decide declares a processor that decides about every record, and says whether it has a Log.
func decide(b *topology.Builder, logs *bool) decision.Outlet {
	node := topology.Stateful(topology.From(b, wordsTopic), "judge")
	out := decision.Declare(node)
	node.Process(func(t *topology.Setup) (topology.Handler[string, string], error) {
		log := out.In(t)
		*logs = log != nil
		return func(c *topology.Context, r topology.Record[string, string]) error {
			if log == nil {
				return nil
			}
			return log(c, decision.Decision{Outcome: "seen", Row: []byte(r.Key)})
		}, nil
	})
	return out
}

// TestDecisionTravelsAsItsRecord: key, node, time, headers and origin are there without the processor's doing.
func TestDecisionTravelsAsItsRecord(t *testing.T) {
	var logs bool
	d := processortest.New(t, func(b *topology.Builder) {
		out := decide(b, &logs)
		topology.MapValues(out.Stream(), "text", func(r topology.Record[[]byte, decision.Decision]) (string, error) {
			topic, _, _ := r.Source()
			return r.Value.Node + " " + r.Value.Outcome + " from " + topic, nil
		}).Into(logTopic)
	})
	d.Pipe("words", "k", "v", topologytest.Header("trace", "t"))
	got := d.Want("log", "judge seen from words")[0]
	if string(got.Key) != "k" || len(got.Headers) != 1 || got.Timestamp != d.Now().UnixMilli() || !logs {
		t.Errorf("the decision travels as %+v", got)
	}
}

// TestDecisionAboutKeptRecord: time and headers are those that the processor has kept, and no part of the value.
func TestDecisionAboutKeptRecord(t *testing.T) {
	d := processortest.New(t, func(b *topology.Builder) {
		node := topology.Stateful(topology.From(b, wordsTopic), "judge")
		out := decision.Declare(node)
		node.Process(func(t *topology.Setup) (topology.Handler[string, string], error) {
			log := out.In(t)
			return func(c *topology.Context, r topology.Record[string, string]) error {
				return log(c, decision.Decision{
					Outcome: "kept", Timestamp: 1, Headers: []topology.Header{{Key: "own", Value: []byte("h")}},
				})
			}, nil
		})
		topology.MapValues(out.Stream(), "text", func(r topology.Record[[]byte, decision.Decision]) (string, error) {
			if r.Value.Timestamp != 0 || r.Value.Headers != nil {
				return "", schemas.Reason("the value has the record's own")
			}
			return r.Value.Node + " " + r.Value.Outcome, nil
		}).Into(logTopic)
	})
	d.Pipe("words", "k", "v", topologytest.Header("trace", "t"))
	got := d.Want("log", "judge kept")[0]
	if got.Timestamp != 1 || len(got.Headers) != 1 || got.Headers[0].Key != "own" {
		t.Errorf("the decision travels as %+v", got)
	}
}

// TestNobodyListens: without a listener there is no Log, and the topology is what it would be without the
// outlet.
func TestNobodyListens(t *testing.T) {
	var logs bool
	d := processortest.New(t, func(b *topology.Builder) { decide(b, &logs) })
	d.Pipe("words", "k", "v")
	if logs {
		t.Error("there is a Log that nobody listens to")
	}
	fingerprint := func(declare func(b *topology.Builder)) string {
		b := topology.NewBuilder("app")
		declare(b)
		topo, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		return topo.Fingerprint()
	}
	with := fingerprint(func(b *topology.Builder) { decide(b, &logs) })
	without := fingerprint(func(b *topology.Builder) {
		topology.Stateful(topology.From(b, wordsTopic), "judge").Process(
			func(*topology.Setup) (topology.Handler[string, string], error) {
				return func(*topology.Context, topology.Record[string, string]) error { return nil }, nil
			})
	})
	if with != without {
		t.Error("an outlet that nobody uses changes the fingerprint")
	}
}
