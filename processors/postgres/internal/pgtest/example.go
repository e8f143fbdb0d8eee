package pgtest

import (
	"context"
	"errors"
	"flag"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/processors/postgres"
)

// skipExamples keeps examples from running where there is no server, because an example cannot skip
// itself.
func skipExamples() error {
	_, err := findServer()
	url := os.Getenv(envURL)
	if url == "" && err == nil || url != "" && url != noServer || os.Getenv(envRequire) == "1" {
		return nil
	}
	flag.Parse()
	skip := flag.Lookup("test.skip")
	pattern := "^Example"
	if given := skip.Value.String(); given != "" {
		pattern = given + "|" + pattern
	}
	return skip.Value.Set(pattern)
}

// ExampleDatabase returns a pool on a database of its own with the tables of this build, and what
// ends both.
func ExampleDatabase() (pool *pgxpool.Pool, done func()) {
	ctx := context.Background()
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	must(startShared())
	name, u, err := nextDatabase(shared.url)
	must(err)
	run := func(sql string) {
		conn, err := pgx.Connect(ctx, shared.url)
		must(err)
		_, err = conn.Exec(ctx, sql)
		must(errors.Join(err, conn.Close(ctx)))
	}
	run("CREATE DATABASE " + name)
	pool, err = pgxpool.New(ctx, u)
	must(err)
	_, err = postgres.Migrate(ctx, pool)
	must(err)
	return pool, func() {
		pool.Close()
		run("DROP DATABASE " + name)
	}
}
