package pgsink

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/processors/postgres/internal/pgtest"
)

// TestAbortedRecordsAreNotApplied (M4): Apply never sees a record of a transaction that was
// aborted, or that is open. The negative control reads what is not committed.
func TestAbortedRecordsAreNotApplied(t *testing.T) {
	for _, committed := range []bool{true, false} {
		name := "read committed"
		if !committed {
			name = "read uncommitted"
		}
		t.Run(name, func(t *testing.T) {
			onStage(t, 1, func(s *stage) {
				a := s.sink("a", nil)
				if !committed {
					a.isolation = kgo.ReadUncommitted()
				}
				p := s.transactions()
				p.write("c1", kgo.TryCommit)
				p.write("aborted", kgo.TryAbort)
				p.write("c2", kgo.TryCommit)
				p.begin("open")
				s.start(a)
				if !committed {
					pgtest.Await(s.t, "what is not committed is applied", func() bool {
						return slices.Equal(s.values(), []string{"c1", "aborted", "c2", "open"})
					})
					p.end(kgo.TryAbort)
					return
				}
				pgtest.Await(s.t, "what is committed is applied", func() bool { return s.effects() >= 2 })
				p.end(kgo.TryAbort)
				p.write("c3", kgo.TryCommit)
				pgtest.Await(s.t, "what comes behind is applied", func() bool { return slices.Contains(s.values(), "c3") })
				if got, want := s.values(), []string{"c1", "c2", "c3"}; !slices.Equal(got, want) {
					s.t.Errorf("applied are %q, want %q", got, want)
				}
			})
		})
	}
}

// transactions writes records to the topic of a stage, each in a transaction of its own.
type transactions struct {
	s      *stage
	client *kgo.Client
}

func (s *stage) transactions() transactions {
	return transactions{s, s.c.Client(s.t, kgo.TransactionalID(s.c.Name(s.t, "producer")), kgo.RecordPartitioner(kgo.ManualPartitioner()))}
}

// begin writes a record in a transaction that stays open.
func (p transactions) begin(value string) {
	p.s.t.Helper()
	err := p.client.BeginTransaction()
	if err == nil {
		err = p.client.ProduceSync(p.s.t.Context(), &kgo.Record{Topic: p.s.topic, Value: []byte(value)}).FirstErr()
	}
	if err != nil {
		p.s.t.Fatal(err)
	}
}

func (p transactions) end(how kgo.TransactionEndTry) {
	p.s.t.Helper()
	if err := p.client.EndTransaction(p.s.t.Context(), how); err != nil {
		p.s.t.Fatal(err)
	}
}

func (p transactions) write(value string, how kgo.TransactionEndTry) {
	p.s.t.Helper()
	p.begin(value)
	p.end(how)
}

// values returns what was applied, in its order.
func (s *stage) values() []string {
	s.t.Helper()
	rows, err := s.db.Pool.Query(s.t.Context(), "SELECT value FROM effects ORDER BY id")
	if err != nil {
		s.t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		s.t.Fatal(err)
	}
	return all
}
