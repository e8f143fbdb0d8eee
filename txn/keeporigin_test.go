package txn_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn"
	"github.com/onceward/onceward/txn/admin"
)

// TestKeepOrigin: behind a repartition topic that keeps the origin, records and dead letters name
// the record of the input. This holds for a record that was redriven to where it failed, and while
// the option is given to an application or taken away (requirements G3 and J1).
func TestKeepOrigin(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const internal = "app-again-repartition"
		b := newBroker(t, 2, "in", "out", "dead")
		text := schemas.String()
		var broken atomic.Bool
		topologyOf := func(opts ...topology.RepartitionOption) *topology.Topology {
			t.Helper()
			builder := topology.NewBuilder("app", topology.DeadLetters("dead"))
			again := topology.RepartitionWith(topology.From(builder, topology.Topic("in", text, text)), "again", text, text, opts...)
			topology.MapValuesWithRecord(again, "place", func(r topology.Record[string, string]) (string, error) {
				if broken.Load() {
					return "", topology.Fail(topology.Validation, schemas.Reason("not now"))
				}
				topic, partition, offset := r.Source()
				return fmt.Sprintf("%s of %s[%d]@%d", r.Value, topic, partition, offset), nil
			}).Into(topology.Topic("out", text, text))
			top, err := builder.Build()
			if err != nil {
				t.Fatal(err)
			}
			return top
		}
		cfg := b.config(txn.Config{StateDir: t.TempDir(), Workers: 1})
		outputs := 0
		wantOutput := func(value string) {
			t.Helper()
			outputs++
			found := false
			for _, r := range b.read(t, "out", outputs) {
				found = found || string(r.Value) == value
				if len(r.Headers) != 1 || r.Headers[0].Key != "trace" {
					t.Errorf("the output %s has the headers %v", r.Value, r.Headers)
				}
			}
			if !found {
				t.Errorf("there is no output %q", value)
			}
		}
		trace := kgo.RecordHeader{Key: "trace", Value: []byte("1")}
		send := func(value string) {
			t.Helper()
			b.produce(t, &kgo.Record{Topic: "in", Partition: 1, Key: []byte("key"), Value: []byte(value),
				Headers: []kgo.RecordHeader{trace, {Key: graph.HeaderSource, Value: []byte("foreign 8 8")}}})
		}

		_, stop := start(t, topologyOf(topology.KeepOrigin()), cfg)
		send("a")
		wantOutput("a of in[1]@0")
		broken.Store(true)
		send("b")
		var headers []topology.Header
		for _, h := range b.read(t, "dead", 1)[0].Headers {
			headers = append(headers, topology.Header{Key: h.Key, Value: h.Value})
		}
		info, err := graph.ParseDeadLetter(headers)
		if want := (graph.DeadLetterSource{Topic: "in", Partition: 1, Offset: 1}); err != nil || info.Source != want ||
			info.Origin.Topic != internal || info.Node != "place" {
			t.Errorf("the letter says %+v, %v", info, err)
		}

		broken.Store(false)
		client := b.office(t)
		report, err := client.DeadLetters("dead").Redrive(t.Context(), admin.RedriveOptions{
			Step: func(l admin.DeadLetter, outcome admin.RedriveOutcome) error {
				if outcome != admin.Redriven || l.To.Topic != internal || len(l.Headers) != 1 {
					t.Errorf("the letter is to go to %s, with its headers %v: %s", l.To, l.Headers, outcome)
				}
				return nil
			},
		})
		if err != nil || report.Outcomes[admin.Redriven] != 1 {
			t.Fatalf("%+v, %v", report, err)
		}
		wantOutput("b of in[1]@1")

		// Records written with the option are read without it, and the other way round.
		for i, opts := range [][]topology.RepartitionOption{nil, {topology.KeepOrigin()}} {
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			ends, err := b.adm.ListEndOffsets(t.Context(), internal)
			if err != nil {
				t.Fatal(err)
			}
			end, _ := ends.Lookup(internal, 0)
			flying := &kgo.Record{Topic: internal, Key: []byte("k"), Value: fmt.Append(nil, "flying ", i), Headers: []kgo.RecordHeader{trace}}
			place := fmt.Sprintf("%s[0]@%d", internal, end.Offset)
			if opts == nil {
				flying.Headers = append(flying.Headers, kgo.RecordHeader{Key: graph.HeaderSource, Value: []byte("in 1 77")})
				place = "in[1]@77"
			}
			b.produce(t, flying)
			_, stop = start(t, topologyOf(opts...), cfg)
			wantOutput(fmt.Sprintf("flying %d of %s", i, place))
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}
