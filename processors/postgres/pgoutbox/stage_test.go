package pgoutbox

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/processors/envelope"
	"github.com/onceward/onceward/processors/inbox"
	"github.com/onceward/onceward/processors/postgres/internal/pgtest"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

func TestMain(m *testing.M) {
	if os.Getenv(envChild) != "" {
		os.Exit(child())
	}
	pgtest.MainWithBrokers(m)
}

// stage is a database with an outbox, and a topic.
type stage struct {
	t     *testing.T
	c     *cluster.Cluster
	db    *pgtest.Database
	seeds []string
	topic string
	count int // events that were appended
}

// onStage runs a test on the broker of this process.
func onStage(t *testing.T, f func(s *stage)) {
	t.Helper()
	cluster.Each(t, func(t *testing.T, c *cluster.Cluster) { f(newStage(t, c)) })
}

func newStage(t *testing.T, c *cluster.Cluster) *stage {
	t.Helper()
	s := &stage{t: t, c: c, db: pgtest.New(t), seeds: c.Brokers(), topic: c.Name(t, "out")}
	c.CreateTopics(t, 3, s.topic)
	return s
}

// config is that of an instance, whose sessions have its name as application name.
func (s *stage) config(instance string, change func(c *Config)) Config {
	c := Config{
		Name: "payments", Pool: s.db.NewPool(s.t, pgtest.Named(instance)), BatchRecords: 20, Poll: 20 * time.Millisecond,
		RetryMin: time.Millisecond, RetryMax: 10 * time.Millisecond,
		Client: []kgo.Opt{kgo.SeedBrokers(s.seeds...), kgo.MetadataMinAge(50 * time.Millisecond)},
	}
	if change != nil {
		change(&c)
	}
	return c
}

func (s *stage) outbox(instance string, change func(c *Config)) *Outbox {
	s.t.Helper()
	o, err := New(s.config(instance, change))
	if err != nil {
		s.t.Fatal(err)
	}
	return o
}

// start runs a relay until the function that it returns is called, or the test ends. Run must not
// fail.
func (s *stage) start(o *Outbox) (stop func()) { return pgtest.Start(s.t, o.Run) }

// in runs f in a transaction.
func (s *stage) in(f func(tx pgx.Tx) error) {
	s.t.Helper()
	if err := pgx.BeginFunc(s.t.Context(), s.db.Pool, f); err != nil {
		s.t.Fatal(err)
	}
}

// append appends events in a transaction of their own.
func (s *stage) append(events ...Event) {
	s.t.Helper()
	o := s.outbox("append", nil)
	s.in(func(tx pgx.Tx) error { return o.Append(s.t.Context(), tx, events...) })
	s.count += len(events)
}

// numbered returns n events of some aggregates, in turn. Without aggregates they have no order.
func (s *stage) numbered(prefix string, n int, aggregates ...string) (all []Event) {
	for i := range n {
		e := Event{ID: fmt.Sprintf("%s%05d", prefix, i), Topic: s.topic, Value: fmt.Append(nil, i)}
		if len(aggregates) > 0 {
			e.Aggregate = aggregates[i%len(aggregates)]
		}
		all = append(all, e)
	}
	return all
}

func (s *stage) with(status Status) int64 {
	return s.db.Int(s.t, "SELECT count(*) FROM onceward.outbox WHERE status = $1", status)
}

func (s *stage) awaitPublished() {
	s.t.Helper()
	pgtest.Await(s.t, "everything is published", func() bool { return s.with(Pending) == 0 })
}

func header(r *kgo.Record, key string) string {
	for _, h := range r.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}

// verdict reads the topic: how many records are copies, and what is wrong with the first ones of
// each event.
func (s *stage) verdict() (copies int, wrong []string) {
	s.t.Helper()
	seen, last := map[string]bool{}, map[string]string{}
	for _, r := range s.c.Records(s.t, s.topic) {
		id, aggregate := header(r, envelope.HeaderEventID), header(r, envelope.HeaderAggregateID)
		if seen[id] {
			copies++
			continue
		}
		seen[id] = true
		if of := aggregate + " " + id[:1]; aggregate != "" {
			if id < last[of] {
				wrong = append(wrong, fmt.Sprintf("%s comes after %s, out of the order of %s", id, last[of], aggregate))
			}
			last[of] = max(id, last[of])
		}
	}
	if len(seen) != s.count {
		wrong = append(wrong, fmt.Sprintf("%d events have records, want %d", len(seen), s.count))
	}
	return copies, wrong
}

// judge fails the test unless every event that was appended has a record, in the order of its
// aggregate. It returns the number of copies.
func (s *stage) judge() (copies int) {
	s.t.Helper()
	copies, wrong := s.verdict()
	for _, w := range wrong {
		s.t.Error(w)
	}
	return copies
}

// throughInbox pipes the topic through a topology with an inbox, and returns the ids that it lets
// pass and the number of duplicates.
func (s *stage) throughInbox() (passed []string, duplicates int64) {
	s.t.Helper()
	b := topology.NewBuilder("consumer", topology.DeadLetters("dead"))
	in := inbox.Dedupe(topology.From(b, topology.Topic(s.topic, schemas.String(), schemas.String())), "inbox", envelope.EventID[string, string], inbox.Forever())
	in.Accepted().Into(topology.Topic("once", schemas.String(), schemas.String()))
	built, err := b.Build()
	if err != nil {
		s.t.Fatal(err)
	}
	d, err := topologytest.New(built)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, r := range s.c.Records(s.t, s.topic) {
		var headers []topologytest.PipeOption
		for _, h := range r.Headers {
			headers = append(headers, topologytest.Header(h.Key, string(h.Value)))
		}
		if err := d.PipeRaw(s.topic, r.Key, r.Value, headers...); err != nil {
			s.t.Fatal(err)
		}
	}
	once, err := d.OutputRaw("once")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, r := range once {
		for _, h := range r.Headers {
			if h.Key == envelope.HeaderEventID {
				passed = append(passed, string(h.Value))
			}
		}
	}
	for _, c := range d.Counts() {
		if strings.HasPrefix(c.Outcome, "dead-letter") {
			s.t.Errorf("%d %s", c.N, c.Outcome)
		}
		if c.Outcome == "duplicates" {
			duplicates += c.N
		}
	}
	return passed, duplicates
}
