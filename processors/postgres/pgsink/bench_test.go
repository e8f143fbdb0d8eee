package pgsink

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/processors/postgres/internal/pgtest"
)

const benchBatch = 500

// BenchmarkSink applies b.N records of four partitions, and so does a plain consumer, which commits
// its offsets to Kafka after each round and would apply records twice after a crash. Both write one
// row a record, in transactions of at most 500 records. Use -benchtime 200000x.
func BenchmarkSink(b *testing.B) {
	c := cluster.Embedded(b)
	for _, how := range []struct {
		name string
		run  func(r *race)
	}{{"plain consumer", (*race).plain}, {"sink", (*race).sink}} {
		b.Run(how.name, func(b *testing.B) {
			r := newRace(b, c)
			how.run(r)
			b.ReportMetric(float64(b.N)/r.took.Seconds(), "records/s") // without joining the group
			if n := r.db.Int(b, "SELECT count(*) FROM made"); n != int64(b.N) {
				b.Errorf("%d rows of %d records", n, b.N)
			}
		})
	}
}

// race is a topic with b.N records, and where they go.
type race struct {
	b       *testing.B
	c       *cluster.Cluster
	db      *pgtest.Database
	topic   string
	began   sync.Once // with the first record
	start   time.Time
	took    time.Duration
	applied atomic.Int64
	ctx     context.Context
	finish  context.CancelFunc
}

func newRace(b *testing.B, c *cluster.Cluster) *race {
	r := &race{b: b, c: c, db: pgtest.New(b), topic: c.Name(b, "in")}
	r.ctx, r.finish = context.WithCancel(b.Context())
	b.Cleanup(r.finish)
	r.db.Exec(b, "CREATE TABLE made (partition int, record_offset bigint, value text)")
	c.CreateTopics(b, 4, r.topic)
	producer := c.Client(b, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for i := range b.N {
		producer.Produce(b.Context(), &kgo.Record{Topic: r.topic, Partition: int32(i % 4), Value: fmt.Appendf(nil, "the value of a record, number %d", i)}, nil)
	}
	if err := producer.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	producer.Close()
	return r
}

// apply writes a row a record.
func (r *race) apply(ctx context.Context, tx pgx.Tx, records []*kgo.Record) error {
	r.began.Do(func() { r.start = time.Now() })
	rows := &pgx.Batch{}
	for _, r := range records {
		rows.Queue("INSERT INTO made VALUES ($1, $2, $3)", r.Partition, r.Offset, string(r.Value))
	}
	err := tx.SendBatch(ctx, rows).Close()
	if err == nil {
		r.applied.Add(int64(len(records)))
	}
	return err
}

func (r *race) sink() {
	pool := r.db.NewPool(r.b, func(c *pgxpool.Config) { c.MaxConns = 10 })
	s, err := New(Config{
		Name: r.topic, Topics: []string{r.topic}, Pool: pool, Apply: r.apply, BatchRecords: benchBatch,
		Client: []kgo.Opt{kgo.SeedBrokers(r.c.Brokers()...)},
	})
	if err != nil {
		r.b.Fatal(err)
	}
	go func() {
		defer r.finish()
		defer func() { r.took = time.Since(r.start) }()
		pgtest.Await(r.b, "everything is applied", func() bool { return testutil.ToFloat64(s.metrics.applied) == float64(r.b.N) })
	}()
	if err := s.Run(r.ctx); err != nil {
		r.b.Fatal(err)
	}
	r.b.ReportMetric(float64(r.b.N)/testutil.ToFloat64(s.metrics.commits), "records/commit")
}

// plain is the loop that most consumers have: poll, write the records of each partition, commit the
// offsets.
func (r *race) plain() {
	pool := r.db.NewPool(r.b, func(c *pgxpool.Config) { c.MaxConns = 10 })
	client := r.c.Client(r.b, kgo.ConsumerGroup(r.topic), kgo.ConsumeTopics(r.topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	defer client.Close()
	for r.applied.Load() < int64(r.b.N) {
		fetches := client.PollRecords(r.ctx, pollRecordsMax)
		if err := fetches.Err0(); err != nil {
			r.b.Fatal(err)
		}
		var partitions sync.WaitGroup
		fetches.EachPartition(func(f kgo.FetchTopicPartition) {
			partitions.Go(func() {
				for batch := range slices.Chunk(f.Records, benchBatch) {
					if err := pgx.BeginFunc(r.ctx, pool, func(tx pgx.Tx) error { return r.apply(r.ctx, tx, batch) }); err != nil {
						r.b.Error(err)
					}
				}
			})
		})
		partitions.Wait()
		if err := client.CommitUncommittedOffsets(r.ctx); err != nil {
			r.b.Fatal(err)
		}
	}
	r.took = time.Since(r.start)
}
