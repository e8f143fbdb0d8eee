package bench

import (
	"context"
	"io"
	"iter"
	"log/slog"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/bench/load"
	"github.com/onceward/onceward/bench/workload"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn"
)

const partitions = 4

// How many keys the records are about. The event time of records with sides goes slower with more
// keys, and windows hold more records then.
const (
	fewKeys  = 10_000
	manyKeys = 100_000
)

// input are n records of a workload, about so many keys.
func input(b *testing.B, w workload.Workload, n int, keys int64) iter.Seq[load.Record] {
	b.Helper()
	source, err := w.NewSource(w.Uses(workload.Input{Seed: 1, Keys: keys, Distribution: workload.Uniform}))
	if err != nil {
		b.Fatal(err)
	}
	at := time.Now()
	return func(yield func(load.Record) bool) {
		for i := range n {
			r := source.Next(at.Add(time.Duration(i)).UnixNano())
			if !yield(load.Record{
				Partition: graph.PartitionOf(r.Key, partitions), Key: r.Key, Value: r.Value, Timestamp: time.UnixMilli(r.Timestamp),
			}) {
				return
			}
		}
	}
}

// application is one that runs on the embedded broker.
type application struct {
	b       *testing.B
	app     *txn.App
	brokers []string
	ended   chan error
}

// start starts a workload over the first n records of its input, which are about so many keys. The
// clock of the benchmark is reset right before.
func start(b *testing.B, name string, n int, keys int64) *application {
	b.Helper()
	broker, err := kfake.NewCluster(kfake.NumBrokers(1),
		kfake.SeedTopics(partitions, "in", "out", workload.EvidenceTopic("out"), "dead"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(broker.Close)
	w, err := workload.Find(name)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := load.Write(b.Context(), broker.ListenAddrs(), "in", input(b, w, n, keys)); err != nil {
		b.Fatal(err)
	}
	t, err := w.Topology("bench", workload.Topics{In: "in", Out: "out", Dead: "dead"})
	if err != nil {
		b.Fatal(err)
	}
	a := &application{b: b, brokers: broker.ListenAddrs(), ended: make(chan error, 1)}
	a.app, err = txn.New(t, txn.Config{
		Brokers: a.brokers, StateDir: b.TempDir(), Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(b.Context()))
	b.Cleanup(func() {
		stop()
		if err := <-a.ended; err != nil {
			b.Error(err)
		}
	})
	b.ReportAllocs()
	b.ResetTimer()
	go func() { a.ended <- a.app.Run(ctx) }()
	return a
}

// await waits until so many records are committed.
func (a *application) await(records int64) {
	a.b.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for a.app.Status().Totals.Records < records {
		select {
		case err := <-a.ended:
			a.ended <- nil
			a.b.Fatal(err)
		case <-tick.C:
		}
	}
}

// benchmark measures records per second from the start of an application to the last commit. One
// operation is one record.
func benchmark(b *testing.B, name string, keys int64) {
	a := start(b, name, b.N, keys)
	a.await(int64(b.N))
	b.StopTimer()
	totals := a.app.Status().Totals
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
	b.ReportMetric(float64(totals.Commits), "commits")
	if totals.DeadLetters != 0 {
		b.Errorf("%d records became dead letters", totals.DeadLetters)
	}
}

func BenchmarkPass(b *testing.B)   { benchmark(b, "pass", fewKeys) }
func BenchmarkCount(b *testing.B)  { benchmark(b, "count", fewKeys) }
func BenchmarkLedger(b *testing.B) { benchmark(b, "ledger", fewKeys) }

// BenchmarkSided has the joins and the sessions, with as many keys as the comparison with Kafka
// Streams.
func BenchmarkSided(b *testing.B) {
	for _, name := range []string{"stream-table", "stream-stream", "foreign-key", "sessions"} {
		b.Run(name, func(b *testing.B) { benchmark(b, name, manyKeys) })
	}
}

// BenchmarkEvidence is what BenchmarkLedger costs with less and with more: the ledger without an
// inbox, and both with evidence.
func BenchmarkEvidence(b *testing.B) {
	for _, name := range []string{"ledger-bare", "ledger", "ledger-payload", "ledger-evidence"} {
		b.Run(name, func(b *testing.B) { benchmark(b, name, fewKeys) })
	}
}

// BenchmarkRound is one commit round with one record: from the moment it is produced until a reader
// of committed records has its output. Nothing overlaps, so this is the least that a record can
// take.
func BenchmarkRound(b *testing.B) {
	a := start(b, "ledger", 1, fewKeys)
	a.await(1)
	cl, err := kgo.NewClient(kgo.SeedBrokers(a.brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0),
		kgo.ConsumeTopics("out"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		b.Fatal(err)
	}
	defer cl.Close()
	read := func() {
		for fetches := cl.PollFetches(b.Context()); fetches.NumRecords() == 0; fetches = cl.PollFetches(b.Context()) {
			if err := fetches.Err(); err != nil {
				b.Fatal(err)
			}
		}
	}
	read()
	var account workload.Account
	b.ResetTimer()
	for n := range b.N {
		e := workload.Event{Account: account, ID: workload.EventID(uint64(n)), Amount: 1, Clock: time.Now().UnixNano()}
		err := cl.ProduceSync(b.Context(), &kgo.Record{Topic: "in", Key: account[:], Value: e.Append(nil)}).FirstErr()
		if err != nil {
			b.Fatal(err)
		}
		read()
	}
}
