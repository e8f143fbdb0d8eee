package pgapply

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// triesMax bounds how often an effect looks again because a row has come or gone between two
// statements.
const triesMax = 10

// errCameAndWent is the error of an effect that finds a row at one statement, and none at the next.
// A trigger that drops the row has the same result each time.
var errCameAndWent = topology.Fail(topology.Transient, schemas.Reason("the row was there for one statement and not for the next; others delete it, or a trigger drops it"))

// Outcome is what became of an effect. The package documentation has the rules.
type Outcome uint8

// The outcomes.
const (
	Applied Outcome = iota + 1
	Duplicate
	Stale
	Gap
	Conflict
	Illegal
)

var outcomeNames = [...]string{
	Applied: "applied", Duplicate: "duplicate", Stale: "stale", Gap: "gap", Conflict: "conflict", Illegal: "illegal",
}

// String returns the outcome in lower case.
func (o Outcome) String() string {
	if o < Applied || o > Illegal {
		return "outcome(" + strconv.Itoa(int(o)) + ")"
	}
	return outcomeNames[o]
}

// Table names a table and those of its columns that are written.
type Table struct {
	// Name is the table, with its schema if need be: "read.accounts".
	Name string
	// Key are the columns of its primary key, or of a unique constraint.
	Key []string
	// Columns are the other columns.
	Columns []string
}

// check says all that is wrong with the table, whose further columns are given.
func (t Table) check(further ...string) error {
	var errs []error
	if t.Name == "" {
		errs = append(errs, errors.New("the table has no name"))
	}
	if len(t.Key) == 0 {
		errs = append(errs, errors.New("the table has no key"))
	}
	all := slices.Concat(t.Key, t.Columns, further)
	for i, c := range all {
		if c == "" {
			errs = append(errs, errors.New(`a column is called ""`))
		} else if slices.Contains(all[:i], c) {
			errs = append(errs, fmt.Errorf("the column %q is there twice", c))
		}
	}
	return errors.Join(errs...)
}

func (t Table) name() string { return pgx.Identifier(strings.Split(t.Name, ".")).Sanitize() }

// columns returns the names of columns for SQL.
func columns(names ...string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = pgx.Identifier{n}.Sanitize()
	}
	return strings.Join(quoted, ", ")
}

// each returns a text for every column, with its number from first on: "a = $1 AND b = $2" for the
// form "%s = $%d".
func each(names []string, first int, form, separator string) string {
	texts := make([]string, len(names))
	for i, n := range names {
		texts[i] = fmt.Sprintf(form, pgx.Identifier{n}.Sanitize(), first+i)
	}
	return strings.Join(texts, separator)
}

// parameters returns "$1, $2, ..., $n".
func parameters(n int) string {
	texts := make([]string, n)
	for i := range texts {
		texts[i] = "$" + strconv.Itoa(i+1)
	}
	return strings.Join(texts, ", ")
}

// count says whether there is a value for each column.
func (t Table) count(values []any) error {
	if want := len(t.Key) + len(t.Columns); len(values) != want {
		return fmt.Errorf("%d values for the %d columns %s", len(values), want, columns(slices.Concat(t.Key, t.Columns)...))
	}
	return nil
}
