package pgoutbox

import (
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/processors/postgres/internal/pgtest"
)

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
		{"take", takeEntries, []any{"payments", 25, 100}, []string{"outbox_again", "outbox_pending"}},
		{"first of others", firstOfOthers, []any{"payments", []string{"a7"}, []int64{30007}}, []string{"outbox_order"}},
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
