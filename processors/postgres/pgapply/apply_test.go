package pgapply_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/processors/postgres"
	"github.com/onceward/onceward/processors/postgres/internal/pgtest"
	"github.com/onceward/onceward/processors/postgres/pgapply"
	"github.com/onceward/onceward/processors/transition"
	"github.com/onceward/onceward/topology"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// do runs one effect in a transaction of its own.
func do(t testing.TB, db *pgtest.Database, f func(tx pgx.Tx) (pgapply.Outcome, error)) (o pgapply.Outcome) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) (err error) {
		o, err = f(tx)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

var accounts = pgapply.Table{Name: "public.accounts", Key: []string{"bank", "id"}, Columns: []string{"owner", "Note"}}

const accountsTable = `CREATE TABLE accounts (bank int, id text, owner text, "Note" jsonb, v bigint, PRIMARY KEY (bank, id))`

// TestVersions: the version of a row only moves forward, by one, and only what is applied changes
// it. Rows of the failure matrix: older version after newer; gap.
func TestVersions(t *testing.T) {
	db := pgtest.Empty(t)
	db.Exec(t, accountsTable)
	dense, err := pgapply.NewVersions(accounts, "v")
	if err != nil {
		t.Fatal(err)
	}
	sparse, err := pgapply.NewVersions(accounts, "v", pgapply.Sparse())
	if err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct {
		versions *pgapply.Versions
		version  int64
		want     pgapply.Outcome
		stored   int64
	}{
		{dense, 5, pgapply.Applied, 5}, {dense, 5, pgapply.Duplicate, 5}, {dense, 4, pgapply.Stale, 5}, {dense, 7, pgapply.Gap, 5},
		{dense, 6, pgapply.Applied, 6}, {dense, 7, pgapply.Applied, 7}, {sparse, 20, pgapply.Applied, 20}, {sparse, 20, pgapply.Duplicate, 20},
		{sparse, 19, pgapply.Stale, 20},
	} {
		got := do(t, db, func(tx pgx.Tx) (pgapply.Outcome, error) {
			return step.versions.Put(t.Context(), tx, step.version, 1, "a", fmt.Sprint("owner ", i), `{"n": 1}`)
		})
		if got != step.want {
			t.Errorf("step %d: version %d is %s, want %s", i, step.version, got, step.want)
		}
		if n := db.Int(t, "SELECT v FROM accounts"); n != step.stored {
			t.Errorf("step %d: the row has version %d", i, n)
		}
		if changed := db.Int(t, "SELECT count(*) FROM accounts WHERE owner = $1", fmt.Sprint("owner ", i)) == 1; changed != (got == pgapply.Applied) {
			t.Errorf("step %d: changed is %v after %s", i, changed, got)
		}
	}
}

// TestNaiveUpsert is the negative control: an upsert without versions ends with whatever came last.
func TestNaiveUpsert(t *testing.T) {
	db := pgtest.Empty(t)
	db.Exec(t, accountsTable)
	for _, version := range []int{1, 2, 1} {
		db.Exec(t, `INSERT INTO accounts VALUES (1, 'a', $1, NULL, $2) ON CONFLICT (bank, id) DO UPDATE SET owner = EXCLUDED.owner, v = EXCLUDED.v`,
			fmt.Sprint("owner ", version), version)
	}
	if n := db.Int(t, "SELECT v FROM accounts"); n != 1 {
		t.Errorf("the row has version %d", n)
	}
}

// TestContributions: a contribution counts once, and one with other values is a conflict.
func TestContributions(t *testing.T) {
	db := pgtest.Empty(t)
	db.Exec(t, "CREATE TABLE entries (ledger text, id text, cents numeric, note text, PRIMARY KEY (ledger, id))")
	entries, err := pgapply.NewContributions(pgapply.Table{Name: "entries", Key: []string{"ledger", "id"}, Columns: []string{"cents", "note"}})
	if err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct {
		ledger, id, cents string
		note              any
		want              pgapply.Outcome
	}{
		{"l", "a", "10", nil, pgapply.Applied}, {"l", "a", "10.00", nil, pgapply.Duplicate}, {"l", "a", "11", nil, pgapply.Conflict},
		{"l", "a", "10", "note", pgapply.Conflict}, {"m", "a", "11", nil, pgapply.Applied}, {"l", "b", "5", "x", pgapply.Applied},
	} {
		got := do(t, db, func(tx pgx.Tx) (pgapply.Outcome, error) {
			return entries.Add(t.Context(), tx, step.ledger, step.id, step.cents, step.note)
		})
		if got != step.want {
			t.Errorf("step %d is %s, want %s", i, got, step.want)
		}
	}
	if n := db.Int(t, "SELECT sum(cents)::bigint FROM entries"); n != 26 {
		t.Errorf("the sum is %d", n)
	}
	keys, err := pgapply.NewContributions(pgapply.Table{Name: "entries", Key: []string{"ledger", "id"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []pgapply.Outcome{pgapply.Applied, pgapply.Duplicate} {
		if got := do(t, db, func(tx pgx.Tx) (pgapply.Outcome, error) { return keys.Add(t.Context(), tx, "n", "a") }); got != want {
			t.Errorf("without columns it is %s, want %s", got, want)
		}
	}
}

// TestNaiveSum is the negative control of contributions: a sum that each delivery adds to counts a
// copy again.
func TestNaiveSum(t *testing.T) {
	db := pgtest.Empty(t)
	db.Exec(t, "CREATE TABLE entries (id text PRIMARY KEY, cents bigint); CREATE TABLE sums (cents bigint); INSERT INTO sums VALUES (0)")
	entries, err := pgapply.NewContributions(pgapply.Table{Name: "entries", Key: []string{"id"}, Columns: []string{"cents"}})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // deliveries
		db.Exec(t, "UPDATE sums SET cents = cents + 10")
		do(t, db, func(tx pgx.Tx) (pgapply.Outcome, error) { return entries.Add(t.Context(), tx, "a", 10) })
	}
	if naive, kept := db.Int(t, "SELECT cents FROM sums"), db.Int(t, "SELECT sum(cents)::bigint FROM entries"); naive != 20 || kept != 10 {
		t.Errorf("the naive sum is %d, want 20; that of contributions is %d, want 10", naive, kept)
	}
}

// TestNaiveState is the negative control of transitions: a state that each event overwrites goes
// back when an event comes again.
func TestNaiveState(t *testing.T) {
	db := pgtest.Empty(t)
	db.Exec(t, ordersTable)
	db.Exec(t, "CREATE TABLE naive (state text); INSERT INTO naive VALUES ('')")
	m := newOrders(t)
	placed, paid := pgapply.Transition{To: "placed", Version: 1}, pgapply.Transition{From: "placed", To: "paid", Version: 2}
	for _, event := range []pgapply.Transition{placed, paid, placed} {
		db.Exec(t, "UPDATE naive SET state = $1", event.To)
		do(t, db, func(tx pgx.Tx) (pgapply.Outcome, error) { return m.Move(t.Context(), tx, event, "o1", "") })
	}
	if n := db.Int(t, "SELECT count(*) FROM naive WHERE state = 'placed'"); n != 1 {
		t.Error("the naive state has not gone back")
	}
	if n := db.Int(t, "SELECT count(*) FROM orders WHERE state = 'paid'"); n != 1 {
		t.Error("the state has gone back")
	}
}

// TestRowIsDropped: a trigger that drops the row is an error, and the effect does not look for the
// row for ever.
func TestRowIsDropped(t *testing.T) {
	db := pgtest.Empty(t)
	db.Exec(t, ordersTable)
	db.Exec(t, `CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
		CREATE TRIGGER nothing BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION nothing()`)
	table := pgapply.Table{Name: "orders", Key: []string{"id"}, Columns: []string{"note"}}
	versions, versionsErr := pgapply.NewVersions(table, "v")
	contributions, contributionsErr := pgapply.NewContributions(table)
	if versionsErr != nil || contributionsErr != nil {
		t.Fatal(versionsErr, contributionsErr)
	}
	m := newOrders(t)
	for name, f := range map[string]func(tx pgx.Tx) (pgapply.Outcome, error){
		"versions":      func(tx pgx.Tx) (pgapply.Outcome, error) { return versions.Put(t.Context(), tx, 1, "o1", "") },
		"contributions": func(tx pgx.Tx) (pgapply.Outcome, error) { return contributions.Add(t.Context(), tx, "o1", "") },
		"transitions": func(tx pgx.Tx) (pgapply.Outcome, error) {
			return m.Move(t.Context(), tx, pgapply.Transition{To: "placed", Version: 1}, "o1", "")
		},
	} {
		err := pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
			_, err := f(tx)
			return err
		})
		if postgres.ClassOf(err) != topology.Transient || !strings.Contains(fmt.Sprint(err), "a trigger drops it") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestNoEquality: a column that cannot be compared shows at the first contribution.
func TestNoEquality(t *testing.T) {
	db := pgtest.Empty(t)
	db.Exec(t, "CREATE TABLE entries (id text PRIMARY KEY, body json)")
	entries, err := pgapply.NewContributions(pgapply.Table{Name: "entries", Key: []string{"id"}, Columns: []string{"body"}})
	if err != nil {
		t.Fatal(err)
	}
	err = pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
		_, err := entries.Add(t.Context(), tx, "a", "{}")
		return err
	})
	if postgres.ClassOf(err) != topology.Config {
		t.Error(err)
	}
}

var orders = transition.Machine[string]{
	Initial: []string{"placed"},
	Next:    map[string][]string{"placed": {"paid", "cancelled"}, "paid": {"shipped", "paid"}, "shipped": nil, "cancelled": nil},
}

const ordersTable = "CREATE TABLE orders (id text PRIMARY KEY, note text, state text, v bigint)"

func newOrders(t *testing.T) *pgapply.Transitions {
	t.Helper()
	m, err := pgapply.NewTransitions(pgapply.Table{Name: "orders", Key: []string{"id"}, Columns: []string{"note"}}, "state", "v", orders)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestTransitions: a row moves as the machine allows, and what does not apply says why.
func TestTransitions(t *testing.T) {
	db := pgtest.Empty(t)
	db.Exec(t, ordersTable)
	m := newOrders(t)
	for i, step := range []struct {
		move pgapply.Transition
		want pgapply.Outcome
	}{
		{pgapply.Transition{From: "placed", To: "paid", Version: 4}, pgapply.Gap}, // the row is missing
		{pgapply.Transition{To: "paid", Version: 3}, pgapply.Illegal},
		{pgapply.Transition{To: "placed", Version: 3}, pgapply.Applied},
		{pgapply.Transition{To: "placed", Version: 3}, pgapply.Duplicate},
		{pgapply.Transition{From: "placed", To: "lost", Version: 4}, pgapply.Illegal},
		{pgapply.Transition{From: "lost", To: "paid", Version: 4}, pgapply.Illegal},
		{pgapply.Transition{From: "placed", To: "shipped", Version: 4}, pgapply.Illegal},
		{pgapply.Transition{From: "paid", To: "shipped", Version: 5}, pgapply.Gap},
		{pgapply.Transition{From: "placed", To: "paid", Version: 4}, pgapply.Applied},
		{pgapply.Transition{From: "placed", To: "cancelled", Version: 4}, pgapply.Conflict},
		{pgapply.Transition{From: "placed", To: "cancelled", Version: 5}, pgapply.Conflict},
		{pgapply.Transition{To: "placed", Version: 3}, pgapply.Stale},
		{pgapply.Transition{From: "paid", To: "paid", Version: 5}, pgapply.Applied},
		{pgapply.Transition{From: "paid", To: "shipped", Version: 6}, pgapply.Applied},
	} {
		note := fmt.Sprint("step ", i)
		got := do(t, db, func(tx pgx.Tx) (pgapply.Outcome, error) { return m.Move(t.Context(), tx, step.move, "o1", note) })
		if got != step.want {
			t.Errorf("step %d: %+v is %s, want %s", i, step.move, got, step.want)
		}
		if changed := db.Int(t, "SELECT count(*) FROM orders WHERE note = $1", note) == 1; changed != (got == pgapply.Applied) {
			t.Errorf("step %d: changed is %v after %s", i, changed, got)
		}
	}
	if n := db.Int(t, "SELECT count(*) FROM orders WHERE state = 'shipped' AND v = 6"); n != 1 {
		t.Error("the order is elsewhere")
	}
}

// TestConcurrentCopiesOfAnEffect: of 20 copies at the same time one is applied, also of the one
// that creates the row. Row of the failure matrix: concurrent duplicate on two instances.
func TestConcurrentCopiesOfAnEffect(t *testing.T) {
	db := pgtest.Empty(t)
	db.Exec(t, accountsTable)
	db.Exec(t, ordersTable)
	versions, err := pgapply.NewVersions(accounts, "v")
	if err != nil {
		t.Fatal(err)
	}
	contributions, err := pgapply.NewContributions(accounts)
	if err != nil {
		t.Fatal(err)
	}
	m := newOrders(t)
	for name, f := range map[string]func(tx pgx.Tx) (pgapply.Outcome, error){
		"versions":      func(tx pgx.Tx) (pgapply.Outcome, error) { return versions.Put(t.Context(), tx, 1, 1, "a", "o", nil) },
		"contributions": func(tx pgx.Tx) (pgapply.Outcome, error) { return contributions.Add(t.Context(), tx, 2, "a", "o", nil) },
		"transitions": func(tx pgx.Tx) (pgapply.Outcome, error) {
			return m.Move(t.Context(), tx, pgapply.Transition{To: "placed", Version: 1}, "o1", "")
		},
	} {
		outcomes := make(chan pgapply.Outcome, 20)
		var copies sync.WaitGroup
		for range cap(outcomes) {
			copies.Go(func() {
				var o pgapply.Outcome
				if err := pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) (err error) {
					o, err = f(tx)
					return err
				}); err != nil {
					t.Error(err)
				}
				outcomes <- o
			})
		}
		copies.Wait()
		close(outcomes)
		counted := map[pgapply.Outcome]int{}
		for o := range outcomes {
			counted[o]++
		}
		if counted[pgapply.Applied] != 1 || counted[pgapply.Duplicate] != 19 {
			t.Errorf("%s: %v", name, counted)
		}
	}
}

// TestMistakes: bad declarations and calls are told what is wrong with them.
func TestMistakes(t *testing.T) {
	for want, try := range map[string]func() error{
		"the table has no name": func() error {
			_, err := pgapply.NewVersions(pgapply.Table{Key: []string{"id"}}, "v")
			return err
		},
		"the table has no key": func() error {
			_, err := pgapply.NewContributions(pgapply.Table{Name: "t"})
			return err
		},
		`the column "id" is there twice`: func() error {
			_, err := pgapply.NewVersions(pgapply.Table{Name: "t", Key: []string{"id"}}, "id")
			return err
		},
		`a column is called ""`: func() error {
			_, err := pgapply.NewVersions(pgapply.Table{Name: "t", Key: []string{"id"}}, "")
			return err
		},
		"the machine has no initial state": func() error {
			_, err := pgapply.NewTransitions(accounts, "s", "v", transition.Machine[string]{})
			return err
		},
		`"b" is no key of Next`: func() error {
			_, err := pgapply.NewTransitions(accounts, "s", "v", transition.Machine[string]{Initial: []string{"a"}, Next: map[string][]string{"a": {"b"}}})
			return err
		},
		`1 values for the 4 columns "bank", "id", "owner", "Note"`: func() error {
			v, err := pgapply.NewVersions(accounts, "v")
			if err == nil {
				_, err = v.Put(t.Context(), nil, 1, "a")
			}
			return err
		},
	} {
		if err := try(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
