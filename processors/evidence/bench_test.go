package evidence_test

import (
	"strconv"
	"testing"

	"github.com/onceward/onceward/processors/evidence"
	"github.com/onceward/onceward/processors/inbox"
	"github.com/onceward/onceward/processors/internal/processortest"
	"github.com/onceward/onceward/processors/ledger"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// benchGraph is the task of a ledger of one column behind an inbox, with evidence of both or of
// none.
func benchGraph(tb testing.TB, recorded bool) *topology.Graph {
	tb.Helper()
	b := topology.NewBuilder("payments", topology.DeadLetters("dead"))
	id := func(r topology.Record[string, string]) (string, error) { return r.Value, nil }
	once := inbox.Dedupe(topology.From(b, topology.Topic("payments-in", schemas.String(), schemas.String())), "inbox", id, inbox.Forever())
	posted := ledger.Post(once.Accepted(), "balances", func(r topology.Record[string, string]) (ledger.Contribution, error) {
		return ledger.Contribution{ID: r.Value, Amounts: []int64{1}}, nil
	})
	if recorded {
		audit := evidence.Topic("audit")
		evidence.Record(once.Decisions(), "inbox-audit", audit)
		evidence.Record(posted.Decisions(), "balances-audit", audit)
	}
	return processortest.OpenGraph(tb, b, 4)
}

// process passes the record i, which is new for every i, to one of 64 accounts.
func process(tb testing.TB, g *topology.Graph, i int) graph.Verdict {
	v := g.Process(graph.Input{
		Topic: "payments-in", Offset: int64(i), Timestamp: 1_700_000_000_000, StreamTime: 1_700_000_000_000,
		Key:   strconv.AppendInt([]byte("account-"), int64(i%64), 10),
		Value: strconv.AppendInt([]byte("0123456789abcdef-"), int64(i), 10),
	})
	if v.Action != graph.Accept {
		tb.Fatal(v.Failure)
	}
	return v
}

// BenchmarkRecord is a record through an inbox and a ledger, both of which decide about it.
func BenchmarkRecord(b *testing.B) {
	for name, recorded := range map[string]bool{"with evidence": true, "without": false} {
		b.Run(name, func(b *testing.B) {
			g := benchGraph(b, recorded)
			b.ReportAllocs()
			i, bytes := 0, 0
			for b.Loop() {
				v := process(b, g, i)
				for _, o := range v.Outputs {
					bytes += len(o.Key) + len(o.Value)
				}
				i++
			}
			b.ReportMetric(float64(bytes)/float64(i), "output-B/op")
		})
	}
}

// TestAllocations: two entries cost their rows and the versions in one of them, and what they are
// written into, which is spread over many.
func TestAllocations(t *testing.T) {
	count := func(recorded bool) float64 {
		g, i := benchGraph(t, recorded), 0
		for ; i < 100; i++ {
			process(t, g, i)
		}
		return testing.AllocsPerRun(2000, func() {
			process(t, g, i)
			i++
		})
	}
	if n := count(true) - count(false); n > 4 {
		t.Errorf("the evidence of a record costs %v allocations, want 3", n)
	}
}
