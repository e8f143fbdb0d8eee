package topologytest_test

import (
	"strconv"
	"testing"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

var (
	benchIn    = topology.Topic("in", schemas.String(), schemas.Int64())
	benchOut   = topology.Topic("out", schemas.String(), schemas.Int64())
	benchStore = topology.KeyValueStore("sums", schemas.String(), schemas.Int64())
)

// benchTopology has three steps: filter, a node with a store, map; and a sink.
func benchTopology(b *testing.B) *topology.Topology {
	b.Helper()
	builder := topology.NewBuilder("bench", topology.DeadLetters("bench.dead"))
	s := topology.From(builder, benchIn)
	s = s.Filter("positive", func(r topology.Record[string, int64]) (bool, error) {
		return r.Value >= 0, nil
	})
	sums := topology.Process(s, "sums", benchStore, func(
		c *topology.Context, store state.KeyValue[string, int64], r topology.Record[string, int64],
		emit topology.Emit[string, int64],
	) error {
		sum, _, err := store.Get(r.Key)
		if err != nil {
			return err
		}
		sum += r.Value
		if err := store.Put(r.Key, sum); err != nil {
			return err
		}
		return emit(c, topology.WithValue(r, sum))
	})
	topology.MapValues(sums, "double", func(v int64) (int64, error) {
		return 2 * v, nil
	}).Into(benchOut)
	t, err := builder.Build()
	if err != nil {
		b.Fatal(err)
	}
	return t
}

// BenchmarkDriver is a record through three steps and a store, with what the driver adds to it.
func BenchmarkDriver(b *testing.B) {
	d, err := topologytest.New(benchTopology(b))
	if err != nil {
		b.Fatal(err)
	}
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = "key-" + strconv.Itoa(i)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if err := topologytest.Pipe(d, benchIn, keys[i%len(keys)], int64(i)); err != nil {
			b.Fatal(err)
		}
		if i++; i%1000 == 0 {
			if out, err := d.OutputRaw("out"); err != nil || len(out) != 1000 {
				b.Fatal(len(out), err)
			}
		}
	}
}

// BenchmarkRepartition is a record through two subtopologies of eight tasks each, with a store in
// the second one.
func BenchmarkRepartition(b *testing.B) {
	builder := topology.NewBuilder("bench")
	moved := topology.RepartitionWith(topology.From(builder, benchIn), "moved", schemas.String(), schemas.Int64())
	topology.Process(moved, "sums", benchStore, func(
		c *topology.Context, store state.KeyValue[string, int64], r topology.Record[string, int64],
		emit topology.Emit[string, int64],
	) error {
		sum, _, err := store.Get(r.Key)
		if err != nil {
			return err
		}
		if err := store.Put(r.Key, sum+r.Value); err != nil {
			return err
		}
		return emit(c, topology.WithValue(r, sum+r.Value))
	}).Into(benchOut)
	built, err := builder.Build()
	if err != nil {
		b.Fatal(err)
	}
	d := topologytest.Start(b, built, topologytest.Partitions(8))
	in, out := topologytest.In(d, benchIn), topologytest.Out(d, benchOut)
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = "key-" + strconv.Itoa(i)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		in.Pipe(keys[i%len(keys)], 1)
		if i++; i%1000 == 0 {
			if records := out.Read(); len(records) != 1000 {
				b.Fatal(len(records))
			}
			if _, err := d.OutputRaw("bench-moved-repartition"); err != nil {
				b.Fatal(err)
			}
		}
	}
}
