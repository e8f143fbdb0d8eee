package postgres

import (
	"context"
	"embed"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Migration is one step from an empty database to the tables of this build.
type Migration struct {
	// Version counts from 1, without gaps.
	Version int
	// Name says what the step is about.
	Name string
	// SQL are its statements. They need the schema onceward.
	SQL string
}

//go:embed migrations/*.sql
var migrationFiles embed.FS

// Migrations returns all steps, in their order, for programs that bring them to the database by a
// tool of their own. Such a tool creates the schema onceward first, and keeps account of what it
// has run: [Migrate] does not know about it.
func Migrations() []Migration {
	entries, err := migrationFiles.ReadDir("migrations")
	if err != nil {
		panic("postgres: embedded migrations: " + err.Error()) // a build without its files
	}
	var all []Migration
	for _, e := range entries { // sorted by name
		sql, err := migrationFiles.ReadFile("migrations/" + e.Name())
		version, name, ok := strings.Cut(strings.TrimSuffix(e.Name(), ".sql"), "_")
		n, numErr := strconv.Atoi(version)
		if err != nil || numErr != nil || !ok || n != len(all)+1 {
			panic("postgres: embedded migration " + e.Name() + " has no place in the order")
		}
		all = append(all, Migration{Version: n, Name: name, SQL: string(sql)})
	}
	return all
}

// migrationLock is the key of the advisory lock under which tables change.
const migrationLock = 0x6f6e636577617264 // "onceward"

// Migrate brings the tables up to date and returns how many migrations it has run. All of them run
// in one transaction, under a lock, so that any number of instances can call it as they start. It
// needs the right to create a schema, or an empty schema onceward that the role owns.
//
// Tables of a later release are left as they are, without an error: an instance of the old release
// can start while the new one is rolled out.
func Migrate(ctx context.Context, pool *pgxpool.Pool) (ran int, err error) {
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", int64(migrationLock)); err != nil {
			return err
		}
		at, err := migratedTo(ctx, tx)
		if err != nil {
			return err
		}
		for _, m := range Migrations()[min(at, len(Migrations())):] {
			if _, err := tx.Exec(ctx, m.SQL); err != nil {
				return fmt.Errorf("migration %d (%s): %w", m.Version, m.Name, err)
			}
			if _, err := tx.Exec(ctx, "INSERT INTO onceward.migrations (version, name) VALUES ($1, $2)", m.Version, m.Name); err != nil {
				return fmt.Errorf("migration %d (%s): %w", m.Version, m.Name, err)
			}
			ran++
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("postgres: migrate: %w", err)
	}
	return ran, nil
}

// migratedTo returns the version of the tables, 0 of an empty database, whose table of migrations
// it creates.
func migratedTo(ctx context.Context, tx pgx.Tx) (version int, err error) {
	var known bool
	if err := tx.QueryRow(ctx, "SELECT to_regclass('onceward.migrations') IS NOT NULL").Scan(&known); err != nil {
		return 0, err
	}
	if !known {
		// CREATE SCHEMA IF NOT EXISTS needs the right to create one even where it is there.
		var schema bool
		if err := tx.QueryRow(ctx, "SELECT to_regnamespace('onceward') IS NOT NULL").Scan(&schema); err != nil {
			return 0, err
		}
		if !schema {
			if _, err := tx.Exec(ctx, "CREATE SCHEMA onceward"); err != nil {
				return 0, err
			}
		}
		_, err := tx.Exec(ctx, `CREATE TABLE onceward.migrations (
			version int PRIMARY KEY, name text NOT NULL, migrated_at timestamptz NOT NULL DEFAULT now())`)
		return 0, err
	}
	err = tx.QueryRow(ctx, "SELECT coalesce(max(version), 0) FROM onceward.migrations").Scan(&version)
	return version, err
}
