package pgsink

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/processors/postgres"
	"github.com/onceward/onceward/processors/postgres/internal/pgtest"
)

// The environment of a child process: the point at which it kills itself, and what it needs to run
// the sink.
const (
	envChild   = "PGSINK_TEST_CHILD"
	envBrokers = "PGSINK_TEST_BROKERS"
	envURL     = "PGSINK_TEST_URL"
	envTopic   = "PGSINK_TEST_TOPIC"
	envName    = "PGSINK_TEST_NAME"
)

// child runs a sink until it has applied a batch and comes to its point, and kills itself there
// with SIGKILL.
func child() int {
	pool, err := pgxpool.New(context.Background(), os.Getenv(envURL))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	sink, err := New(Config{
		Name: os.Getenv(envName), Topics: []string{os.Getenv(envTopic)}, Apply: Each(effect), BatchRecords: 10, Pool: pool, Parallel: 1,
		Client: []kgo.Opt{
			kgo.SeedBrokers(strings.Split(os.Getenv(envBrokers), ",")...), kgo.ClientID("child"), kgo.FetchMaxWait(100 * time.Millisecond),
		},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	batches := 0
	sink.setAt(func(_ context.Context, point string, _ int32) error {
		if point == "received" {
			batches++
		}
		if batches == 2 && point == os.Getenv(envChild) {
			pgtest.KillSelf()
		}
		return nil
	})
	fmt.Fprintln(os.Stderr, sink.Run(context.Background()))
	return 1
}

// TestKilledAtEveryPoint: a process that is killed between receiving a batch and going on to the
// next one has applied each record once or not at all, and its successor applies the rest. Rows of
// the failure matrix: crash before processing; crash after the apply; duplicate delivery. Row of
// the failure matrix: crash after processing before flush.
func TestKilledAtEveryPoint(t *testing.T) {
	onStage(t, 2, func(s *stage) {
		for _, point := range points {
			s.produce(2, 30)
			pgtest.Killed(s.t, envChild+"="+point, envBrokers+"="+strings.Join(s.c.Brokers(), ","), envURL+"="+s.db.URL,
				envTopic+"="+s.topic, envName+"="+s.name)
			before := s.effects()
			if point != "committed" && before%10 != 0 {
				s.t.Errorf("killed when %s: %d effects are no whole batches", point, before)
			}
			if before >= s.count {
				s.t.Errorf("killed when %s: nothing is left to apply", point)
			}
			s.evict("child")
			stop := s.start(s.sink("successor", nil))
			s.awaitEnd()
			stop()
			s.judge()
		}
	})
}

// TestOffsetsApart is the negative control: a consumer that commits its offsets to Kafka after the
// transaction applies a batch twice when it is killed in between.
func TestOffsetsApart(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		s.produce(1, 10)
		s.count = 10
		consume := func(killed bool) {
			client := s.c.Client(s.t, kgo.ConsumerGroup(s.name), kgo.ConsumeTopics(s.topic), kgo.DisableAutoCommit(), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
			for applied := 0; applied < 10; {
				fetches := client.PollFetches(s.t.Context())
				if err := fetches.Err0(); err != nil {
					s.t.Fatal(err)
				}
				tx, err := s.db.Pool.Begin(s.t.Context())
				if err != nil {
					s.t.Fatal(err)
				}
				fetches.EachRecord(func(r *kgo.Record) {
					if err := effect(s.t.Context(), tx, r); err != nil {
						s.t.Fatal(err)
					}
					applied++
				})
				if err := tx.Commit(s.t.Context()); err != nil {
					s.t.Fatal(err)
				}
			}
			if !killed {
				if err := client.CommitUncommittedOffsets(s.t.Context()); err != nil {
					s.t.Fatal(err)
				}
			}
			client.Close()
		}
		consume(true)
		s.judge()
		consume(false)
		if n := s.effects(); n != 20 {
			s.t.Errorf("10 records have %d effects, want 20", n)
		}
	})
}

func migrate(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	if _, err := postgres.Migrate(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
}
