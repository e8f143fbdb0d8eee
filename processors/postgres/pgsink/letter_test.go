package pgsink

import (
	"context"
	"errors"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/processors/postgres/internal/pgtest"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// TestFencedRefusal: an owner that freezes when it is about to refuse a record, which the next
// owner applies, sends no dead letter.
func TestFencedRefusal(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		s.produce(1, 1)
		dead := s.c.Name(s.t, "dead")
		s.c.CreateTopics(s.t, 1, dead)
		a := s.sink("a", func(c *Config) {
			c.DeadLetterTopic = dead
			c.Apply = Each(func(context.Context, pgx.Tx, *kgo.Record) error { return errors.New("bad here") })
			c.Client = append(c.Client, kgo.HeartbeatInterval(time.Minute), kgo.SessionTimeout(5*time.Minute), kgo.Balancers(kgo.RangeBalancer()))
		})
		frozen, wake, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		var received atomic.Int32
		a.setAt(func(_ context.Context, point string, _ int32) error {
			if point == "received" && received.Add(1) == 2 {
				close(frozen)
				<-wake
			}
			return nil
		})
		ctx, cancel := context.WithCancel(s.t.Context())
		defer cancel()
		go func() { ended <- a.Run(ctx) }()
		<-frozen
		s.evict("a")
		stop := s.start(s.sink("b", func(c *Config) { c.Client = append(c.Client, kgo.Balancers(kgo.RangeBalancer())) }))
		s.awaitEnd()
		close(wake)
		stop()
		cancel()
		if err := <-ended; err != nil {
			s.t.Error(err)
		}
		if n := len(s.c.Records(s.t, dead)); n != 0 || s.quarantined() != 0 {
			s.t.Errorf("%d dead letters, %d in quarantine", n, s.quarantined())
		}
	})
}

// TestLetterIsTooLarge: a record that the dead-letter topic does not take is in quarantine, and the
// others go on.
func TestLetterIsTooLarge(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		dead := s.c.Name(s.t, "dead")
		s.c.CreateTopics(s.t, 1, dead)
		if err := s.c.Client(s.t).ProduceSync(s.t.Context(), &kgo.Record{Topic: s.topic, Value: make([]byte, 10_000)}).FirstErr(); err != nil {
			s.t.Fatal(err)
		}
		a := s.sink("a", func(c *Config) {
			c.DeadLetterTopic = dead
			c.Client = append(c.Client, kgo.ProducerBatchMaxBytes(5000))
			c.Apply = Each(func(ctx context.Context, tx pgx.Tx, r *kgo.Record) error {
				if len(r.Value) > 1000 {
					return errors.New("bad")
				}
				return effect(ctx, tx, r)
			})
		})
		s.produce(1, 5)
		s.start(a)
		s.awaitEnd()
		pgtest.Await(s.t, "the record is in quarantine", func() bool {
			all, err := Quarantined(s.t.Context(), s.db.Pool, s.name, 10)
			return err == nil && len(all) == 1 && len(all[0].Record.Value) == 10_000
		})
	})
}

// TestLettersAreRead: a long reason and a count of deaths at its limit make a dead letter that
// package topology reads.
func TestLettersAreRead(t *testing.T) {
	w := &worker{sink: &Sink{config: Config{Name: "sink"}}, partition: partition{"in", 0}}
	f := Refused{
		Record: &kgo.Record{Topic: "in", Offset: 1}, Class: topology.Poison, Reason: strings.Repeat("é", 1000), Attempts: 1, FirstFailure: time.Unix(1, 0),
	}
	for range 2 {
		var headers []topology.Header
		f.Record.Headers = w.letterHeaders(f, time.Unix(2, 0))
		for i, h := range f.Record.Headers {
			headers = append(headers, topology.Header{Key: h.Key, Value: h.Value})
			if h.Key == graph.HeaderDeaths {
				f.Record.Headers[i].Value = []byte(strconv.Itoa(math.MaxInt32 - 1))
			}
		}
		if info, err := graph.ParseDeadLetter(headers); err != nil {
			t.Fatalf("%+v, %v", info, err)
		}
	}
}
