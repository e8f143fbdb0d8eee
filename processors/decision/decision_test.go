package decision_test

import (
	"fmt"
	"testing"
	"time"

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

// TestDecisionTravelsAsItsRecord: key, node, time, headers and origin are there without the
// processor's doing.
func TestDecisionTravelsAsItsRecord(t *testing.T) {
	var logs bool
	d := processortest.New(t, func(b *topology.Builder) {
		out := decide(b, &logs)
		topology.MapValuesWithRecord(out.Stream(), "text", func(r topology.Record[[]byte, decision.Decision]) (string, error) {
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

// TestDecisionAboutDeferredRecord: a decision about a deferred record travels as that record,
// and says so.
func TestDecisionAboutDeferredRecord(t *testing.T) {
	d := processortest.New(t, func(b *topology.Builder) {
		node := topology.Stateful(topology.From(b, wordsTopic), "judge")
		out := decision.Declare(node)
		node.Process(func(t *topology.Setup) (topology.Handler[string, string], error) {
			log := out.In(t)
			var first topology.Record[string, string] // a test is one attempt long
			var deferred topology.Deferred
			return func(c *topology.Context, r topology.Record[string, string]) error {
				if first.Headers == nil {
					first, deferred = topology.Record[string, string]{Key: r.Key, Timestamp: r.Timestamp, Headers: r.Headers}, topology.DeferredOf(c, r)
					return nil
				}
				seen := decision.Decision{Outcome: "seen"}
				err := topology.Resume(c, first, deferred, func(topology.Record[string, string]) error { return log(c, seen) })
				if err == nil {
					err = log(c, seen)
				}
				return err
			}, nil
		})
		topology.MapValuesWithRecord(out.Stream(), "text", func(r topology.Record[[]byte, decision.Decision]) (string, error) {
			topic, partition, offset := r.Source()
			of, _ := r.Header("of")
			return fmt.Sprintf("%s of %s@%d, deferred %t, from %s[%d]@%d", r.Value.Node, of, r.Timestamp, r.Value.Deferred, topic, partition, offset), nil
		}).Into(logTopic)
	})
	for i, of := range []string{"first", "second"} {
		d.Pipe("words", "k", "v", topologytest.Header("of", of), topologytest.At(time.UnixMilli(int64(i))))
	}
	d.Want("log", "judge of first@0, deferred true, from words[0]@0", "judge of second@1, deferred false, from words[0]@1")
}

// TestUnusedOutletHasNoLog: without a listener there is no Log, and the topology is what it would
// be without the outlet.
func TestUnusedOutletHasNoLog(t *testing.T) {
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
