package pgsink

import (
	"context"
	"net"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/processors/postgres/internal/pgtest"
)

// TestRevokedInDoubt: a record whose commit is in doubt when its partition is revoked is not
// refused. It may be applied already, or is applied by the next owner.
func TestRevokedInDoubt(t *testing.T) {
	for fault, name := range map[pgtest.CommitFault]string{pgtest.CommitLost: "quarantine", pgtest.CommitUnanswered: "dead letters"} {
		t.Run(name, func(t *testing.T) {
			onStage(t, 1, func(s *stage) {
				s.produce(1, 1)
				dead := s.c.Name(s.t, "dead")
				s.c.CreateTopics(s.t, 1, dead)
				cut := &pgtest.Cutter{}
				var owner atomic.Pointer[worker]
				var down atomic.Bool
				a := s.sink("a", func(c *Config) {
					if fault == pgtest.CommitUnanswered {
						c.DeadLetterTopic = dead
					}
					c.Pool = cut.Pool(s.t, s.db, func(c *pgxpool.Config) {
						c.BeforeConnect = func(context.Context, *pgx.ConnConfig) error {
							if down.CompareAndSwap(true, false) { // the server does not answer once, and the partition is revoked
								owner.Load().finish()
								return &net.OpError{Op: "dial", Net: "test", Err: syscall.ECONNREFUSED}
							}
							return nil
						}
					})
				})
				a.at = func(_ context.Context, point string, w *worker) error {
					if point == "moved" && owner.CompareAndSwap(nil, w) {
						cut.Next(fault)
						down.Store(true)
					}
					return nil
				}
				stop := s.start(a)
				pgtest.Await(s.t, "a batch is at work", func() bool { return owner.Load() != nil })
				<-owner.Load().done
				stop()
				if n := s.db.Int(s.t, "SELECT count(*) FROM onceward.sink_quarantine"); n != 0 || down.Load() || cut.Cuts != 1 {
					s.t.Errorf("%d records are in quarantine after %d cuts", n, cut.Cuts)
				}
				s.start(s.sink("b", nil))
				s.awaitEnd()
				s.judge()
				if n := len(s.c.Records(s.t, dead)); n != 0 {
					s.t.Errorf("%d dead letters", n)
				}
			})
		})
	}
}

// TestRevokedInWait: a batch that waits for a slot when its partition is revoked does not begin.
func TestRevokedInWait(t *testing.T) {
	onStage(t, 2, func(s *stage) {
		a := s.sink("a", func(c *Config) { c.Parallel = 1 })
		s.produce(2, 10)
		var began atomic.Int32
		a.at = func(_ context.Context, point string, w *worker) error {
			if point == "received" && began.Add(1) == 1 {
				other := w.session.worker(partition{w.topic, 1 - w.n})
				pgtest.Await(s.t, "the other partition has a batch", func() bool {
					other.mu.Lock()
					defer other.mu.Unlock()
					return other.mu.behind > 0 && len(other.mu.queue) == 0
				})
				other.finish()
				w.finish()
			}
			return nil
		}
		stop := s.start(a)
		pgtest.Await(s.t, "the batch at work has ended", func() bool { return s.effects() == 10 })
		pgtest.Await(s.t, "the workers have ended", func() bool { return len(a.slots) == 0 })
		stop()
		if n := began.Load(); n != 1 {
			s.t.Errorf("%d batches began", n)
		}
		s.start(s.sink("b", nil))
		s.awaitEnd()
		s.judge()
	})
}

// TestRevokedWhileBrokerIsDown: a dead letter that cannot be written does not hold up a revoke.
// Row of the failure matrix: broker restart.
func TestRevokedWhileBrokerIsDown(t *testing.T) {
	w := &worker{stop: make(chan struct{})}
	w.ctx = t.Context()
	ctx, cancel := w.untilStopped()
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers("127.0.0.1:1"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	go w.finish()
	if err := client.ProduceSync(ctx, &kgo.Record{Topic: "dead"}).FirstErr(); err == nil || t.Context().Err() != nil {
		t.Error(err)
	}
}
