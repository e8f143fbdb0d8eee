package pgapply_test

import (
	"context"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/processors/postgres/internal/pgtest"
	"github.com/onceward/onceward/processors/postgres/pgapply"
)

// A read model follows the versions of accounts, and counts each payment once, whatever order the
// source sends them in.
func Example() {
	pool, done := pgtest.ExampleDatabase() // pgxpool.New and postgres.Migrate
	defer done()
	ctx := context.Background()
	_, err := pool.Exec(ctx, `
		CREATE TABLE accounts (id text PRIMARY KEY, owner text, version bigint);
		CREATE TABLE payments (account text, id text, cents bigint, PRIMARY KEY (account, id))`)
	if err != nil {
		log.Fatal(err)
	}
	accounts, err := pgapply.NewVersions(pgapply.Table{Name: "accounts", Key: []string{"id"}, Columns: []string{"owner"}}, "version")
	if err != nil {
		log.Fatal(err)
	}
	payments, err := pgapply.NewContributions(pgapply.Table{Name: "payments", Key: []string{"account", "id"}, Columns: []string{"cents"}})
	if err != nil {
		log.Fatal(err)
	}

	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { // that of pgsink or pginbox
		for _, change := range []struct {
			version int64
			owner   string
		}{{1, "Ann"}, {2, "Anna"}, {1, "Ann"}, {4, "Anne"}} {
			outcome, err := accounts.Put(ctx, tx, change.version, "a1", change.owner)
			if err != nil {
				return err
			}
			fmt.Println("version", change.version, outcome)
		}
		for _, cents := range []int{1250, 1250, 9900} {
			outcome, err := payments.Add(ctx, tx, "a1", "payment-1", cents)
			if err != nil {
				return err
			}
			fmt.Println(cents, "cents", outcome)
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// version 1 applied
	// version 2 applied
	// version 1 stale
	// version 4 gap
	// 1250 cents applied
	// 1250 cents duplicate
	// 9900 cents conflict
}
