package ledger_test

import (
	"encoding/binary"
	"strconv"
	"testing"

	"github.com/onceward/onceward/processors/internal/processortest"
	"github.com/onceward/onceward/processors/ledger"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// benchGraph is the task of a ledger with two columns, or of the source and what reads
// contributions alone.
func benchGraph(tb testing.TB, post bool, opts ...ledger.Option) *topology.Graph {
	tb.Helper()
	b := topology.NewBuilder("bench", topology.DeadLetters("dead"))
	s := topology.From(b, topology.Topic("in", schemas.String(), schemas.Int64()))
	read := func(r topology.Record[string, int64]) (ledger.Contribution, error) {
		return ledger.Contribution{ID: strconv.FormatInt(r.Value, 10), Amounts: []int64{r.Value, 1}}, nil
	}
	if post {
		ledger.Post(s, "ledger", read, append(opts, ledger.Columns("amount", "pieces"))...)
	} else {
		s.Peek("read", func(r topology.Record[string, int64]) error {
			kept, _ = read(r)
			return nil
		})
	}
	return processortest.OpenGraph(tb, b, 1)
}

// kept keeps the compiler from removing a contribution that is never read.
var kept ledger.Contribution

// benchInput returns the contribution i, which is new for every i, to one of 64 ledgers.
func benchInput(i int) graph.Input {
	return graph.Input{
		Topic: "in", Offset: int64(i), Timestamp: 1, StreamTime: 1,
		Key:   strconv.AppendInt([]byte("account-"), int64(i%64), 10),
		Value: binary.BigEndian.AppendUint64(nil, uint64(i)),
	}
}

func process(tb testing.TB, g *topology.Graph, in graph.Input) {
	if v := g.Process(in); v.Action != graph.Accept {
		tb.Fatal(v.Failure)
	}
}

func BenchmarkLedger(b *testing.B) {
	b.Run("source alone", func(b *testing.B) { benchmark(b, false, func(i int) int { return i }) })
	b.Run("accepted", func(b *testing.B) { benchmark(b, true, func(i int) int { return i }) })
	b.Run("accepted, payloads compared", func(b *testing.B) {
		benchmark(b, true, func(i int) int { return i }, ledger.ComparePayload())
	})
	b.Run("duplicates", func(b *testing.B) { benchmark(b, true, func(int) int { return 1000 }) })
}

func benchmark(b *testing.B, post bool, id func(i int) int, opts ...ledger.Option) {
	g := benchGraph(b, post, opts...)
	process(b, g, benchInput(1000))
	b.ReportAllocs()
	i := 1001
	for b.Loop() {
		process(b, g, benchInput(id(i)))
		i++
	}
}

// TestAllocations holds the cost of the ledger itself: two rows, and the sums, which are read into
// memory of their own because they are emitted. A duplicate costs the posting that it is compared
// with. A hash that is compared adds nothing to an accepted record.
func TestAllocations(t *testing.T) {
	count := func(post bool, id func(i int) int, opts ...ledger.Option) float64 {
		g, i := benchGraph(t, post, opts...), 1001
		for warm := range 64 {
			process(t, g, benchInput(1000-warm))
		}
		return testing.AllocsPerRun(2000, func() {
			process(t, g, benchInput(id(i)))
			i++
		})
	}
	each, same := func(i int) int { return i }, func(int) int { return 1000 }
	if n := count(true, each) - count(false, each); n > 3 {
		t.Errorf("an accepted record costs %v allocations, want 3", n)
	}
	if n := count(true, same) - count(false, same); n > 1 {
		t.Errorf("a duplicate costs %v allocations, want 1", n)
	}
	hash := ledger.PayloadHash(func(r topology.Record[string, int64]) (h [32]byte, err error) {
		h[0] = byte(r.Value)
		return h, nil
	})
	if n := count(true, each, hash) - count(false, each); n > 3 {
		t.Errorf("an accepted record costs %v allocations with a hash, want 3", n)
	}
}
