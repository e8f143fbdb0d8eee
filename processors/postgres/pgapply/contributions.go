package pgapply

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
)

// Contributions are rows that are written once and never change, such as the entries of a ledger:
// what they add up to is derived.
type Contributions struct {
	table         Table
	add, compared string
}

// NewContributions returns the contributions of a table, whose key is the ledger and the id of a
// contribution. Columns have an equality operator: jsonb has one, and json has not.
func NewContributions(t Table) (*Contributions, error) {
	if err := t.check(); err != nil {
		return nil, fmt.Errorf("pgapply: contributions of table %q: %w", t.Name, err)
	}
	all := slices.Concat(t.Key, t.Columns)
	same := "true"
	if len(t.Columns) > 0 {
		same = each(t.Columns, len(t.Key)+1, "%s IS NOT DISTINCT FROM $%d", " AND ")
	}
	return &Contributions{
		table: t,
		add: fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s) ON CONFLICT (%s) DO NOTHING", t.name(), columns(all...), parameters(len(all)),
			columns(t.Key...)),
		compared: fmt.Sprintf("SELECT %s FROM %s WHERE %s", same, t.name(), each(t.Key, 1, "%s = $%d", " AND ")),
	}, nil
}

// Add writes a contribution: Applied, Duplicate if it is there with the same values, or Conflict if
// it is there with others.
func (c *Contributions) Add(ctx context.Context, tx pgx.Tx, values ...any) (Outcome, error) {
	fail := func(err error) (Outcome, error) {
		return 0, fmt.Errorf("pgapply: add a contribution to table %q: %w", c.table.Name, err)
	}
	if err := c.table.count(values); err != nil {
		return fail(err)
	}
	// Both statements are sent at once. The second one is of use for what is there already, and is
	// always run: a column that cannot be compared is to show at the first contribution, and not at
	// the first duplicate.
	statements := &pgx.Batch{}
	statements.Queue(c.add, values...)
	statements.Queue(c.compared, values...)
	results := tx.SendBatch(ctx, statements)
	tag, err := results.Exec()
	same := false
	if err == nil {
		err = results.QueryRow().Scan(&same)
	}
	if closeErr := results.Close(); err == nil {
		err = closeErr
	}
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return fail(errCameAndWent)
	case err != nil:
		return fail(err)
	case tag.RowsAffected() == 1:
		return Applied, nil
	case same:
		return Duplicate, nil
	}
	return Conflict, nil
}
