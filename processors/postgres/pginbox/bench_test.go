package pginbox_test

import (
	"flag"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/processors/postgres/internal/pgtest"
)

var marks = flag.Int("marks", 10_000, "how many marks the inbox has before a benchmark begins, such as 1000000 or 10000000")

// BenchmarkTryMark is what a mark adds to the caller's transaction: its COMMIT is not measured.
// Beside it is an insert of the same row into a table with a primary key, as a consumer without
// this package would have it.
func BenchmarkTryMark(b *testing.B) {
	db := pgtest.New(b)
	inbox := newInbox(b, db.Pool)
	db.Exec(b, `CREATE TABLE plain (service text, event_id text, event_type text, subject text, at timestamptz DEFAULT now(), PRIMARY KEY (service, event_id))`)
	for _, into := range []string{
		"onceward.inbox (service, event_id, outcome, event_type, subject) SELECT 'billing', gen_random_uuid()::text, 1, 'paid', 'order'",
		"plain (service, event_id, event_type, subject) SELECT 'billing', gen_random_uuid()::text, 'paid', 'order'",
	} {
		db.Exec(b, "INSERT INTO "+into+" FROM generate_series(1, $1::int)", *marks)
	}
	db.Exec(b, "ANALYZE onceward.inbox; ANALYZE plain")
	mark := func(tx pgx.Tx, id string) error {
		_, err := inbox.TryMark(b.Context(), tx, id, "paid", "order")
		return err
	}
	for _, c := range []struct {
		name string
		id   func(i int) string
		do   func(tx pgx.Tx, id string) error
	}{
		{"claimed", strconv.Itoa, mark},
		{"duplicate", func(int) string { return "0" }, mark},
		{"plain insert", strconv.Itoa, func(tx pgx.Tx, id string) error {
			_, err := tx.Exec(b.Context(), "INSERT INTO plain (service, event_id, event_type, subject) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING",
				"billing", id, "paid", "order")
			return err
		}},
	} {
		next := 0
		b.Run(c.name, func(b *testing.B) {
			var times []time.Duration
			for b.Loop() {
				b.StopTimer()
				err := pgx.BeginFunc(b.Context(), db.Pool, func(tx pgx.Tx) error {
					b.StartTimer()
					began := time.Now()
					err := c.do(tx, "bench-"+c.id(next))
					times = append(times, time.Since(began))
					b.StopTimer()
					next++
					return err
				})
				if err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)/2].Nanoseconds())/1e3, "µs-median")
			b.ReportMetric(float64(times[len(times)*99/100].Nanoseconds())/1e3, "µs-p99")
		})
	}
}
