package pgqueue

import (
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/processors/postgres/internal/pgtest"
)

// TestPlans: on a table of entries that are mostly settled, each statement uses an index that leads
// to the others.
func TestPlans(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, `INSERT INTO onceward.queue (queue, event_id, status, event_type, subject, aggregate, source, payload_hash, payload, header_keys,
			header_values, due_at, settled_at, received_at)
		SELECT 'mail', 'e' || i, CASE WHEN i <= 30000 THEN 'PROCESSED' WHEN i <= 30010 THEN 'QUARANTINED' ELSE 'RECEIVED' END, '', '', 'a' || i % 100, '',
			'', '', '{}', '{}', CASE WHEN i > 30010 THEN now() END, CASE WHEN i <= 30000 THEN now() - i * interval '1 minute' END, now()
		FROM generate_series(1, 30200) AS i`)
	db.Exec(t, `INSERT INTO onceward.queue (queue, event_id, copy_of, status, event_type, subject, source, payload_hash, header_keys, header_values, settled_at)
		SELECT 'mail', 'e' || i, i, 'DUPLICATE', '', '', '', '', '{}', '{}', now() FROM generate_series(1, 1000) AS i`)
	db.Exec(t, "INSERT INTO onceward.queue_decisions (entry, claim, status, decided_by) SELECT entry, 1, status, 'w' FROM onceward.queue")
	db.Exec(t, "ANALYZE onceward.queue, onceward.queue_decisions")
	list := func(f Filter) (sql string, args []any) {
		return f.sql(), []any{"mail", f.After, f.Statuses, f.EventID, f.Aggregate, 100}
	}
	pending, pendingArgs := list(Filter{Statuses: []Status{Received, RetryableFailed}})
	quarantined, quarantinedArgs := list(Filter{Statuses: []Status{Quarantined}})
	event, eventArgs := list(Filter{EventID: "e77"})
	for _, c := range []struct {
		name, sql string
		args      []any
		indexes   []string
	}{
		{"due entries", dueEntries, []any{"mail", 16}, []string{"queue_due", "queue_order"}},
		{"next of an aggregate", wakeNext, []any{"mail", "a7"}, []string{"queue_order"}},
		{"oldest", oldestPending, []any{"mail"}, []string{"queue_pending"}},
		{"old entries", deleteEntries, []any{"mail", 200 * time.Hour, 10}, []string{"queue_settled"}},
		{"old payloads", dropPayloads, []any{"mail", 200 * time.Hour, 10}, []string{"queue_payloads"}},
		{"list of pending", pending, pendingArgs, []string{"queue_pending"}},
		{"list of quarantined", quarantined, quarantinedArgs, []string{"queue_quarantined"}},
		{"list of an event", event, eventArgs, []string{"queue_event_id", "queue_copies"}},
	} {
		plan := db.Plan(t, c.sql, c.args...)
		for _, index := range c.indexes {
			if !strings.Contains(plan, index) {
				t.Errorf("%s: the plan does not use %s:\n%s", c.name, index, plan)
			}
		}
		if strings.Contains(plan, "Seq Scan on queue") {
			t.Errorf("%s: the plan reads the whole table:\n%s", c.name, plan)
		}
	}
}
