package bench

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"io"
	"iter"
	"log/slog"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/onceward/onceward/bench/load"
	"github.com/onceward/onceward/processors/inbox"
	"github.com/onceward/onceward/processors/ledger"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

const (
	partitions = 4
	accounts   = 10_000
)

// events are n records: key = account number, value = 16-byte event id, 8-byte amount, padding to 100 bytes.
func events(n int) iter.Seq[load.Record] {
	return func(yield func(load.Record) bool) {
		at := time.Now()
		for i := range uint64(n) {
			account := i % accounts
			value := make([]byte, 100)
			binary.BigEndian.PutUint64(value[8:], i)
			binary.BigEndian.PutUint64(value[16:], i%1000)
			if !yield(load.Record{
				Partition: int32(account % partitions), Key: binary.BigEndian.AppendUint64(nil, account), Value: value, Timestamp: at,
			}) {
				return
			}
		}
	}
}

type record = topology.Record[[]byte, []byte]

func pass(b *topology.Builder) {
	topology.From(b, topology.Topic("in", schemas.Bytes(), schemas.Bytes())).Into(topology.Topic("out", schemas.Bytes(), schemas.Bytes()))
}

func post(b *topology.Builder) {
	in := topology.From(b, topology.Topic("in", schemas.Bytes(), schemas.Bytes()))
	once := inbox.Dedupe(in, "inbox", func(r record) (string, error) { return hex.EncodeToString(r.Value[:16]), nil })
	posted := ledger.Post(once.Accepted(), "balances", func(r record) (ledger.Contribution, error) {
		amount := int64(binary.BigEndian.Uint64(r.Value[16:]))
		return ledger.Contribution{ID: hex.EncodeToString(r.Value[8:16]), Amounts: []int64{amount}}, nil
	})
	posted.Changes().Into(topology.Topic("out", schemas.Bytes(), ledger.BalanceCodec()))
}

// benchmark measures records per second from the start of an application to the last commit. One operation is one record.
func benchmark(b *testing.B, build func(*topology.Builder)) {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, "in", "out", "dead"))
	if err != nil {
		b.Fatal(err)
	}
	defer broker.Close()
	if _, err := load.Write(b.Context(), broker.ListenAddrs(), "in", events(b.N)); err != nil {
		b.Fatal(err)
	}
	builder := topology.NewBuilder("bench", topology.DeadLetters("dead"))
	build(builder)
	t, err := builder.Build()
	if err != nil {
		b.Fatal(err)
	}
	app, err := txn.New(t, txn.Config{
		Brokers: broker.ListenAddrs(), StateDir: b.TempDir(), Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	done := make(chan error, 1)
	b.ReportAllocs()
	b.ResetTimer()
	go func() { done <- app.Run(ctx) }()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for app.Status().Totals.Records < int64(b.N) {
		select {
		case err := <-done:
			b.Fatal(err)
		case <-tick.C:
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
	b.ReportMetric(float64(app.Status().Totals.Commits), "commits")
	if got := app.Status().Totals.DeadLetters; got != 0 {
		b.Errorf("%d records became dead letters", got)
	}
	stop()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}

func BenchmarkPass(b *testing.B)   { benchmark(b, pass) }
func BenchmarkLedger(b *testing.B) { benchmark(b, post) }
