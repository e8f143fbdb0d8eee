package pgapply

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/processors/transition"
)

// Transitions move the state of rows as a machine allows.
type Transitions struct {
	table                Table
	machine              transition.Machine[string]
	lock, create, update string
}

// Transition is one step of a row.
type Transition struct {
	// From is the state that the row is left in, "" for one that begins.
	From string
	To   string
	// Version is one higher than that of the transition before it. The first one may have any.
	Version int64
}

// NewTransitions returns the rows of a table with a column for their state, which is text, and one
// for the version of the last transition, which is a bigint.
func NewTransitions(t Table, state, version string, m transition.Machine[string]) (*Transitions, error) {
	errs := []error{t.check(state, version)}
	if len(m.Initial) == 0 {
		errs = append(errs, errors.New("the machine has no initial state"))
	}
	states := slices.Clone(m.Initial)
	for _, next := range m.Next {
		states = append(states, next...)
	}
	slices.Sort(states)
	for _, s := range slices.Compact(states) {
		if _, ok := m.Next[s]; !ok || s == "" {
			errs = append(errs, fmt.Errorf("%q is no key of Next, which has every state, final ones with nil", s))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("pgapply: transitions of table %q: %w", t.Name, err)
	}
	all := slices.Concat(t.Key, t.Columns, []string{state, version})
	where := each(t.Key, 1, "%s = $%d", " AND ")
	return &Transitions{
		table: t, machine: m,
		lock: fmt.Sprintf("SELECT %s FROM %s WHERE %s FOR UPDATE", columns(state, version), t.name(), where),
		create: fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s) ON CONFLICT (%s) DO NOTHING", t.name(), columns(all...), parameters(len(all)),
			columns(t.Key...)),
		update: fmt.Sprintf("UPDATE %s SET %s WHERE %s", t.name(), each(all[len(t.Key):], len(t.Key)+1, "%s = $%d", ", "), where),
	}, nil
}

// Move moves a row: Applied, Duplicate, Stale, Gap, Conflict or Illegal.
func (m *Transitions) Move(ctx context.Context, tx pgx.Tx, t Transition, values ...any) (Outcome, error) {
	fail := func(err error) (Outcome, error) {
		return 0, fmt.Errorf("pgapply: move a row of table %q: %w", m.table.Name, err)
	}
	if err := m.table.count(values); err != nil {
		return fail(err)
	}
	for range triesMax {
		var state string
		var version int64
		err := tx.QueryRow(ctx, m.lock, values[:len(m.table.Key)]...).Scan(&state, &version)
		known := err == nil
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return fail(err)
		}
		if outcome := m.judge(t, state, version, known); outcome != Applied {
			return outcome, nil
		}
		statement := m.update
		if !known {
			statement = m.create
		}
		tag, err := tx.Exec(ctx, statement, append(slices.Clone(values), t.To, t.Version)...)
		if err != nil {
			return fail(err)
		}
		if tag.RowsAffected() == 1 {
			return Applied, nil
		}
		// Another transaction has created the row since it was looked for; now it is there to be
		// locked.
	}
	return fail(errCameAndWent)
}

// judge compares a transition with the row, if there is one.
func (m *Transitions) judge(t Transition, state string, version int64, known bool) Outcome {
	allowed := slices.Contains(m.machine.Next[t.From], t.To)
	if t.From == "" {
		allowed = slices.Contains(m.machine.Initial, t.To)
	}
	switch {
	case !allowed:
		return Illegal
	case !known && t.From == "":
		return Applied
	case !known:
		return Gap
	case t.Version < version:
		return Stale
	case t.Version == version && t.To == state:
		return Duplicate
	case t.Version == version:
		return Conflict
	case t.Version > version+1:
		return Gap
	case t.From != state:
		return Conflict
	}
	return Applied
}
