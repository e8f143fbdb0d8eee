package pgsink

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/processors/postgres/internal/pgtest"
)

func TestMain(m *testing.M) {
	if os.Getenv(envChild) != "" {
		os.Exit(child())
	}
	pgtest.MainWithBrokers(m)
}

// stage is a topic, a database with what is made of it, and instances of one sink.
type stage struct {
	t     *testing.T
	c     *cluster.Cluster
	db    *pgtest.Database
	topic string
	name  string
	count int64 // records that were committed to the topic
	made  int   // records of each partition that produce has made
}

// onStage runs a test on the broker of this process.
func onStage(t *testing.T, partitions int32, f func(s *stage)) {
	t.Helper()
	cluster.Each(t, func(t *testing.T, c *cluster.Cluster) {
		s := newStage(t, c, partitions)
		f(s)
	})
}

func newStage(t *testing.T, c *cluster.Cluster, partitions int32) *stage {
	t.Helper()
	s := &stage{t: t, c: c, db: pgtest.New(t), topic: c.Name(t, "in"), name: c.Name(t, "sink")}
	c.CreateTopics(t, partitions, s.topic)
	s.db.Exec(t, effectsTables)
	return s
}

const effectsTables = `
CREATE TABLE effects (id bigserial, partition int, record_offset bigint, value text);
CREATE TABLE totals (partition int PRIMARY KEY, records bigint)`

// effect is what the sinks of these tests do with a record: a row, and a sum that a second
// application would make wrong.
func effect(ctx context.Context, tx pgx.Tx, r *kgo.Record) error {
	_, err := tx.Exec(ctx, `WITH row AS (INSERT INTO effects (partition, record_offset, value) VALUES ($1, $2, $3))
		INSERT INTO totals VALUES ($1, 1) ON CONFLICT (partition) DO UPDATE SET records = totals.records + 1`, r.Partition, r.Offset, string(r.Value))
	return err
}

// config returns the configuration of an instance, whose sessions have its name as application
// name.
func (s *stage) config(instance string, change func(c *Config)) Config {
	c := Config{
		Name: s.name, Topics: []string{s.topic}, Apply: Each(effect), BatchRecords: 10,
		Pool: s.db.NewPool(s.t, pgtest.Named(instance)),
		Client: []kgo.Opt{
			kgo.SeedBrokers(s.c.Brokers()...), kgo.ClientID(instance), kgo.HeartbeatInterval(200 * time.Millisecond),
			kgo.FetchMaxWait(100 * time.Millisecond), kgo.MetadataMinAge(50 * time.Millisecond),
		},
	}
	if change != nil {
		change(&c)
	}
	return c
}

func (s *stage) sink(instance string, change func(c *Config)) *Sink {
	s.t.Helper()
	sink, err := New(s.config(instance, change))
	if err != nil {
		s.t.Fatal(err)
	}
	sink.queueMax = 20 // so that partitions are paused
	return sink
}

// start runs a sink until the function that it returns is called, or the test ends. Run must not
// fail.
func (s *stage) start(sink *Sink) (stop func()) { return pgtest.Start(s.t, sink.Run) }

// produce commits n records to each partition, in transactions of ten of which every third is
// aborted and written again.
func (s *stage) produce(partitions int32, n int) {
	s.t.Helper()
	producer := s.c.Client(s.t, kgo.TransactionalID(s.c.Name(s.t, "producer")), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	must := func(err error) {
		s.t.Helper()
		if err != nil {
			s.t.Fatal(err)
		}
	}
	rounds := 0
	for from := 0; from < n; {
		to := min(from+10, n)
		must(producer.BeginTransaction())
		for i := from; i < to; i++ {
			for p := range partitions {
				producer.Produce(s.t.Context(), &kgo.Record{Topic: s.topic, Partition: p, Value: fmt.Appendf(nil, "%d-%d", p, s.made+i)}, func(_ *kgo.Record, err error) {
					if err != nil {
						s.t.Errorf("produce: %v", err)
					}
				})
			}
		}
		must(producer.Flush(s.t.Context()))
		rounds++
		if rounds%3 == 0 {
			must(producer.EndTransaction(s.t.Context(), kgo.TryAbort))
			continue
		}
		must(producer.EndTransaction(s.t.Context(), kgo.TryCommit))
		s.count += int64(to-from) * int64(partitions)
		from = to
	}
	s.made += n
	producer.Close()
}

// awaitEnd waits until the offsets are behind all committed records.
func (s *stage) awaitEnd() {
	s.t.Helper()
	pgtest.Await(s.t, "everything is applied", func() bool { return s.effects() >= s.count })
}

func (s *stage) effects() int64 { return s.db.Int(s.t, "SELECT count(*) FROM effects") }

// judge fails the test unless every committed record has had its effect once, in the order of its
// partition.
func (s *stage) judge() {
	s.t.Helper()
	for _, wrong := range s.verdict() {
		s.t.Error(wrong)
	}
}

func (s *stage) verdict() (wrong []string) {
	s.t.Helper()
	if n := s.effects(); n != s.count {
		wrong = append(wrong, fmt.Sprintf("%d records have %d effects", s.count, n))
	}
	if n := s.db.Int(s.t, "SELECT count(DISTINCT value) FROM effects"); n != s.count {
		wrong = append(wrong, fmt.Sprintf("%d of %d records have an effect", n, s.count))
	}
	if n := s.db.Int(s.t, "SELECT coalesce(sum(records), 0)::bigint FROM totals"); n != s.count {
		wrong = append(wrong, fmt.Sprintf("the total is %d, want %d", n, s.count))
	}
	if n := s.db.Int(s.t, `SELECT count(*) FROM (SELECT record_offset < lag(record_offset) OVER (PARTITION BY partition ORDER BY id) AS before FROM effects) o
		WHERE before`); n != 0 {
		wrong = append(wrong, fmt.Sprintf("%d records were applied out of order", n))
	}
	return wrong
}

// evict takes a member out of the group, as the coordinator does with one that it does not hear of.
func (s *stage) evict(instance string) {
	s.t.Helper()
	groups, err := s.c.Admin().DescribeGroups(s.t.Context(), s.name)
	if err != nil {
		s.t.Fatal(err)
	}
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = s.name
	for _, m := range groups[s.name].Members {
		if m.ClientID == instance {
			req.Members = append(req.Members, kmsg.LeaveGroupRequestMember{MemberID: m.MemberID})
		}
	}
	if len(req.Members) != 1 {
		s.t.Fatalf("%d members are called %s", len(req.Members), instance)
	}
	resp, err := req.RequestWith(s.t.Context(), s.c.Client(s.t))
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// generation returns the highest generation of the sink's partitions.
func (s *stage) generation() int64 {
	return s.db.Int(s.t, "SELECT coalesce(max(generation), 0) FROM onceward.sink_offsets WHERE sink = $1", s.name)
}
