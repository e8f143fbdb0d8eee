package pgoutbox

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/processors/postgres/internal/pgtest"
)

// The environment of a child process: the point at which it kills itself, its database and its
// brokers.
const (
	envChild   = "PGOUTBOX_TEST_CHILD"
	envURL     = "PGOUTBOX_TEST_URL"
	envBrokers = "PGOUTBOX_TEST_BROKERS"
)

// child runs a relay until its second batch comes to the point, and kills itself there with
// SIGKILL.
func child() int {
	pool, err := pgxpool.New(context.Background(), os.Getenv(envURL))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	o, err := New(Config{
		Name: "payments", Pool: pool, BatchRecords: 10, Client: []kgo.Opt{kgo.SeedBrokers(strings.Split(os.Getenv(envBrokers), ",")...)},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	batches := 0
	o.setAt(func(_ context.Context, point string) error {
		if point == "taken" {
			batches++
		}
		if batches == 2 && point == os.Getenv(envChild) {
			pgtest.KillSelf()
		}
		return nil
	})
	fmt.Fprintln(os.Stderr, o.Run(context.Background()))
	return 1
}

// TestKilledAtEveryPoint: of a relay that is killed, the next one publishes what was not marked.
// The copies have the same ids, so an inbox behind the topic lets each event pass once, in the
// order of its aggregate. Rows of the failure matrix: crash before processing; crash after
// processing before flush; duplicate delivery. Rows of the failure matrix: crash after flush before
// offsets; crash after offsets before end; crash after the apply.
func TestKilledAtEveryPoint(t *testing.T) {
	onStage(t, func(s *stage) {
		for i, point := range points {
			s.append(s.numbered(string(rune('a'+i)), 30, "one", "two", "")...)
			pgtest.Killed(s.t, envChild+"="+point, envURL+"="+s.db.URL, envBrokers+"="+strings.Join(s.c.Brokers(), ","))
			before := s.judgeCopies()
			stop := s.start(s.outbox("successor", nil))
			s.awaitPublished()
			stop()
			copies := s.judge() - before
			if again := point == "published" || point == "marked"; again != (copies == 10) || !again && copies != 0 {
				s.t.Errorf("killed when %s: %d copies", point, copies)
			}
		}
		passed, duplicates := s.throughInbox()
		if len(passed) != s.count || duplicates != 20 {
			s.t.Errorf("the inbox lets %d of %d events pass, and has %d duplicates", len(passed), s.count, duplicates)
		}
		last := map[string]string{}
		aggregates := map[string]string{}
		for _, e := range s.appended() {
			aggregates[e.ID] = e.Aggregate
		}
		for _, id := range passed {
			of := aggregates[id] + " " + id[:1]
			if aggregates[id] != "" && id < last[of] {
				s.t.Errorf("%s passes after %s", id, last[of])
			}
			last[of] = id
		}
	})
}

// judgeCopies returns how many records are copies.
func (s *stage) judgeCopies() int {
	copies, _ := s.verdict()
	return copies
}

// appended returns all entries.
func (s *stage) appended() []Entry {
	s.t.Helper()
	all, err := s.outbox("operator", nil).List(s.t.Context(), Filter{}, 100_000)
	if err != nil {
		s.t.Fatal(err)
	}
	return all
}
