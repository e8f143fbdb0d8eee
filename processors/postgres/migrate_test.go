package postgres_test

import (
	"sync"
	"testing"

	"github.com/onceward/onceward/processors/postgres"
	"github.com/onceward/onceward/processors/postgres/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestMigrateOnce: instances that start together migrate once, and a second call finds nothing to
// do.
func TestMigrateOnce(t *testing.T) {
	db := pgtest.Empty(t)
	var wg sync.WaitGroup
	total := make(chan int, 8)
	for range cap(total) {
		wg.Go(func() {
			n, err := postgres.Migrate(t.Context(), db.Pool)
			if err != nil {
				t.Error(err)
			}
			total <- n
		})
	}
	wg.Wait()
	close(total)
	sum := 0
	for n := range total {
		sum += n
	}
	if want := len(postgres.Migrations()); sum != want {
		t.Errorf("%d migrations have run, want %d", sum, want)
	}
	if n, err := postgres.Migrate(t.Context(), db.Pool); n != 0 || err != nil {
		t.Errorf("the second call ran %d, %v", n, err)
	}
	if n := db.Int(t, "SELECT count(*) FROM onceward.migrations"); n != int64(len(postgres.Migrations())) {
		t.Errorf("%d migrations are recorded", n)
	}
}

// TestMigrateLaterTables: tables of a later release stay as they are.
func TestMigrateLaterTables(t *testing.T) {
	db := pgtest.New(t)
	db.Exec(t, "INSERT INTO onceward.migrations (version, name) VALUES (1000, 'later')")
	if n, err := postgres.Migrate(t.Context(), db.Pool); n != 0 || err != nil {
		t.Errorf("ran %d, %v", n, err)
	}
}

// TestMigrationsByHand: the statements alone make the same tables.
func TestMigrationsByHand(t *testing.T) {
	db, other := pgtest.Empty(t), pgtest.New(t)
	db.Exec(t, "CREATE SCHEMA onceward")
	for _, m := range postgres.Migrations() {
		db.Exec(t, m.SQL)
	}
	const columns = `SELECT count(*) FROM information_schema.columns WHERE table_schema = 'onceward' AND table_name <> 'migrations'`
	if a, b := db.Int(t, columns), other.Int(t, columns); a != b || a == 0 {
		t.Errorf("%d columns by hand, %d by Migrate", a, b)
	}
}
