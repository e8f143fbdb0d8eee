package pgoutbox

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/processors/envelope"
	"github.com/onceward/onceward/processors/postgres"
	"github.com/onceward/onceward/processors/postgres/internal/pgtest"
	"github.com/onceward/onceward/topology"
)

// once calls f at the point when a relay comes there for the first time.
func once(o *Outbox, point string, f func() error) {
	var done atomic.Bool
	o.setAt(func(_ context.Context, at string) error {
		if at != point || !done.CompareAndSwap(false, true) {
			return nil
		}
		return f()
	})
}

// TestAppendAndPublish: what a committed transaction has appended becomes one record, and what a
// rolled back one has becomes none. Requirement M4.
func TestAppendAndPublish(t *testing.T) {
	onStage(t, func(s *stage) {
		o := s.outbox("relay", nil)
		stop := s.start(o)
		failed := errors.New("failed")
		err := pgx.BeginFunc(s.t.Context(), s.db.Pool, func(tx pgx.Tx) error {
			return errors.Join(o.Append(s.t.Context(), tx, Event{ID: "rolled back", Topic: s.topic}), failed)
		})
		if !errors.Is(err, failed) {
			s.t.Fatal(err)
		}
		s.append(Event{ID: "a", Topic: s.topic, Aggregate: "order 1", Value: []byte("paid"), Headers: []topology.Header{{Key: "k", Value: []byte("v")}}},
			Event{ID: "b", Topic: s.topic, Aggregate: "order 1", Key: []byte("own")}, Event{ID: "c", Topic: s.topic})
		s.awaitPublished()
		stop()
		if copies := s.judge(); copies != 0 {
			s.t.Errorf("%d copies", copies)
		}
		records := map[string]*kgo.Record{}
		for _, r := range s.c.Records(s.t, s.topic) {
			records[header(r, envelope.HeaderEventID)] = r
		}
		a := records["a"]
		if string(a.Key) != "order 1" || string(a.Value) != "paid" || header(a, "k") != "v" || header(a, envelope.HeaderAggregateID) != "order 1" {
			s.t.Errorf("the record is %+v", a)
		}
		if b := records["b"]; string(b.Key) != "own" || b.Value != nil {
			s.t.Errorf("the record is %+v", b)
		}
		if c := records["c"]; string(c.Key) != "c" || len(c.Headers) != 1 {
			s.t.Errorf("the record is %+v", c)
		}
		e := s.appended()[0]
		if e.Status != Published || e.Partition != a.Partition || e.Offset != a.Offset || e.PublishedAt.IsZero() || e.DecidedBy == "" ||
			a.Timestamp.UnixMilli() != e.AppendedAt.UnixMilli() {
			s.t.Errorf("the entry is %+v, the record %+v", e, a)
		}
	})
}

// TestAppendRefuses: an event that cannot be published has an error of class Validation, and the
// transaction goes on. An id that is there is a conflict.
func TestAppendRefuses(t *testing.T) {
	onStage(t, func(s *stage) {
		o := s.outbox("append", nil)
		s.in(func(tx pgx.Tx) error {
			for _, e := range []Event{
				{Topic: "t"}, {ID: "a"}, {ID: "a\x00", Topic: "t"}, {ID: "a", Topic: strings.Repeat("t", 250)}, {ID: "a", Topic: "t", Aggregate: "\xff"},
				{ID: "a", Topic: "t", Headers: []topology.Header{{Key: envelope.HeaderEventID}}},
			} {
				if err := o.Append(s.t.Context(), tx, e); topology.ClassOf(err) != topology.Validation || !strings.Contains(err.Error(), "event 1 of 1") {
					s.t.Errorf("%q: %v", e, err)
				}
			}
			return o.Append(s.t.Context(), tx, Event{ID: "a", Topic: s.topic})
		})
		err := pgx.BeginFunc(s.t.Context(), s.db.Pool, func(tx pgx.Tx) error {
			return o.Append(s.t.Context(), tx, Event{ID: "a", Topic: s.topic})
		})
		if !errors.Is(err, ErrAppended) || postgres.ClassOf(err) != topology.Conflict {
			s.t.Errorf("an id that is there: %v", err)
		}
	})
}

// TestOrderOfAggregates: with several relays at a time, and events that are appended meanwhile,
// each event is published once, in the order of its aggregate. Rows of the failure matrix:
// concurrent duplicate on two instances; older version after newer. Requirement M4.
func TestOrderOfAggregates(t *testing.T) {
	onStage(t, func(s *stage) {
		for i := range 3 {
			s.start(s.outbox(fmt.Sprint("relay ", i), nil))
		}
		events := s.numbered("a", 600, "one", "two", "three", "four", "")
		for chunk := range slices.Chunk(events, 15) {
			s.append(chunk...)
		}
		s.awaitPublished()
		if copies := s.judge(); copies != 0 {
			s.t.Errorf("%d copies", copies)
		}
	})
}

// TestRelayWaitsForEarlierEvents: a relay publishes no event behind one that another relay has not
// published yet. The negative control does. Row of the failure matrix: out-of-order completion.
func TestRelayWaitsForEarlierEvents(t *testing.T) {
	for _, broken := range []bool{false, true} {
		t.Run(fmt.Sprint("others pass ", broken), func(t *testing.T) {
			onStage(t, func(s *stage) {
				slow := s.outbox("slow", func(c *Config) { c.BatchRecords = 1 })
				taken, on := make(chan struct{}), make(chan struct{})
				once(slow, "taken", func() error {
					close(taken)
					<-on
					return nil
				})
				s.append(s.numbered("a", 3, "one")...)
				s.append(Event{ID: "b", Topic: s.topic})
				s.start(slow)
				<-taken
				other := s.outbox("other", nil)
				other.othersPass = broken
				s.start(other)
				pgtest.Await(s.t, "the other relay publishes what it may", func() bool { return s.with(Published) >= 1 })
				if !broken {
					if n := s.with(Published); n != 1 {
						s.t.Errorf("the other relay has published %d events, want 1", n)
					}
				}
				close(on)
				s.awaitPublished()
				if _, wrong := s.verdict(); (len(wrong) > 0) != broken {
					s.t.Errorf("the verdict is %q", wrong)
				}
			})
		})
	}
}

// TestLateCommit: an entry whose transaction commits late is published, although later numbers were
// published before; of an aggregate that cannot happen, because transactions wait for one another.
// The negative controls: a relay that remembers the last number loses the event, and appends
// without the lock break the order. Row of the failure matrix: gap.
func TestLateCommit(t *testing.T) {
	onStage(t, func(s *stage) {
		s.start(s.outbox("relay", nil))
		o := s.outbox("append", nil)
		naive, last := 0, int64(0)
		poll := func() {
			rows, err := s.db.Pool.Query(s.t.Context(), "SELECT entry FROM onceward.outbox WHERE entry > $1 ORDER BY entry", last)
			if err != nil {
				s.t.Fatal(err)
			}
			numbers, err := pgx.CollectRows(rows, pgx.RowTo[int64])
			if err != nil {
				s.t.Fatal(err)
			}
			for _, n := range numbers {
				naive, last = naive+1, n
			}
		}
		begin := func(events ...Event) pgx.Tx {
			tx, err := s.db.Pool.Begin(s.t.Context())
			if err == nil {
				err = o.Append(s.t.Context(), tx, events...)
			}
			if err != nil {
				s.t.Fatal(err)
			}
			s.count += len(events)
			return tx
		}
		commit := func(tx pgx.Tx) {
			if err := tx.Commit(s.t.Context()); err != nil {
				s.t.Fatal(err)
			}
		}
		early := begin(Event{ID: "x1", Topic: s.topic})
		s.append(Event{ID: "x2", Topic: s.topic})
		s.awaitPublished()
		poll()
		commit(early)
		s.awaitPublished()
		poll()
		if naive != 1 {
			t.Errorf("a relay that remembers the last number has found %d of 2 events, want 1", naive)
		}

		early = begin(Event{ID: "a1", Topic: s.topic, Aggregate: "one"})
		late := make(chan error, 1)
		go func() {
			late <- pgx.BeginFunc(s.t.Context(), s.db.Pool, func(tx pgx.Tx) error {
				return o.Append(s.t.Context(), tx, Event{ID: "a2", Topic: s.topic, Aggregate: "one"})
			})
		}()
		s.count++
		pgtest.Await(s.t, "the second transaction waits", func() bool { return s.db.Waiting(s.t) == 1 })
		commit(early)
		if err := <-late; err != nil {
			s.t.Fatal(err)
		}
		s.awaitPublished()
		s.judge()

		const insert = "INSERT INTO onceward.outbox (outbox, event_id, aggregate, topic, record_key, header_keys, header_values) VALUES ('payments', $1, 'one', $2, 'one', '{}', '{}')"
		early, err := s.db.Pool.Begin(s.t.Context())
		if err == nil {
			_, err = early.Exec(s.t.Context(), insert, "b1", s.topic)
		}
		if err != nil {
			s.t.Fatal(err)
		}
		s.db.Exec(s.t, insert, "b2", s.topic)
		s.count += 2
		s.awaitPublished()
		commit(early)
		s.awaitPublished()
		if _, wrong := s.verdict(); len(wrong) != 1 {
			s.t.Errorf("without the lock the verdict is %q", wrong)
		}
	})
}

// TestFailureHoldsItsAggregate: an event that the brokers refuse holds up those behind it in its
// aggregate and no others, until a person takes it out. The negative control sends the events of an
// aggregate without waiting for one another. Row of the failure matrix: poison payload.
func TestFailureHoldsItsAggregate(t *testing.T) {
	for _, together := range []bool{false, true} {
		t.Run(fmt.Sprint("together ", together), func(t *testing.T) {
			onStage(t, func(s *stage) {
				o := s.outbox("relay", func(c *Config) {
					c.Client = append(c.Client, kgo.ProducerBatchMaxBytes(10_000))
				})
				o.together = together
				big := make([]byte, 20_000) // that nothing compresses
				if _, err := rand.Read(big); err != nil {
					s.t.Fatal(err)
				}
				events := s.numbered("a", 4, "one")
				events[1].Value = big
				s.append(events...)
				s.append(s.numbered("b", 4, "two")...)
				s.append(s.numbered("c", 4)...)
				s.start(o)
				others := int64(9)
				if together {
					others = 11
				}
				pgtest.Await(s.t, "the others are published", func() bool { return s.with(Published) == others })
				pgtest.Await(s.t, "the event has failed", func() bool {
					failing, err := o.List(s.t.Context(), Filter{Failing: true}, 10)
					if err != nil {
						s.t.Fatal(err)
					}
					return len(failing) == 1 && failing[0].ID == "a00001" && failing[0].Attempts > 2 && failing[0].Class == topology.Validation &&
						strings.Contains(failing[0].Reason, "larger") && !failing[0].RetryAt.IsZero()
				})
				if n := s.with(Published); n != others {
					s.t.Errorf("%d are published, want %d", n, others)
				}
				if together {
					return // a00002 and a00003 have passed
				}
				entry := s.appended()[1].Number
				if err := o.Quarantine(s.t.Context(), entry, "alice", "too large"); err != nil {
					s.t.Fatal(err)
				}
				s.awaitPublished()
				s.count-- // the one in quarantine
				s.judge()
				s.db.Exec(s.t, "UPDATE onceward.outbox SET record_value = 'small' WHERE entry = $1", entry)
				if err := o.Requeue(s.t.Context(), entry, "alice", "fixed"); err != nil {
					s.t.Fatal(err)
				}
				s.awaitPublished()
				if e, err := o.Show(s.t.Context(), entry); err != nil || e.Status != Published {
					s.t.Errorf("the entry is %+v, %v", e, err)
				}
			})
		})
	}
}

// TestTopicThatComesLater: events of a topic that is not there wait, and are published when it is.
func TestTopicThatComesLater(t *testing.T) {
	onStage(t, func(s *stage) {
		o := s.outbox("relay", func(c *Config) { c.Client = append(c.Client, kgo.UnknownTopicRetries(1)) })
		later := s.c.Name(s.t, "later")
		s.append(Event{ID: "a", Topic: later, Aggregate: "one"}, Event{ID: "b", Topic: s.topic})
		s.start(o)
		pgtest.Await(s.t, "the other event is published", func() bool { return s.with(Published) == 1 })
		pgtest.Await(s.t, "the event has failed", func() bool {
			failing, err := o.List(s.t.Context(), Filter{Failing: true}, 1)
			return err == nil && len(failing) == 1 && failing[0].Class == topology.Config
		})
		s.c.CreateTopics(s.t, 1, later)
		s.awaitPublished()
		if n := len(s.c.Records(s.t, later)); n != 1 {
			s.t.Errorf("%d records", n)
		}
	})
}

// TestBrokersAreDown: while no broker takes records nothing is held against an event, and the relay
// goes on when they are back. Rows of the failure matrix: failing dependency; broker restart.
func TestBrokersAreDown(t *testing.T) {
	s := newStage(t, cluster.Own(t, cluster.KindEmbedded))
	o := s.outbox("relay", func(c *Config) {
		c.DeliveryTimeout = time.Second
		c.Client = append(c.Client, kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }))
	})
	s.append(s.numbered("a", 5, "one")...)
	s.db.Exec(t, "UPDATE onceward.outbox SET appended_at = appended_at - interval '1 hour'") // the age of an event does not count for the timeout
	s.start(o)
	s.awaitPublished()
	if err := s.c.Kill(); err != nil {
		t.Fatal(err)
	}
	failing := make(chan struct{}, 1)
	o.setAt(func(_ context.Context, point string) error {
		if point == "committed" {
			select {
			case failing <- struct{}{}:
			default:
			}
		}
		return nil
	})
	s.append(s.numbered("b", 50, "one", "two")...)
	<-failing
	if n := s.db.Int(t, "SELECT count(*) FROM onceward.outbox WHERE attempts > 0"); n != 0 {
		t.Errorf("%d events have failed attempts", n)
	}
	if err := s.c.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.awaitPublished()
	s.judge()
}

// TestDiskFull: a relay that cannot mark what it has published goes on when the disk of the server
// has room. Row of the failure matrix: disk full.
func TestDiskFull(t *testing.T) {
	onStage(t, func(s *stage) {
		s.append(s.numbered("a", 10, "one", "")...)
		heal := s.db.Full(s.t, "onceward.outbox")
		o := s.outbox("relay", nil)
		s.start(o)
		pgtest.Await(s.t, "events are published that cannot be marked", func() bool { return testutil.ToFloat64(o.metrics.unmarked) > 0 })
		heal()
		s.awaitPublished()
		if copies := s.judge(); copies == 0 {
			s.t.Error("there are no copies")
		}
	})
}

// TestSessionsTerminatedAtEveryPoint: whenever the server ends the sessions of a relay, every event
// is published, in order; the copies are those of batches that could not be marked. Row of the
// failure matrix: broker restart.
func TestSessionsTerminatedAtEveryPoint(t *testing.T) {
	onStage(t, func(s *stage) {
		for i, point := range points {
			o := s.outbox("relay", nil)
			var ended int64
			once(o, point, func() error {
				ended = s.db.Terminate(s.t, "relay")
				return nil
			})
			before := s.judgeCopies()
			s.append(s.numbered(string(rune('a'+i)), 50, "one", "two", "")...)
			stop := s.start(o)
			s.awaitPublished()
			stop()
			if ended == 0 {
				s.t.Errorf("%s: no session was terminated", point)
			}
			copies := s.judge() - before
			want := 20 // one batch
			if point == "committed" {
				want = 0
			}
			if unmarked := testutil.ToFloat64(o.metrics.unmarked); copies != want || unmarked != float64(want) {
				s.t.Errorf("%s: %d copies and %v unmarked, want %d", point, copies, unmarked, want)
			}
		}
		if passed, _ := s.throughInbox(); len(passed) != s.count {
			s.t.Errorf("the inbox lets %d of %d events pass", len(passed), s.count)
		}
	})
}

// TestFrozenRelay: a relay that was frozen behind its records, and whose transaction the server has
// ended, comes back and marks nothing. Another one has published the events again, under the same
// ids. Row of the failure matrix: worker frozen past its session and back.
func TestFrozenRelay(t *testing.T) {
	onStage(t, func(s *stage) {
		frozen := s.outbox("frozen", nil)
		at, thaw := make(chan struct{}), make(chan struct{})
		once(frozen, "published", func() error {
			close(at)
			<-thaw
			return nil
		})
		s.append(s.numbered("a", 30, "one", "two")...)
		s.start(frozen)
		<-at
		s.db.Terminate(s.t, "frozen") // as idle_in_transaction_session_timeout does
		s.start(s.outbox("other", nil))
		s.awaitPublished()
		close(thaw)
		pgtest.Await(s.t, "the frozen relay could not mark its batch", func() bool { return testutil.ToFloat64(frozen.metrics.unmarked) == 20 })
		if copies := s.judge(); copies != 20 {
			s.t.Errorf("%d copies, want 20", copies)
		}
		if passed, duplicates := s.throughInbox(); len(passed) != s.count || duplicates != 20 {
			s.t.Errorf("the inbox lets %d of %d events pass, and has %d duplicates", len(passed), s.count, duplicates)
		}
	})
}

// TestCommitInDoubt: a COMMIT of the relay without an answer may have taken effect or not; the
// events are published again if not. Row of the failure matrix: crash after end before the local
// apply.
func TestCommitInDoubt(t *testing.T) {
	for _, c := range []struct {
		fault  pgtest.CommitFault
		copies int
	}{{pgtest.CommitLost, 4}, {pgtest.CommitUnanswered, 0}, {pgtest.CommitLate, 0}} {
		t.Run(fmt.Sprint(c.fault), func(t *testing.T) {
			onStage(t, func(s *stage) {
				cut := &pgtest.Cutter{}
				config := s.config("relay", nil)
				config.Pool = cut.Pool(s.t, s.db, nil)
				o, err := New(config)
				if err != nil {
					s.t.Fatal(err)
				}
				once(o, "marked", func() error {
					cut.Next(c.fault)
					return nil
				})
				s.append(s.numbered("a", 4, "one")...)
				s.start(o)
				pgtest.Await(s.t, "the commit has no answer", func() bool { return testutil.ToFloat64(o.metrics.unmarked) == 4 })
				cut.Deliver()
				s.awaitPublished()
				if copies := s.judge(); copies != c.copies {
					s.t.Errorf("%d copies, want %d", copies, c.copies)
				}
			})
		})
	}
}

// TestContention: transactions that append events of two aggregates in opposite orders deadlock,
// one of them is ended, and tries again.
func TestContention(t *testing.T) {
	onStage(t, func(s *stage) {
		o := s.outbox("append", nil)
		var met, wg sync.WaitGroup
		met.Add(2)
		var deadlocks atomic.Int64
		for i := range 2 {
			first := true
			wg.Go(func() {
				for {
					err := pgx.BeginFunc(s.t.Context(), s.db.Pool, func(tx pgx.Tx) error {
						for j, aggregate := range [][]string{{"one", "two"}, {"two", "one"}}[i] {
							if err := o.Append(s.t.Context(), tx, Event{ID: fmt.Sprint(i, j), Topic: s.topic, Aggregate: aggregate}); err != nil {
								return err
							}
							if first {
								first = false
								met.Done()
								met.Wait()
							}
						}
						return nil
					})
					if err == nil {
						return
					}
					if deadlocks.Add(1); postgres.ClassOf(err) != topology.Transient {
						s.t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		s.count += 4
		if deadlocks.Load() == 0 {
			s.t.Error("there was no deadlock")
		}
		s.start(s.outbox("relay", nil))
		s.awaitPublished()
		if copies, _ := s.verdict(); copies != 0 || s.with(Published) != 4 {
			s.t.Errorf("%d copies, %d published", copies, s.with(Published))
		}
	})
}

// TestNotificationsWake: a relay that polls once an hour publishes at once, also after its
// connection was lost, and one that is not notified finds events by polling.
func TestNotificationsWake(t *testing.T) {
	onStage(t, func(s *stage) {
		stop := s.start(s.outbox("relay", func(c *Config) { c.Poll = time.Hour }))
		s.append(s.numbered("a", 3, "one")...)
		s.awaitPublished()
		s.db.Terminate(s.t, "relay")
		s.append(s.numbered("b", 3, "one")...)
		s.awaitPublished()
		stop()
		s.start(s.outbox("relay", nil))
		s.db.Exec(s.t, "INSERT INTO onceward.outbox (outbox, event_id, topic, header_keys, header_values) VALUES ('payments', 'c', $1, '{}', '{}')", s.topic)
		s.count++
		s.awaitPublished()
		s.judge()
	})
}

// TestStop: a relay that stops while records are on their way marks those that are answered, and
// its successor publishes the rest.
func TestStop(t *testing.T) {
	onStage(t, func(s *stage) {
		s.append(s.numbered("a", 300, "one", "two")...)
		for patience := time.Millisecond; s.with(Pending) > 0; patience += 5 * time.Millisecond { // at last it is enough for some records
			o := s.outbox("relay", func(c *Config) { c.BatchRecords = 50 })
			ctx, cancel := context.WithCancel(s.t.Context())
			once(o, "taken", func() error {
				time.AfterFunc(patience, cancel)
				return nil
			})
			if err := o.Run(ctx); err != nil {
				s.t.Fatal(err)
			}
			cancel()
		}
		s.judge()
	})
}

// TestOperators: people list, requeue and quarantine entries.
func TestOperators(t *testing.T) {
	onStage(t, func(s *stage) {
		o := s.outbox("operator", nil)
		s.append(s.numbered("a", 5, "one", "two")...)
		all := s.appended()
		some, err := o.List(s.t.Context(), Filter{Statuses: []Status{Pending}, Aggregate: "one", After: all[0].Number}, 1)
		if err != nil || len(some) != 1 || some[0].ID != "a00002" {
			s.t.Errorf("the list is %+v, %v", some, err)
		}
		entry := all[0].Number
		for i, step := range []struct {
			do      func(ctx context.Context, entry int64, by, reason string) error
			refused bool
		}{{o.Requeue, false}, {o.Quarantine, false}, {o.Quarantine, true}, {o.Requeue, false}, {o.Quarantine, false}} {
			if err := step.do(s.t.Context(), entry, "alice", "because"); (topology.ClassOf(err) == topology.Conflict) != step.refused || err != nil && !step.refused {
				s.t.Errorf("step %d: %v", i, err)
			}
		}
		if e, err := o.Show(s.t.Context(), entry); err != nil || e.Status != Quarantined || e.DecidedBy != "alice" || e.Reason != "because" {
			s.t.Errorf("the entry is %+v, %v", e, err)
		}
		if err := o.Requeue(s.t.Context(), entry, "", ""); topology.ClassOf(err) != topology.Validation {
			s.t.Errorf("without a name: %v", err)
		}
		if _, err := o.Show(s.t.Context(), 1<<40); !errors.Is(err, ErrNoEntry) {
			s.t.Errorf("an entry that is not there: %v", err)
		}
		s.start(s.outbox("relay", nil))
		s.awaitPublished()
		if err := o.Requeue(s.t.Context(), all[1].Number, "alice", ""); topology.ClassOf(err) != topology.Conflict {
			s.t.Errorf("what is published: %v", err)
		}
	})
}

// TestClean: relays remove published entries when their retention is over, and nothing else.
func TestClean(t *testing.T) {
	onStage(t, func(s *stage) {
		s.append(s.numbered("a", 12)...)
		stop := s.start(s.outbox("relay", nil))
		s.awaitPublished()
		stop()
		s.append(Event{ID: "pending", Topic: s.topic}, Event{ID: "held", Topic: s.topic})
		o := s.outbox("operator", nil)
		if err := o.Quarantine(s.t.Context(), s.appended()[13].Number, "alice", ""); err != nil {
			s.t.Fatal(err)
		}
		if n, err := o.Clean(s.t.Context(), 100); n != 0 || err != nil {
			s.t.Errorf("%d, %v", n, err)
		}
		s.db.Exec(s.t, "UPDATE onceward.outbox SET appended_at = appended_at - interval '2 days', published_at = published_at - interval '25 hours'")
		if n, err := o.Clean(s.t.Context(), 5); n != 5 || err != nil {
			s.t.Errorf("%d, %v", n, err)
		}
		s.start(s.outbox("relay", nil))
		pgtest.Await(s.t, "the relay removes the rest", func() bool {
			return s.db.Int(s.t, "SELECT count(*) FROM onceward.outbox WHERE event_id LIKE 'a%'") == 0
		})
		s.awaitPublished()
		if n := len(s.appended()); n != 2 {
			s.t.Errorf("%d entries are left", n)
		}
		if _, err := o.Clean(s.t.Context(), 0); err == nil {
			s.t.Error("a limit of 0 is accepted")
		}
	})
}

// TestMetrics: the counters and the lag say what has happened, and outboxes share a registerer.
func TestMetrics(t *testing.T) {
	onStage(t, func(s *stage) {
		registry := prometheus.NewRegistry()
		o := s.outbox("relay", func(c *Config) { c.Metrics = registry })
		s.in(func(tx pgx.Tx) error { return o.Append(s.t.Context(), tx, s.numbered("a", 3)...) })
		s.db.Exec(s.t, "UPDATE onceward.outbox SET appended_at = appended_at - interval '1 hour', retry_at = now() + interval '1 hour'")
		s.start(o)
		pgtest.Await(s.t, "the lag is measured", func() bool {
			return testutil.ToFloat64(o.metrics.pending) == 3 && testutil.ToFloat64(o.metrics.oldest) > 3590
		})
		s.db.Exec(s.t, "UPDATE onceward.outbox SET retry_at = NULL")
		pgtest.Await(s.t, "they are counted", func() bool { return testutil.ToFloat64(o.metrics.published) == 3 })
		expected := `
			# HELP onceward_postgres_outbox_appended_total Events that were appended: also those of transactions that are rolled back afterwards.
			# TYPE onceward_postgres_outbox_appended_total counter
			onceward_postgres_outbox_appended_total{outbox="payments"} 3
		`
		if err := testutil.GatherAndCompare(registry, strings.NewReader(expected), "onceward_postgres_outbox_appended_total"); err != nil {
			s.t.Error(err)
		}
		s.outbox("another", func(c *Config) { c.Metrics, c.Name = registry, "another" })
	})
}

// TestConfigIsRefused: what is wrong with a configuration is said at once.
func TestConfigIsRefused(t *testing.T) {
	_, err := New(Config{BatchRecords: -1, Poll: time.Nanosecond, RetryMin: time.Hour, RetryMax: time.Minute, IdleInTransaction: 30 * time.Second,
		Retention: time.Millisecond})
	for _, part := range []string{"Name", "Pool is nil", "BatchRecords", "Poll", "RetryMax 1m0s is less", "IdleInTransaction 30s", "Retention"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %s: %v", part, err)
		}
	}
	db := pgtest.Empty(t)
	o, err := New(Config{Name: "payments", Pool: db.Pool})
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "kgo.SeedBrokers") {
		t.Errorf("Run without a client: %v", err)
	}
	if _, err := o.List(t.Context(), Filter{}, 1); err == nil || !strings.Contains(err.Error(), "postgres.Migrate creates the tables") {
		t.Errorf("without tables: %v", err)
	}
}

// TestReasonsQuoteNoRecord: what is stored and logged of a failure has no byte of the record.
func TestReasonsQuoteNoRecord(t *testing.T) {
	secret := []byte("4111-1111")
	for _, err := range []error{errors.New(string(secret)), topology.Fail(topology.Validation, errors.New(string(secret)))} {
		if strings.Contains(reasonOf(err), string(secret)) || bytes.Contains([]byte(reasonOf(blame(kgo.ErrRecordTimeout))), secret) {
			t.Errorf("the reason is %q", reasonOf(err))
		}
	}
}
