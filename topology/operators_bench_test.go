package topology

import (
	"encoding/binary"
	"reflect"
	"testing"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
)

// Numbers are decoded and encoded without an allocation, so that what is left is the graph's own.
var (
	numbersIn    = Topic("in", schemas.Int64(), schemas.Int64())
	numbersOut   = Topic("out", schemas.Int64(), schemas.Int64())
	numbersStore = TimestampedStore("numbers", schemas.Int64(), schemas.Int64())
)

type number = Record[int64, int64]

// double and positive are variables, because code that calls user code does not know what it calls.
var (
	double   = func(r number) (number, error) { return WithValue(r, 2*r.Value), nil }
	positive = func(r number) (bool, error) { return r.Value >= 0, nil }
)

func mapFilterMap(b *Builder) {
	Map(Map(From(b, numbersIn), "first", double).Filter("positive", positive), "second", double).Into(numbersOut)
}

// operators are the topologies that are measured, and how many allocations a record may cost: one
// for each row that is written, which belongs to the store, and those of the store's scans.
var operators = []struct {
	name    string
	declare func(b *Builder)
	allocs  float64
}{
	{"MapFilterMap", mapFilterMap, 0},
	{"Repartition", func(b *Builder) { RepartitionWith(From(b, numbersIn), "again", schemas.Int64(), schemas.Int64()) }, 0},
	{"KeepOrigin", func(b *Builder) {
		RepartitionWith(From(b, numbersIn), "again", schemas.Int64(), schemas.Int64(), KeepOrigin())
	}, 0},
	{"TableFilterMap", func(b *Builder) {
		positive := func(_, v int64) (bool, error) { return v >= 0, nil }
		double := func(_, v int64) (int64, error) { return 2 * v, nil }
		MapTable(TableFrom(b, numbersIn, numbersStore).Filter("positive", positive), "double", double).Into(numbersOut)
	}, 1},
	{"Count", func(b *Builder) { Count(From(b, numbersIn), numbersStore).Into(numbersOut) }, 1},
	{"JoinTables", func(b *Builder) {
		sum := func(_, l, r int64) (int64, error) { return l + r, nil }
		table := TableFrom(b, numbersIn, numbersStore)
		JoinTables(table, MapTable(table, "same", func(_, v int64) (int64, error) { return v, nil }), "sum", sum).Into(numbersOut)
	}, 1},
	{"JoinStreamTable", func(b *Builder) {
		s := From(b, numbersIn)
		JoinStreamTable(s, ToTable(s, numbersStore), "sum", func(_, v, row int64) (int64, error) { return v + row, nil }).Into(numbersOut)
	}, 1},
	{"JoinForeignKey", func(b *Builder) { // the left side
		others := TableFrom(b, Topic("others", schemas.Int64(), schemas.Int64()), TimestampedStore("other-numbers", schemas.Int64(), schemas.Int64()))
		JoinForeignKey(TableFrom(b, numbersIn, numbersStore), others, "joined", func(_, v int64) (Option[int64], error) { return Some(v % 7), nil },
			func(_, l, r int64) (int64, error) { return l + r, nil })
	}, 1},
	{"JoinStreams", func(b *Builder) {
		s, n := From(b, numbersIn), schemas.Int64()
		JoinStreams(s, From(b, Topic("other", n, n)), "sum", Within(time.Second), n, n, n, func(_, l, r int64) (int64, error) { return l + r, nil }).
			Into(numbersOut)
	}, 28},
	{"GroupTable", func(b *Builder) {
		GroupTable(TableFrom(b, numbersIn, numbersStore), "groups", schemas.Int64(), schemas.Int64(),
			func(k, v int64) (int64, int64, error) { return k % 7, v, nil })
	}, 1},
	{"CountWindows", func(b *Builder) {
		w := Tumbling(time.Hour)
		counts := CountWindows(From(b, numbersIn), w, WindowStore("windows", schemas.Int64(), schemas.Int64(), w.Retention()))
		counts.Into(Topic("out", WindowedCodec(schemas.Int64(), time.Hour), schemas.Int64()))
	}, 1},
	{"Sliding", func(b *Builder) {
		w := Sliding(time.Hour)
		counts := CountWindows(From(b, numbersIn), w, WindowStore("windows", schemas.Int64(), schemas.Int64(), w.Retention()))
		counts.Into(Topic("out", WindowedCodec(schemas.Int64(), time.Hour), schemas.Int64()))
	}, 80},
	{"Sessions", func(b *Builder) {
		w := Sessions(time.Hour)
		counts := CountSessions(From(b, numbersIn), w, SessionStore("sessions", schemas.Int64(), schemas.Int64(), w.Retention()))
		counts.Into(Topic("out", SessionCodec(schemas.Int64()), schemas.Int64()))
	}, 80},
	{"Cogroup", func(b *Builder) {
		count := func(n int64, _ number) (int64, error) { return n + 1, nil }
		Cogroup([]Folded[int64, int64]{Fold(From(b, numbersIn), count)}, numbersStore, nil).Into(numbersOut)
	}, 1},
	{"Suppress", func(b *Builder) {
		table := TableFrom(b, numbersIn, numbersStore)
		table.Suppress("limit", schemas.Int64(), schemas.Int64(), UntilTimeLimit(time.Hour).MaxRecords(1<<20)).Into(numbersOut)
	}, 6},
	{"Closed", func(b *Builder) {
		w := Tumbling(time.Hour)
		counts := CountWindows(From(b, numbersIn), w, WindowStore("windows", schemas.Int64(), schemas.Int64(), w.Retention()))
		counts.Closed().Into(Topic("out", WindowedCodec(schemas.Int64(), time.Hour), schemas.Int64()))
	}, 1},
}

// operatorGraph is the task of one of them that reads the topic in.
func operatorGraph(tb testing.TB, declare func(b *Builder)) *Graph {
	tb.Helper()
	b := NewBuilder("operators", DeadLetters("dead"))
	declare(b)
	t, err := b.Build()
	if err != nil {
		tb.Fatal(err)
	}
	var stores []state.Declaration
	for _, sub := range t.Subtopologies() {
		if sub.Name == "in" {
			stores = sub.Declarations()
		}
	}
	return benchTask(tb, t, stores)
}

func numberInputs(n int) []graph.Input {
	const at = 1_700_000_000_000
	inputs := make([]graph.Input, n)
	for i := range inputs {
		inputs[i] = graph.Input{
			Topic: "in", Offset: int64(i), Timestamp: at, StreamTime: at, StreamTimeBefore: at, Attempt: 1,
			Key: binary.BigEndian.AppendUint64(nil, uint64(i)), Value: binary.BigEndian.AppendUint64(nil, uint64(i)),
		}
	}
	return inputs
}

// BenchmarkOperators is one record through a source, the operators and a sink. Nothing is
// committed, so that state stays in the overlay.
func BenchmarkOperators(b *testing.B) {
	for _, op := range operators {
		b.Run(op.name, func(b *testing.B) {
			g, inputs := operatorGraph(b, op.declare), numberInputs(1024)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if v := g.Process(inputs[i&1023]); v.Action != graph.Accept {
					b.Fatal(v.Failure)
				}
				i++
			}
		})
	}
}

// byHand does what the graph of mapFilterMap does as somebody would write it who needs nothing
// else: decode, double, positive, double, encode, and choose a partition.
type byHand struct {
	keys, values schemas.Codec[int64]
	buffer       []byte
	outputs      []graph.Output
}

func (h *byHand) process(in *graph.Input) error {
	h.outputs = h.outputs[:0]
	k, err := h.keys.Decode(in.Key)
	if err != nil {
		return err
	}
	v, err := h.values.Decode(in.Value)
	if err != nil {
		return err
	}
	r, err := double(number{Key: k, Value: v, Timestamp: in.Timestamp, Headers: in.Headers})
	if err != nil {
		return err
	}
	if ok, err := positive(r); err != nil || !ok {
		return err
	}
	if r, err = double(r); err != nil {
		return err
	}
	if cap(h.buffer)-len(h.buffer) < 64 {
		h.buffer = make([]byte, 0, arenaChunk)
	}
	from := len(h.buffer)
	if h.buffer, err = h.keys.Append(h.buffer, r.Key); err != nil {
		return err
	}
	to := len(h.buffer)
	if h.buffer, err = h.values.Append(h.buffer, r.Value); err != nil {
		return err
	}
	key := h.buffer[from:to:to]
	h.outputs = append(h.outputs, graph.Output{
		Topic: "out", Partition: graph.PartitionOf(key, 6), Timestamp: r.Timestamp, Key: key, Value: h.buffer[to:], Headers: r.Headers,
	})
	return nil
}

// TestByHand: the two that BenchmarkOverhead compares do the same.
func TestByHand(t *testing.T) {
	g, h := operatorGraph(t, mapFilterMap), &byHand{keys: schemas.Int64(), values: schemas.Int64()}
	for _, in := range numberInputs(100) {
		got := g.Process(in).Outputs
		if err := h.process(&in); err != nil || !reflect.DeepEqual(got, h.outputs) {
			t.Fatalf("the graph makes %+v, and by hand it is %+v, %v", got, h.outputs, err)
		}
	}
}

// BenchmarkOverhead is what the graph itself costs a record: ns/op is how much longer the chain of
// mapFilterMap takes than the same by hand. The two take turns, so that it does not matter how the
// machine's speed changes.
func BenchmarkOverhead(b *testing.B) {
	const turn = 4096
	g, h, inputs := operatorGraph(b, mapFilterMap), &byHand{keys: schemas.Int64(), values: schemas.Int64()}, numberInputs(1024)
	var ours, hand time.Duration
	b.ReportAllocs()
	b.ResetTimer()
	for done := 0; done < b.N; done += turn {
		n := min(turn, b.N-done)
		start := time.Now()
		for i := range n {
			if v := g.Process(inputs[i&1023]); v.Action != graph.Accept {
				b.Fatal(v.Failure)
			}
		}
		ours += time.Since(start)
		start = time.Now()
		for i := range n {
			if err := h.process(&inputs[i&1023]); err != nil {
				b.Fatal(err)
			}
		}
		hand += time.Since(start)
	}
	per := float64(b.N)
	b.ReportMetric(float64(ours-hand)/per, "ns/op")
	b.ReportMetric(float64(ours)/per, "graph-ns/op")
	b.ReportMetric(float64(hand)/per, "hand-ns/op")
}

// copiedInputs are records of the repartition topic "again", as it has them with the option, or
// without.
func copiedInputs(tb testing.TB, opts ...RepartitionOption) (*Graph, []graph.Input) {
	tb.Helper()
	b := NewBuilder("operators")
	RepartitionWith(From(b, numbersIn), "again", schemas.Int64(), schemas.Int64(), opts...).Into(numbersOut)
	t, err := b.Build()
	if err != nil {
		tb.Fatal(err)
	}
	front, inputs := benchTask(tb, t, nil), numberInputs(1024)
	for i := range inputs {
		v := front.Process(inputs[i])
		if v.Action != graph.Accept {
			tb.Fatal(v.Failure)
		}
		inputs[i].Topic, inputs[i].Headers = v.Outputs[0].Topic, v.Outputs[0].Headers
	}
	behind, err := t.NewGraph(graph.TaskID{Subtopology: "again", Partition: 0}, nil, front.config)
	if err != nil {
		tb.Fatal(err)
	}
	return behind, inputs
}

// BenchmarkCopied is one record of a repartition topic, and how many bytes its headers have there.
func BenchmarkCopied(b *testing.B) {
	for name, opts := range map[string][]RepartitionOption{"Repartition": nil, "KeepOrigin": {KeepOrigin()}} {
		b.Run(name, func(b *testing.B) {
			g, inputs := copiedInputs(b, opts...)
			last := inputs[len(inputs)-1]
			with := graph.Output{Key: last.Key, Value: last.Value, Headers: last.Headers}
			without := graph.Output{Key: last.Key, Value: last.Value}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if v := g.Process(inputs[i&1023]); v.Action != graph.Accept {
					b.Fatal(v.Failure)
				}
				i++
			}
			b.ReportMetric(float64(batchBytes(&with)-batchBytes(&without)), "header-bytes/record")
		})
	}
}

// TestCopiedAllocations: to read where a record comes from costs no allocation.
func TestCopiedAllocations(t *testing.T) {
	g, inputs := copiedInputs(t, KeepOrigin())
	i := 0
	if allocs := testing.AllocsPerRun(2000, func() {
		if v := g.Process(inputs[i&1023]); v.Action != graph.Accept {
			t.Fatal(v.Failure)
		}
		i++
	}); allocs > 0 || len(inputs[0].Headers) != 1 {
		t.Errorf("a record with %d headers costs %v allocations", len(inputs[0].Headers), allocs)
	}
}

// TestOperatorAllocations holds the promise of the package documentation for the operators.
func TestOperatorAllocations(t *testing.T) {
	for _, op := range operators {
		g, inputs := operatorGraph(t, op.declare), numberInputs(64)
		i := 0
		allocs := testing.AllocsPerRun(2000, func() {
			if v := g.Process(inputs[i&63]); v.Action != graph.Accept {
				t.Fatal(v.Failure)
			}
			i++
		})
		if allocs > op.allocs {
			t.Errorf("%s: a record costs %v allocations, want %v at most", op.name, allocs, op.allocs)
		}
	}
}
