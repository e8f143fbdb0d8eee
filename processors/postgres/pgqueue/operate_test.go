package pgqueue

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/onceward/onceward/processors/postgres/internal/pgtest"
	"github.com/onceward/onceward/topology"
)

// find returns the one entry of an event.
func (s *stage) find(id string) Entry {
	s.t.Helper()
	all, err := s.queue("operator", nil).List(s.t.Context(), Filter{EventID: id}, 2)
	if err != nil || len(all) != 1 {
		s.t.Fatalf("%d entries of %s, %v", len(all), id, err)
	}
	return all[0]
}

// TestOperators_M3: people list, show, requeue, quarantine and ignore entries, and what they do is
// evidence.
func TestOperators_M3(t *testing.T) {
	s := newStage(t)
	q := s.queue("operator", nil)
	ctx := t.Context()
	s.store(numbered("a", 5, "one", "two")...)
	all, err := q.List(ctx, Filter{Aggregate: "one"}, 2)
	if err != nil || len(all) != 2 || all[0].ID != "a00000" || all[1].ID != "a00002" {
		t.Fatalf("the list is %+v, %v", all, err)
	}
	if rest, err := q.List(ctx, Filter{Aggregate: "one", After: all[1].Number}, 2); err != nil || len(rest) != 1 || rest[0].ID != "a00004" {
		t.Errorf("the rest is %+v, %v", rest, err)
	}
	first := all[0].Number
	steps := []struct {
		name   string
		do     func(ctx context.Context, entry int64, by, reason string) error
		status Status // after it; "" if it is refused
	}{
		{"requeue", q.Requeue, ""}, {"quarantine", q.Quarantine, Quarantined}, {"quarantine", q.Quarantine, ""},
		{"requeue", q.Requeue, RetryableFailed}, {"requeue", q.Requeue, RetryableFailed}, {"quarantine", q.Quarantine, Quarantined},
		{"ignore", q.Ignore, Ignored}, {"requeue", q.Requeue, ""}, {"ignore", q.Ignore, ""}, {"quarantine", q.Quarantine, ""},
	}
	var decided []Status
	for i, step := range steps {
		err := step.do(ctx, first, "alice", "because")
		switch {
		case step.status == "" && (topology.ClassOf(err) != topology.Conflict || !strings.Contains(err.Error(), step.name)):
			t.Errorf("step %d, %s: %v", i, step.name, err)
		case step.status == "":
		case err != nil:
			t.Errorf("step %d, %s: %v", i, step.name, err)
		default:
			decided = append(decided, step.status)
		}
		if e := s.find("a00000"); step.status != "" && e.Status != step.status {
			t.Errorf("step %d, %s: the entry is %s", i, step.name, e.Status)
		}
	}
	_, evidence, err := q.Show(ctx, first)
	if err != nil || len(evidence) != len(decided) {
		t.Fatalf("the evidence is %+v, %v", evidence, err)
	}
	for i, d := range evidence {
		if d.Status != decided[i] || d.By != "alice" || d.Reason != "because" {
			t.Errorf("decision %d is %+v", i, d)
		}
	}
	for _, err := range []error{
		q.Requeue(ctx, 1<<40, "alice", ""),
		func() error { _, _, err := q.Show(ctx, 1<<40); return err }(),
		func() error {
			_, _, err := s.queue("other", func(c *Config) { c.Name = "other" }).Show(ctx, first)
			return err
		}(),
	} {
		if !errors.Is(err, ErrNoEntry) {
			t.Errorf("an entry that is not there: %v", err)
		}
	}
	if err := q.Requeue(ctx, first, "", "because"); topology.ClassOf(err) != topology.Validation {
		t.Errorf("without a name: %v", err)
	}
	s.start(s.queue("worker", nil))
	s.awaitSettled()
	s.judge()
	if n := s.effects(); n != 4 {
		t.Errorf("%d effects", n)
	}
}

// TestQuarantineFencesTheWorker: an entry that a person quarantines while a worker has it has no
// effect.
func TestQuarantineFencesTheWorker(t *testing.T) {
	s := newStage(t)
	q := s.queue("worker", nil)
	at, on := make(chan struct{}), make(chan struct{})
	once(q, "handled", func(context.Context) error {
		close(at)
		<-on
		return nil
	})
	s.store(Event{ID: "a"})
	s.start(q)
	<-at
	entry := s.find("a").Number
	if err := s.queue("operator", nil).Quarantine(t.Context(), entry, "alice", ""); err != nil {
		t.Fatal(err)
	}
	close(on)
	pgtest.Await(t, "the worker is fenced", func() bool { return testutil.ToFloat64(q.metrics.fenced) == 1 })
	if s.effects() != 0 || s.find("a").Status != Quarantined {
		t.Errorf("%d effects, and the entry is %s", s.effects(), s.find("a").Status)
	}
	if err := s.queue("operator", nil).Requeue(t.Context(), entry, "alice", ""); err != nil {
		t.Fatal(err)
	}
	s.awaitSettled()
	s.judge()
}

// TestRequeuedConflict: a conflict that a person requeues is processed beside the event that came
// first, and holds up nothing.
func TestRequeuedConflict(t *testing.T) {
	s := newStage(t)
	s.store(Event{ID: "a", Aggregate: "one", Payload: []byte("1")}, Event{ID: "a", Aggregate: "one", Payload: []byte("2")}, Event{ID: "b", Aggregate: "one"})
	s.start(s.queue("worker", nil))
	pgtest.Await(t, "the others are processed", func() bool { return s.effects() == 2 })
	q := s.queue("operator", nil)
	all, err := q.List(t.Context(), Filter{Statuses: []Status{Quarantined}}, 2)
	if err != nil || len(all) != 1 {
		t.Fatalf("%d in quarantine, %v", len(all), err)
	}
	if err := q.Requeue(t.Context(), all[0].Number, "alice", "both are right"); err != nil {
		t.Fatal(err)
	}
	s.awaitSettled()
	if n := s.effects(); n != 3 {
		t.Errorf("%d effects", n)
	}
}

// TestClean: settled entries go when their retention is over, with their evidence, and payloads
// before them; what is not settled stays. Row of the failure matrix: replay after expiry. An event
// that comes again afterwards is received again.
func TestClean(t *testing.T) {
	s := newStage(t)
	q := s.queue("worker", func(c *Config) {
		c.Retention, c.PayloadRetention = 48*time.Hour, 24*time.Hour
		c.Handle = func(ctx context.Context, tx pgx.Tx, e *Entry) (Decision, error) {
			if e.ID == "bad" {
				return Decision{}, errors.New("bad")
			}
			return effect(ctx, tx, e)
		}
	})
	for _, e := range numbered("a", 12) {
		e.Headers = []topology.Header{{Key: "k"}}
		s.store(e)
	}
	s.store(Event{ID: "bad", Payload: []byte("bad")})
	stop := s.start(q)
	pgtest.Await(t, "they come to an end", func() bool { return s.with(Processed, Quarantined) == 13 })
	stop()
	s.db.Exec(t, "UPDATE onceward.queue SET settled_at = settled_at - interval '25 hours', received_at = received_at - interval '3 days'")
	if n, err := q.Clean(t.Context(), 100); n != 0 || err != nil {
		t.Errorf("after a day: %d, %v", n, err)
	}
	if e := s.find("a00000"); !e.PayloadDropped || e.Payload != nil || len(e.Headers) != 0 {
		t.Errorf("after a day: %+v", e)
	}
	s.db.Exec(t, "UPDATE onceward.queue SET settled_at = settled_at - interval '24 hours'")
	for _, want := range []int{10, 2, 0} {
		if n, err := q.Clean(t.Context(), 10); n != want || err != nil {
			t.Errorf("after two days: %d, %v", n, err)
		}
	}
	if e := s.find("bad"); e.Status != Quarantined || string(e.Payload) != "bad" {
		t.Errorf("the entry in quarantine is %+v", e)
	}
	if n := s.db.Int(t, "SELECT count(*) FROM onceward.queue_decisions"); n != 1 {
		t.Errorf("%d decisions are left", n)
	}
	if _, err := q.Clean(t.Context(), 0); err == nil {
		t.Error("a limit of 0 is accepted")
	}
	if got := s.store(numbered("a", 1)...); got[0] != Received {
		t.Errorf("an event that comes again after its entry was removed is %s", got[0])
	}
}

// TestMetrics: the counters say what has happened, and queues share a registerer.
func TestMetrics(t *testing.T) {
	s := newStage(t)
	registry := prometheus.NewRegistry()
	q := s.queue("worker", func(c *Config) { c.Metrics = registry })
	err := pgx.BeginFunc(t.Context(), s.db.Pool, func(tx pgx.Tx) error {
		_, err := q.Store(t.Context(), tx, Event{ID: "a"}, Event{ID: "a"}, Event{ID: "b"}, Event{ID: "b", Payload: []byte("other")})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	s.db.Exec(t, "UPDATE onceward.queue SET received_at = received_at - interval '1 hour', due_at = due_at + interval '1 hour'")
	s.start(q)
	pgtest.Await(t, "the age is measured", func() bool {
		age := testutil.ToFloat64(q.metrics.oldest)
		return age > 3590 && age < 36000
	})
	s.db.Exec(t, "UPDATE onceward.queue SET due_at = now() WHERE due_at IS NOT NULL")
	pgtest.Await(t, "both are counted", func() bool { return testutil.ToFloat64(q.metrics.settled[Processed]) == 2 })
	expected := `
		# HELP onceward_postgres_queue_arrivals_total Events that were stored, by what they are: also those of transactions that are rolled back afterwards.
		# TYPE onceward_postgres_queue_arrivals_total counter
		onceward_postgres_queue_arrivals_total{outcome="conflict",queue="mail"} 1
		onceward_postgres_queue_arrivals_total{outcome="duplicate",queue="mail"} 1
		onceward_postgres_queue_arrivals_total{outcome="received",queue="mail"} 2
		# HELP onceward_postgres_queue_claims_total Entries that were claimed.
		# TYPE onceward_postgres_queue_claims_total counter
		onceward_postgres_queue_claims_total{queue="mail"} 2
	`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(expected),
		"onceward_postgres_queue_arrivals_total", "onceward_postgres_queue_claims_total"); err != nil {
		t.Error(err)
	}
	pgtest.Await(t, "nothing is pending", func() bool { return testutil.ToFloat64(q.metrics.oldest) == 0 })
	s.queue("another", func(c *Config) { c.Metrics, c.Name = registry, "another" })
}
