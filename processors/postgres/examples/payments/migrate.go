package main

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/processors/postgres"
)

// schema creates the tables of this program where they are missing. A service in production uses a
// migration tool; postgres.Migrations has the steps of Onceward's tables for such a tool.
//
//go:embed schema.sql
var schema string

// schemaLock is the key of the lock that lets several processes migrate at once.
const schemaLock = 0x7061796d656e7473 // "payments"

// migrate creates Onceward's tables and those of this program.
func migrate(ctx context.Context, pool *pgxpool.Pool) error {
	if _, err := postgres.Migrate(ctx, pool); err != nil {
		return err
	}
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", int64(schemaLock)); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, schema)
		return err
	})
	if err != nil {
		return fmt.Errorf("creating the tables: %w", err)
	}
	return nil
}
