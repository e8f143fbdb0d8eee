package pgrequests

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/processors/postgres/internal/pgtest"
)

// TestPlans: each statement uses its index on a table that has no statistics yet, as it is when a
// service begins.
func TestPlans(t *testing.T) {
	db := pgtest.New(t)
	conn, err := db.Pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	for i, c := range []struct {
		sql, index string
		parameters int
	}{
		{readRequest, "requests_pkey", 6},
		{takeRequest, "requests_pkey", 11},
		{endRequest, "requests_pkey", 14},
		{findRequest, "requests_pkey", 6},
		{listUnknown, "requests_unknown", 2},
		{listUnknown, "requests_external", 2},
		{expireLocks, "requests_external", 2},
		{expireAnswers, "requests_expires_at", 2},
		{expireRows, "requests_started_at", 3},
	} {
		if _, err := conn.Exec(t.Context(), fmt.Sprintf("SET plan_cache_mode = force_generic_plan; PREPARE q%d AS %s", i, c.sql)); err != nil {
			t.Fatal(err)
		}
		nulls := strings.TrimSuffix(strings.Repeat("NULL, ", c.parameters), ", ")
		rows, err := conn.Query(t.Context(), fmt.Sprintf("EXPLAIN EXECUTE q%d(%s)", i, nulls))
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		if plan := strings.Join(lines, "\n"); !strings.Contains(plan, "using "+c.index+" ") {
			t.Errorf("the plan does not use %s:\n%s", c.index, plan)
		}
	}
}
