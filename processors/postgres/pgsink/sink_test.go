package pgsink

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/processors/postgres/internal/pgtest"
	"github.com/onceward/onceward/processors/postgres/internal/work"
	"github.com/onceward/onceward/processors/postgres/pginbox"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// TestAppliesOnce (M4): every committed record has its effect once and in order, over restarts, and
// aborted ones have none. Row of the failure matrix: out-of-order completion.
func TestAppliesOnce(t *testing.T) {
	onStage(t, 3, func(s *stage) {
		stop := s.start(s.sink("a", nil))
		s.produce(3, 100)
		pgtest.Await(s.t, "some are applied", func() bool { return s.effects() > 50 })
		stop()
		s.produce(3, 50)
		s.start(s.sink("b", nil))
		s.awaitEnd()
		s.judge()
	})
}

// TestSessionsAreTerminated: pg_terminate_backend at each point of a batch changes nothing of what
// is applied.
func TestSessionsAreTerminated(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		for i, point := range points {
			sink := s.sink(fmt.Sprint("instance-", i), nil)
			var hits atomic.Int32
			sink.setAt(func(_ context.Context, at string, _ int32) error {
				if at == point && hits.Add(1) <= 2 {
					s.db.Terminate(s.t, fmt.Sprint("instance-", i))
				}
				return nil
			})
			stop := s.start(sink)
			s.produce(1, 30)
			s.awaitEnd()
			stop()
			if hits.Load() < 3 {
				s.t.Errorf("%s was passed %d times", point, hits.Load())
			}
			s.judge()
		}
	})
}

// TestCommitInDoubt: of a commit without an answer the row says whether it has taken effect; one
// that comes late is waited for. Row of the failure matrix: crash after end before the local apply.
func TestCommitInDoubt(t *testing.T) {
	for fault, name := range map[pgtest.CommitFault]string{
		pgtest.CommitLost: "lost", pgtest.CommitUnanswered: "unanswered", pgtest.CommitLate: "late",
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, 1, func(s *stage) {
				s.produce(1, 30)
				cut := &pgtest.Cutter{}
				sink := s.sink("a", func(c *Config) { c.Pool = cut.Pool(s.t, s.db, pgtest.Named("a")) })
				cut.Next(fault, 0, fault, 0, fault) // the first commit stores where the topic begins
				s.start(sink)
				if fault == pgtest.CommitLate {
					for n := 1; n <= 3; n++ {
						pgtest.Await(s.t, "the sink waits for the transaction in doubt", func() bool { return cut.Happened() == n && s.db.Waiting(s.t) == 1 })
						cut.Deliver()
					}
				}
				s.awaitEnd()
				s.judge()
			})
		})
	}
}

// TestDoubtfulCommitTakenForFailed is the negative control: who does not look at the row applies a
// batch twice.
func TestDoubtfulCommitTakenForFailed(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		s.produce(1, 30)
		cut := &pgtest.Cutter{}
		sink := s.sink("a", func(c *Config) { c.Pool = cut.Pool(s.t, s.db, pgtest.Named("a")) })
		sink.breakResolve()
		sink.breakFence()                    // which would find that the offset is not where it was
		cut.Next(0, pgtest.CommitUnanswered) // the first commit is the one that stores where the topic begins
		s.start(sink)
		pgtest.Await(s.t, "everything is applied, and more", func() bool { return s.effects() > s.count })
		if s.verdict() == nil {
			s.t.Error("the verdict does not see it")
		}
	})
}

// TestSerializationFailures: a serializable sink and another writer fail each other, and each
// record has its effect once.
func TestSerializationFailures(t *testing.T) {
	onStage(t, 2, func(s *stage) {
		s.db.Exec(s.t, "CREATE TABLE shared (n bigint); INSERT INTO shared VALUES (0)")
		var failures atomic.Int32
		var met sync.WaitGroup
		met.Add(2)
		var first [2]sync.Once // of each partition
		s.start(s.sink("a", func(c *Config) {
			c.Isolation = pgx.Serializable
			c.Apply = Each(func(ctx context.Context, tx pgx.Tx, r *kgo.Record) error {
				// Both partitions write one row that the transaction has read.
				var n int64
				err := tx.QueryRow(ctx, "SELECT n FROM shared").Scan(&n)
				first[r.Partition].Do(func() { // both have read it before one of them writes it
					met.Done()
					met.Wait()
				})
				if err == nil {
					_, err = tx.Exec(ctx, "UPDATE shared SET n = $1", n+1)
				}
				if err != nil {
					if work.Contended(err) {
						failures.Add(1)
					}
					return err
				}
				return effect(ctx, tx, r)
			})
		}))
		s.produce(2, 60)
		s.awaitEnd()
		s.judge()
		if n := s.db.Int(s.t, "SELECT n FROM shared"); n != s.count {
			s.t.Errorf("the shared counter is %d, want %d", n, s.count)
		}
		s.t.Logf("%d serialization failures", failures.Load())
		if failures.Load() == 0 {
			s.t.Error("there was no serialization failure")
		}
	})
}

// TestDeadlock: partitions that lock rows in another order deadlock, and each record has its effect
// once.
func TestDeadlock(t *testing.T) {
	onStage(t, 2, func(s *stage) {
		s.db.Exec(s.t, "CREATE TABLE locks (id int PRIMARY KEY, n bigint); INSERT INTO locks VALUES (0, 0), (1, 0)")
		s.produce(2, 10)
		var met sync.WaitGroup
		met.Add(2)
		var meetings, deadlocks atomic.Int32
		s.start(s.sink("a", func(c *Config) {
			c.Apply = Each(func(ctx context.Context, tx pgx.Tx, r *kgo.Record) error {
				for i, id := range []int32{r.Partition, 1 - r.Partition} {
					if _, err := tx.Exec(ctx, "UPDATE locks SET n = n + 1 WHERE id = $1", id); err != nil {
						if work.Contended(err) {
							deadlocks.Add(1)
						}
						return err
					}
					if i == 0 && meetings.Add(1) <= 2 { // each has its first lock
						met.Done()
						met.Wait()
					}
				}
				return effect(ctx, tx, r)
			})
		}))
		s.awaitEnd()
		s.judge()
		if deadlocks.Load() == 0 {
			s.t.Error("there was no deadlock")
		}
		if n := s.db.Int(s.t, "SELECT sum(n)::bigint FROM locks"); n != 2*s.count {
			s.t.Errorf("the locks were taken %d times, want %d", n, 2*s.count)
		}
	})
}

// TestRebalanceInMidBatch: a batch that is at work when its partition is revoked ends, and the next
// owner goes on behind it. Row of the failure matrix: rebalance in mid-batch.
func TestRebalanceInMidBatch(t *testing.T) {
	onStage(t, 2, func(s *stage) {
		a := s.sink("a", nil)
		entered, release := make(chan struct{}, 100), make(chan struct{})
		a.setAt(func(_ context.Context, point string, _ int32) error {
			if point == "applied" {
				entered <- struct{}{}
				<-release
			}
			return nil
		})
		s.produce(2, 40)
		s.start(a)
		<-entered
		<-entered // both partitions are at work
		s.start(s.sink("b", nil))
		pgtest.Await(s.t, "the group rebalances", func() bool {
			groups, err := s.c.Admin().DescribeGroups(s.t.Context(), s.name)
			return err == nil && groups[s.name].State == "PreparingRebalance" || len(groups[s.name].Members) == 2
		})
		close(release)
		s.awaitEnd()
		pgtest.Await(s.t, "the other instance has a partition", func() bool { return s.generation() >= 2 })
		s.produce(2, 40)
		s.awaitEnd()
		s.judge()
	})
}

// zombie freezes an instance after Apply while another one takes its partition and applies
// everything, and then wakes it.
func zombie(s *stage, breakIt bool) {
	s.produce(1, 10)
	a := s.sink("a", func(c *Config) {
		c.Apply = Each(effectWithoutTotals) // whose locks would have the other instance wait for the frozen one
		// Its client is as good as frozen: it does not ask whether it is still a member. With a
		// cooperative balancer it would, after half a second.
		c.Client = append(c.Client, kgo.HeartbeatInterval(time.Minute), kgo.SessionTimeout(5*time.Minute), kgo.Balancers(kgo.RangeBalancer()))
	})
	if breakIt {
		a.breakFence()
	}
	frozen, wake := make(chan struct{}), make(chan struct{})
	var once sync.Once
	a.setAt(func(_ context.Context, point string, _ int32) error {
		if point == "applied" {
			once.Do(func() {
				close(frozen)
				<-wake
			})
		}
		return nil
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	<-frozen
	b := s.sink("b", func(c *Config) {
		c.Apply = Each(effectWithoutTotals)
		c.Client = append(c.Client, kgo.Balancers(kgo.RangeBalancer()))
	})
	s.evict("a")
	stop := s.start(b)
	s.awaitEnd()
	close(wake)
	if breakIt {
		pgtest.Await(s.t, "the zombie has applied its batch", func() bool { return s.effects() > s.count })
	} else {
		pgtest.Await(s.t, "the zombie is fenced", func() bool { return testutil.ToFloat64(a.metrics.fenced) == 1 })
	}
	stop()
	cancel()
	if err := <-ended; err != nil {
		s.t.Error(err)
	}
}

func effectWithoutTotals(ctx context.Context, tx pgx.Tx, r *kgo.Record) error {
	_, err := tx.Exec(ctx, "INSERT INTO effects (partition, record_offset, value) VALUES ($1, $2, $3)", r.Partition, r.Offset, string(r.Value))
	return err
}

// TestZombie: an owner that was frozen in its transaction, and whose partition has another owner
// now, rolls back. Row of the failure matrix: worker frozen past its session and back.
func TestZombie(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		zombie(s, false)
		if n := s.effects(); n != s.count {
			s.t.Errorf("%d records have %d effects", s.count, n)
		}
	})
}

// TestZombieWithoutFence is the negative control: without generations the batch of the zombie is
// applied as well.
func TestZombieWithoutFence(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		zombie(s, true)
		if n := s.effects(); n <= s.count {
			s.t.Errorf("%d records have %d effects", s.count, n)
		}
	})
}

// TestFrozenWithLocks: an owner that is frozen when it has moved the offset keeps its successor
// waiting, until the server ends its transaction.
func TestFrozenWithLocks(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		s.produce(1, 10)
		a := s.sink("a", func(c *Config) { c.IdleInTransaction = 500 * time.Millisecond })
		frozen, wake := make(chan struct{}), make(chan struct{})
		var once sync.Once
		a.setAt(func(_ context.Context, point string, _ int32) error {
			if point == "moved" {
				once.Do(func() {
					close(frozen)
					<-wake
				})
			}
			return nil
		})
		stopA := s.start(a)
		<-frozen
		s.evict("a")
		s.start(s.sink("b", nil))
		s.awaitEnd()
		close(wake)
		stopA()
		s.judge()
	})
}

// TestQuarantine: a record that cannot be applied is kept in the table, the others go on, and it
// can be applied later. Row of the failure matrix: poison payload.
func TestQuarantine(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		bad := errors.New("canary")
		var healed atomic.Bool
		sink := s.sink("a", func(c *Config) {
			c.Apply = Each(func(ctx context.Context, tx pgx.Tx, r *kgo.Record) error {
				if !healed.Load() {
					switch string(r.Value) {
					case "0-7":
						return bad
					case "0-13":
						panic("canary")
					case "0-21":
						if _, err := tx.Exec(ctx, "INSERT INTO totals VALUES (NULL, NULL)"); err != nil { // breaks the constraint
							return err
						}
					}
				}
				return effect(ctx, tx, r)
			})
		})
		s.start(sink)
		s.produce(1, 30)
		s.count -= 3
		s.awaitEnd()
		pgtest.Await(s.t, "the offset is behind the last record", func() bool { return s.db.Int(s.t, "SELECT count(*) FROM onceward.sink_quarantine") == 3 })
		s.judge()
		all, err := Quarantined(s.t.Context(), s.db.Pool, s.name, 10)
		if err != nil || len(all) != 3 {
			s.t.Fatalf("%d records, %v", len(all), err)
		}
		for i, want := range []string{
			"0-7 poison error of type *errors.errorString", "0-13 poison panic with a value of type string",
			"0-21 validation SQLSTATE 23502",
		} {
			f := all[i]
			if got := fmt.Sprintf("%s %s %s", f.Record.Value, f.Class, f.Reason); got != want || f.Attempts != 1 {
				s.t.Errorf("%s after %d attempts, want %s", got, f.Attempts, want)
			}
		}
		if err := sink.Requeue(s.t.Context(), s.topic, 0, all[0].Record.Offset); !errors.Is(err, bad) {
			s.t.Error(err)
		}
		healed.Store(true)
		for _, want := range []error{nil, ErrNotQuarantined} {
			if err := Discard(s.t.Context(), s.db.Pool, s.name, s.topic, 0, all[2].Record.Offset); !errors.Is(err, want) {
				s.t.Errorf("%v, want %v", err, want)
			}
		}
		for _, f := range all[:2] {
			if err := sink.Requeue(s.t.Context(), s.topic, 0, f.Record.Offset); err != nil {
				s.t.Error(err)
			}
			if err := sink.Requeue(s.t.Context(), s.topic, 0, f.Record.Offset); !errors.Is(err, ErrNotQuarantined) {
				s.t.Errorf("the second time: %v", err)
			}
		}
		s.count += 2
		if n := s.effects(); n != s.count {
			s.t.Errorf("%d records have %d effects", s.count, n)
		}
	})
}

// TestDeadLetters: a record that is refused is a dead letter as package topology reads it. After a
// crash it is there twice, with one id.
func TestDeadLetters(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		dead := s.c.Name(s.t, "dead")
		s.c.CreateTopics(s.t, 1, dead)
		sink := s.sink("a", func(c *Config) {
			c.DeadLetterTopic = dead
			c.Apply = Each(func(ctx context.Context, tx pgx.Tx, r *kgo.Record) error {
				if string(r.Value) == "0-7" {
					return topology.Fail(topology.Validation, errors.New("canary"))
				}
				return effect(ctx, tx, r)
			})
		})
		var cuts atomic.Int32
		sink.setAt(func(_ context.Context, point string, _ int32) error {
			if point == "sent" && cuts.Add(1) == 1 {
				s.db.Terminate(s.t, "a")
			}
			return nil
		})
		s.produce(1, 30)
		s.start(sink)
		s.count--
		s.awaitEnd()
		s.judge()
		ids := map[string]int{}
		for _, r := range s.c.Records(s.t, dead) {
			var headers []topology.Header
			for _, h := range r.Headers {
				headers = append(headers, topology.Header{Key: h.Key, Value: h.Value})
				if strings.Contains(string(h.Value), "canary") {
					s.t.Errorf("header %s quotes the error", h.Key)
				}
			}
			info, err := graph.ParseDeadLetter(headers)
			if err != nil {
				s.t.Fatal(err)
			}
			if info.Application != s.name || info.Class != topology.Validation || info.Origin.Topic != s.topic || string(r.Value) != "0-7" || info.Deaths != 1 {
				s.t.Errorf("%+v of %s", info, r.Value)
			}
			ids[info.ID]++
		}
		for _, n := range ids {
			if n != 2 || len(ids) != 1 {
				s.t.Errorf("letters by id: %v", ids)
			}
		}
	})
}

// TestRetryDelaysOnePartition: while a record of one partition is tried again, the other partition
// goes on; then the record succeeds. Row of the failure matrix: failing dependency.
func TestRetryDelaysOnePartition(t *testing.T) {
	onStage(t, 2, func(s *stage) {
		var up atomic.Bool
		s.start(s.sink("a", func(c *Config) {
			c.Attempts = 1000
			c.Parallel = 1 // the one that waits has no transaction
			c.Apply = Each(func(ctx context.Context, tx pgx.Tx, r *kgo.Record) error {
				if r.Partition == 0 && !up.Load() {
					return topology.Fail(topology.Transient, errors.New("a dependency is down"))
				}
				return effect(ctx, tx, r)
			})
		}))
		s.produce(2, 50)
		pgtest.Await(s.t, "the other partition is applied", func() bool { return s.effects() == 50 })
		up.Store(true)
		s.awaitEnd()
		s.judge()
	})
}

// TestAttemptsEnd: a transient failure that does not pass ends in quarantine.
func TestAttemptsEnd(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		var calls atomic.Int32
		sink := s.sink("a", func(c *Config) {
			c.Attempts = 3
			c.Apply = Each(func(context.Context, pgx.Tx, *kgo.Record) error {
				calls.Add(1)
				return topology.Fail(topology.Overload, errors.New("a dependency is down"))
			})
		})
		s.produce(1, 1)
		s.start(sink)
		pgtest.Await(s.t, "it is refused", func() bool {
			return s.db.Int(s.t, "SELECT count(*) FROM onceward.sink_quarantine WHERE attempts = 3") == 1
		})
		if calls.Load() != 3 {
			s.t.Errorf("%d calls", calls.Load())
		}
	})
}

// TestStops: Run ends with an error that says where, and applies the record when it runs again.
func TestStops(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		s.produce(1, 20)
		s.db.Exec(s.t, "ALTER TABLE totals RENAME TO totals_for_a_while")
		sink := s.sink("a", nil)
		err := sink.Run(s.t.Context())
		f, ok := errors.AsType[*Failure](err)
		if !ok || f.Class != topology.Config || f.Topic != s.topic || f.Offset != 0 || !strings.Contains(err.Error(), `relation "totals" does not exist`) {
			s.t.Fatal(err)
		}
		s.db.Exec(s.t, "ALTER TABLE totals_for_a_while RENAME TO totals")
		s.start(sink)
		s.awaitEnd()
		s.judge()
	})
}

// TestApplyEndsNothing: Apply cannot commit or roll back, and cannot hide that a statement has
// failed.
func TestApplyEndsNothing(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		s.produce(1, 1)
		for _, end := range []func(tx pgx.Tx) error{
			func(tx pgx.Tx) error { return tx.Commit(context.Background()) },
			func(tx pgx.Tx) error { return tx.Rollback(context.Background()) },
		} {
			err := s.sink("a", func(c *Config) {
				c.Apply = func(_ context.Context, tx pgx.Tx, _ []*kgo.Record) error { return end(tx) }
			}).Run(s.t.Context())
			if !errors.Is(err, work.ErrNotYours) {
				s.t.Error(err)
			}
		}
		s.start(s.sink("a", func(c *Config) {
			c.Apply = func(ctx context.Context, tx pgx.Tx, records []*kgo.Record) error {
				_, _ = tx.Exec(ctx, "SELECT 1/0")
				return nil
			}
		}))
		pgtest.Await(s.t, "it is refused", func() bool {
			return s.db.Int(s.t, "SELECT count(*) FROM onceward.sink_quarantine WHERE class = 'poison'") == 1
		})
	})
}

// TestNestedTransaction: Apply can use savepoints.
func TestNestedTransaction(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		s.produce(1, 5)
		s.start(s.sink("a", func(c *Config) {
			c.Apply = Each(func(ctx context.Context, tx pgx.Tx, r *kgo.Record) error {
				if err := pgx.BeginFunc(ctx, tx, func(inner pgx.Tx) error {
					_, err := inner.Exec(ctx, "SELECT 1/0")
					return err
				}); err == nil {
					return errors.New("a division by zero succeeds")
				}
				return effect(ctx, tx, r)
			})
		}))
		s.awaitEnd()
		s.judge()
	})
}

// TestTopicCreatedAgain: the offset of a topic is not that of its successor, until Reset says so.
func TestTopicCreatedAgain(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		s.produce(1, 5)
		stop := s.start(s.sink("a", nil))
		s.awaitEnd()
		stop()
		if _, err := s.c.Admin().DeleteTopics(s.t.Context(), s.topic); err != nil {
			s.t.Fatal(err)
		}
		pgtest.Await(s.t, "the topic is gone", func() bool {
			topics, err := s.c.Admin().ListTopics(s.t.Context())
			return err == nil && !topics.Has(s.topic)
		})
		s.c.CreateTopics(s.t, 1, s.topic)
		if err := s.sink("a", nil).Run(s.t.Context()); !errors.Is(err, errOtherTopic) {
			s.t.Fatal(err)
		}
		if err := Reset(s.t.Context(), s.db.Pool, s.name, s.topic); err != nil {
			s.t.Fatal(err)
		}
		s.db.Exec(s.t, "TRUNCATE effects, totals")
		s.count = 0
		s.produce(1, 7)
		s.start(s.sink("a", nil))
		s.awaitEnd()
		s.judge()
	})
}

// TestTopicCreatedAgainMeanwhile: a sink that runs while its topic is deleted and created again
// stops.
func TestTopicCreatedAgainMeanwhile(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		s.produce(1, 5)
		ctx, cancel := context.WithTimeout(s.t.Context(), 2*time.Minute)
		defer cancel()
		ended := make(chan error, 1)
		a := s.sink("a", nil)
		go func() { ended <- a.Run(ctx) }()
		s.awaitEnd()
		if _, err := s.c.Admin().DeleteTopics(s.t.Context(), s.topic); err != nil {
			s.t.Fatal(err)
		}
		pgtest.Await(s.t, "the topic is gone", func() bool {
			topics, err := s.c.Admin().ListTopics(s.t.Context())
			return err == nil && !topics.Has(s.topic)
		})
		s.c.CreateTopics(s.t, 1, s.topic)
		if err := <-ended; !errors.Is(err, errOtherTopic) {
			s.t.Error(err)
		}
	})
}

// TestRecordsWereDeleted: records that were deleted before they were applied are told, and not
// skipped. Row of the failure matrix: replay after expiry.
func TestRecordsWereDeleted(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		s.produce(1, 5)
		stop := s.start(s.sink("a", nil))
		s.awaitEnd()
		stop()
		s.produce(1, 20)
		ends, err := s.c.Admin().ListEndOffsets(s.t.Context(), s.topic)
		if err != nil {
			s.t.Fatal(err)
		}
		deleted, err := s.c.Admin().DeleteRecords(s.t.Context(), ends.Offsets())
		if err == nil {
			err = deleted.Error()
		}
		if err != nil {
			s.t.Fatal(err)
		}
		err = s.sink("a", nil).Run(s.t.Context())
		if err == nil || !strings.Contains(err.Error(), "the next record to apply is not there any more") {
			s.t.Fatal(err)
		}
		if n := s.effects(); n != 5 {
			s.t.Errorf("%d effects", n)
		}
	})
}

// TestStart: a sink begins at the earliest record, or behind the latest, and stores where.
func TestStart(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		s.produce(1, 5)
		s.count = 0
		latest := func(c *Config) { c.Start = Latest }
		stop := s.start(s.sink("a", latest))
		pgtest.Await(s.t, "the partition is claimed", func() bool { return s.generation() == 1 })
		stop()
		s.produce(1, 5) // while no sink runs
		s.start(s.sink("a", latest))
		s.awaitEnd()
		if n := s.effects(); n != 5 {
			s.t.Errorf("%d effects", n)
		}
	})
}

// TestMorePartitions: partitions that a topic gets later are read from their beginning, also by a
// sink that begins at the latest record.
func TestMorePartitions(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		sink := s.sink("a", func(c *Config) { c.Start = Latest })
		stop := s.start(sink)
		pgtest.Await(s.t, "the partition is claimed", func() bool { return s.generation() == 1 })
		stop()
		if _, err := s.c.Admin().UpdatePartitions(s.t.Context(), 2, s.topic); err != nil {
			s.t.Fatal(err)
		}
		s.produce(2, 20)
		s.start(sink)
		s.awaitEnd()
		s.judge()
	})
}

// TestDoubledEvents: of 20 copies of one event in several partitions, which the sink cannot tell
// apart, an inbox in the same transaction lets one have its effect. Without it all have. Row of the
// failure matrix: concurrent duplicate on two instances.
func TestDoubledEvents(t *testing.T) {
	onStage(t, 4, func(s *stage) {
		producer := s.c.Client(s.t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
		for i := range 20 {
			r := &kgo.Record{Topic: s.topic, Partition: int32(i % 4), Value: []byte("event-1")}
			if err := producer.ProduceSync(s.t.Context(), r).FirstErr(); err != nil {
				s.t.Fatal(err)
			}
		}
		inbox, err := pginbox.New(s.db.Pool, s.name)
		if err != nil {
			s.t.Fatal(err)
		}
		s.db.Exec(s.t, "CREATE TABLE copies (n int)")
		once := func(c *Config) {
			c.BatchRecords = 2
			c.Apply = Each(func(ctx context.Context, tx pgx.Tx, r *kgo.Record) error {
				if _, err := tx.Exec(ctx, "INSERT INTO copies VALUES (1)"); err != nil {
					return err
				}
				claimed, err := inbox.TryMark(ctx, tx, string(r.Value), "", "")
				if err != nil || !claimed {
					return err
				}
				return effect(ctx, tx, r)
			})
		}
		for _, instance := range []string{"a", "b"} {
			s.start(s.sink(instance, once))
		}
		pgtest.Await(s.t, "all copies are handled", func() bool { return s.db.Int(s.t, "SELECT count(*) FROM copies") == 20 })
		if n := s.effects(); n != 1 {
			s.t.Errorf("the event has %d effects", n)
		}
		s.start(s.sink("without-inbox", func(c *Config) { c.Name = s.name + "-plain" }))
		pgtest.Await(s.t, "all copies have effects", func() bool { return s.effects() == 21 })
	})
}

// TestServerRestarts: the database crashes and comes back while records are applied. Row of the
// failure matrix: broker restart.
func TestServerRestarts(t *testing.T) {
	onStage(t, 2, func(s *stage) {
		server, db := pgtest.Own(s.t)
		s.db = db
		migrate(s.t, db.Pool)
		db.Exec(s.t, effectsTables)
		s.produce(2, 100)
		sink := s.sink("a", nil)
		var batches atomic.Int32
		half := make(chan struct{})
		sink.setAt(func(_ context.Context, point string, _ int32) error {
			if point == "moved" && batches.Add(1) == 5 {
				close(half)
			}
			return nil
		})
		s.start(sink)
		<-half
		server.Kill(s.t)
		server.Resume(s.t)
		pgtest.Await(s.t, "the pool of the test has new connections", func() bool { return db.Pool.Ping(s.t.Context()) == nil })
		db.Pool.Reset()
		s.awaitEnd()
		s.judge()
	})
}

// TestDiskFull: while the disk of the server is full no record is to blame, and the sink goes on
// when it has room. Row of the failure matrix: disk full.
func TestDiskFull(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		var tries atomic.Int32
		a := s.sink("a", func(c *Config) { c.Attempts = 1 })
		a.setAt(func(_ context.Context, point string, _ int32) error {
			if point == "begun" {
				tries.Add(1)
			}
			return nil
		})
		s.start(a)
		s.produce(1, 10)
		s.awaitEnd()
		heal := s.db.Full(s.t, "effects", "onceward.sink_offsets")
		before := tries.Load()
		s.produce(1, 20)
		pgtest.Await(s.t, "it was tried several times", func() bool { return tries.Load() > before+2 })
		heal()
		s.awaitEnd()
		s.judge()
		if n := s.quarantined(); n != 0 {
			s.t.Errorf("%d records are in quarantine", n)
		}
	})
}

// TestMistakes: all that is wrong with a configuration is told at once.
func TestMistakes(t *testing.T) {
	_, err := New(Config{
		Name: "a\x00", Topics: []string{"in"}, DeadLetterTopic: "in", BatchRecords: -1, Parallel: -1, Attempts: -1, IdleInTransaction: -1, Isolation: "none", Start: 7,
	})
	for _, want := range []string{
		"Name is valid UTF-8", "DeadLetterTopic \"in\" is one of the topics", "Pool is nil", "Apply is nil", "Client has no options", "BatchRecords is 1 or more",
		"Parallel is 1 or more", "Attempts is 1 or more", "IdleInTransaction is 1ms or more", "Isolation is read committed", "Start is Earliest or Latest",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is missing in %v", want, err)
		}
	}
	if _, err := New(Config{Name: "a"}); err == nil || !strings.Contains(err.Error(), "Topics has to name the topics") {
		t.Error(err)
	}
	pool, err := pgxpool.New(t.Context(), "postgres:///x?pool_max_conns=4")
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := New(Config{Name: "a", Pool: pool}); err == nil || !strings.Contains(err.Error(), "raise MaxConns or lower Parallel") {
		t.Error(err)
	}
}
