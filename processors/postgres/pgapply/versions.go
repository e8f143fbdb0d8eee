package pgapply

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
)

// Versions keeps rows that carry the version of their source.
type Versions struct {
	table     Table
	put, read string
}

// VersionsOption is an option of [NewVersions].
type VersionsOption func(s *versionsSettings)

type versionsSettings struct{ sparse bool }

// Sparse makes every higher version the next one, for sources whose versions have holes, such as
// positions in a log.
func Sparse() VersionsOption { return func(s *versionsSettings) { s.sparse = true } }

// NewVersions returns the rows of a table with a column for their versions, which is a bigint.
func NewVersions(t Table, version string, opts ...VersionsOption) (*Versions, error) {
	if err := t.check(version); err != nil {
		return nil, fmt.Errorf("pgapply: versions of table %q: %w", t.Name, err)
	}
	var set versionsSettings
	for _, o := range opts {
		o(&set)
	}
	v := columns(version)
	next := "t." + v + " + 1 = EXCLUDED." + v
	if set.sparse {
		next = "t." + v + " < EXCLUDED." + v
	}
	all := slices.Concat(t.Key, t.Columns, []string{version})
	return &Versions{
		table: t,
		put: fmt.Sprintf("INSERT INTO %s AS t (%s) VALUES (%s) ON CONFLICT (%s) DO UPDATE SET %s WHERE %s", t.name(), columns(all...),
			parameters(len(all)), columns(t.Key...), each(slices.Concat(t.Columns, []string{version}), 0, "%[1]s = EXCLUDED.%[1]s", ", "), next),
		read: fmt.Sprintf("SELECT %s FROM %s WHERE %s", v, t.name(), each(t.Key, 1, "%s = $%d", " AND ")),
	}, nil
}

// Put writes a version of a row: Applied, Duplicate, Stale or Gap. The first version of a key is
// applied whatever it is.
func (v *Versions) Put(ctx context.Context, tx pgx.Tx, version int64, values ...any) (Outcome, error) {
	fail := func(err error) (Outcome, error) {
		return 0, fmt.Errorf("pgapply: put a version into table %q: %w", v.table.Name, err)
	}
	if err := v.table.count(values); err != nil {
		return fail(err)
	}
	tag, err := tx.Exec(ctx, v.put, append(slices.Clone(values), version)...)
	if err != nil {
		return fail(err)
	}
	if tag.RowsAffected() == 1 {
		return Applied, nil
	}
	// The row that was in the way is locked, also where it has not changed.
	var at int64
	err = tx.QueryRow(ctx, v.read, values[:len(v.table.Key)]...).Scan(&at)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return fail(errCameAndWent)
	case err != nil:
		return fail(err)
	}
	switch {
	case version == at:
		return Duplicate, nil
	case version < at:
		return Stale, nil
	}
	return Gap, nil
}
