package pgoutbox

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/processors/postgres/internal/pgtest"
)

// TestHeldEntriesAreNotRead: when an aggregate is stuck behind its first entry, the entries of
// other aggregates are found without a look at those that are stuck, however many there are. The
// statistics are those of before, which say nothing of held entries.
func TestHeldEntriesAreNotRead(t *testing.T) {
	const stuck, others, batch = 30_000, 200, 100
	db := pgtest.New(t)
	db.Exec(t, `INSERT INTO onceward.outbox (outbox, event_id, aggregate, topic, header_keys, header_values, retry_at, attempts)
		SELECT 'payments', 's' || i, 'stuck', 't', '{}', '{}', CASE WHEN i = 1 THEN now() + interval '1 hour' END, CASE WHEN i = 1 THEN 1 ELSE 0 END
		FROM generate_series(1, $1::int) AS i`, stuck)
	db.Exec(t, `INSERT INTO onceward.outbox (outbox, event_id, aggregate, topic, header_keys, header_values)
		SELECT 'payments', 'e' || i, 'a' || i, 't', '{}', '{}' FROM generate_series(1, $1::int) AS i`, others)
	db.Exec(t, "ANALYZE onceward.outbox")
	o, err := New(Config{Name: "payments", Pool: db.Pool, BatchRecords: batch})
	if err != nil {
		t.Fatal(err)
	}
	take := func() (entries []*Entry, held int) {
		err := pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) (err error) {
			entries, held, err = o.take(t.Context(), tx, lookMax)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return entries, held
	}
	sum := 0
	for {
		entries, held := take()
		if sum += held; held > 0 {
			continue
		}
		if len(entries) != batch || entries[0].ID != "e1" {
			t.Errorf("%d entries are taken, want %d of the other aggregates", len(entries), batch)
		}
		break
	}
	if sum != stuck-1 {
		t.Errorf("%d entries are held, want %d", sum, stuck-1)
	}
	plan := db.Plan(t, takeEntries, "payments", 25, batch)
	if strings.Contains(plan, "outbox_pkey") || strings.Contains(plan, "Seq Scan") || !strings.Contains(plan, "outbox_fresh") {
		t.Errorf("the plan reads held entries:\n%s", plan)
	}
	ran := db.Executed(t, takeEntries, "payments", 25, batch)
	if strings.Contains(ran, "Rows Removed by Filter") {
		t.Errorf("the statement reads entries that it does not take:\n%s", ran)
	}
}

// TestPlans: on a table of entries that are mostly published, each statement uses an index that
// leads to the others.
func TestPlans(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, `INSERT INTO onceward.outbox (outbox, event_id, status, aggregate, topic, header_keys, header_values, retry_at, published_at)
		SELECT 'payments', 'e' || i, CASE WHEN i <= 30000 THEN 'PUBLISHED' ELSE 'PENDING' END, 'a' || i % 100, 't', '{}', '{}',
			CASE WHEN i > 30300 THEN now() END, CASE WHEN i <= 30000 THEN now() - i * interval '1 minute' END
		FROM generate_series(1, 30350) AS i`)
	db.Exec(t, "ANALYZE onceward.outbox")
	for _, c := range []struct {
		name, sql string
		args      []any
		indexes   []string
	}{
		{"take", takeEntries, []any{"payments", 25, 100}, []string{"outbox_again", "outbox_fresh"}},
		{"first of others", firstOfOthers, []any{"payments", []string{"a7"}, []int64{30007}}, []string{"outbox_order"}},
		{"release", releaseHeld, []any{"payments", []string{"a7"}, 100}, []string{"outbox_held"}},
		{"lag", lag, []any{"payments"}, []string{"outbox_pending"}},
		{"old entries", deleteEntries, []any{"payments", 200 * time.Hour, 10}, []string{"outbox_published"}},
		{"list of an event", listEntries, []any{"payments", 0, nil, "e7", "", false, 100}, []string{"outbox_event_id"}},
	} {
		plan := db.Plan(t, c.sql, c.args...)
		for _, index := range c.indexes {
			if !strings.Contains(plan, index) {
				t.Errorf("%s: the plan does not use %s:\n%s", c.name, index, plan)
			}
		}
		if strings.Contains(plan, "Seq Scan on outbox") {
			t.Errorf("%s: the plan reads the whole table:\n%s", c.name, plan)
		}
	}
}
