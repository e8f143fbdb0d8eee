package inbox_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/onceward/onceward/processors/inbox"
	"github.com/onceward/onceward/processors/internal/processortest"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// benchGraph is the task of an inbox of byte values, whose id is a header, or of the source alone.
func benchGraph(tb testing.TB, dedupe bool, opts ...inbox.Option) *topology.Graph {
	tb.Helper()
	return benchGraphOf(tb, schemas.Bytes(), dedupe, func(r topology.Record[[]byte, []byte]) (string, error) {
		return string(r.Value), nil
	}, opts...)
}

func benchGraphOf[V any](
	tb testing.TB, codec schemas.Codec[V], dedupe bool, id func(topology.Record[[]byte, V]) (string, error), opts ...inbox.Option,
) *topology.Graph {
	tb.Helper()
	b := topology.NewBuilder("bench", topology.DeadLetters("dead"))
	s := topology.From(b, topology.Topic("in", schemas.Bytes(), codec))
	if dedupe {
		inbox.Dedupe(s, "inbox", id, inbox.Kept(opts...)...)
	}
	return processortest.OpenGraph(tb, b, 1)
}

// benchInput returns a record whose value, which is also its id, is new for every i.
func benchInput(i int) graph.Input {
	return graph.Input{
		Topic: "in", Offset: int64(i), Timestamp: 1, StreamTime: 1, Key: []byte("key"),
		Value: append([]byte("0123456789abcdef0123456789abcdef-"), strconv.Itoa(i)...),
	}
}

func process(tb testing.TB, g *topology.Graph, in graph.Input) {
	if v := g.Process(in); v.Action != graph.Accept {
		tb.Fatal(v.Failure)
	}
}

func BenchmarkInbox(b *testing.B) {
	b.Run("source alone", func(b *testing.B) { benchmark(b, false, func(i int) int { return i }) })
	b.Run("accepted", func(b *testing.B) { benchmark(b, true, func(i int) int { return i }) })
	b.Run("duplicates", func(b *testing.B) { benchmark(b, true, func(int) int { return 0 }) })
	each := func(i int) int { return i }
	b.Run("accepted, retained", func(b *testing.B) { benchmark(b, true, each, inbox.Retain(time.Hour)) })
	b.Run("accepted, archived", func(b *testing.B) {
		topic := topology.Topic("archive", schemas.String(), inbox.EntryCodec())
		benchmark(b, true, each, inbox.Retain(time.Hour), inbox.Archive(topic))
	})
	b.Run("accepted, guarded", func(b *testing.B) {
		benchmark(b, true, each, inbox.BusinessKey(func(r topology.Record[[]byte, []byte]) (string, error) {
			return string(r.Value), nil
		}))
	})
}

func benchmark(b *testing.B, dedupe bool, id func(i int) int, opts ...inbox.Option) {
	g := benchGraph(b, dedupe, opts...)
	process(b, g, benchInput(0))
	b.ReportAllocs()
	i := 1
	for b.Loop() {
		process(b, g, benchInput(id(i)))
		i++
	}
}

// BenchmarkPayload is what it takes to compare documents, all of which are copies of one.
func BenchmarkPayload(b *testing.B) {
	for _, c := range []struct {
		name   string
		dedupe bool
		opts   []inbox.Option
	}{
		{"source alone", false, nil},
		{"whole", true, nil},
		{"without members", true, []inbox.Option{inbox.PayloadWithout("note")}},
	} {
		b.Run(c.name, func(b *testing.B) {
			id := func(r topology.Record[[]byte, Payment]) (string, error) { return r.Value.ID, nil }
			g := benchGraphOf(b, schemas.JSON[Payment](), c.dedupe, id, c.opts...)
			in := benchInput(0)
			in.Value = []byte(`{"id":"0123456789abcdef","amount":1250,"note":"the second instalment"}`)
			process(b, g, in)
			b.ReportAllocs()
			for b.Loop() {
				process(b, g, in)
			}
		})
	}
}

// TestAllocations holds the cost of the inbox itself: the id as a string, which is the id
// function's, and the row. The hash and the key of the store cost none. The growth of the overlay
// is spread over many records.
func TestAllocations(t *testing.T) {
	count := func(dedupe bool, id func(i int) int) float64 {
		g, i := benchGraph(t, dedupe), 1
		process(t, g, benchInput(0))
		return testing.AllocsPerRun(2000, func() {
			process(t, g, benchInput(id(i)))
			i++
		})
	}
	each, same := func(i int) int { return i }, func(int) int { return 0 }
	if n := count(true, each) - count(false, each); n > 2 {
		t.Errorf("an accepted record costs %v allocations, want 2", n)
	}
	if n := count(true, same) - count(false, same); n > 1 {
		t.Errorf("a duplicate costs %v allocations, want 1", n)
	}
}
