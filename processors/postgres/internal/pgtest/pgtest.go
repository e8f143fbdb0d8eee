// Package pgtest gives tests a PostgreSQL server and databases on it.
//
// # What it is for
//
// Tests on PostgreSQL run wherever a server can be had:
//
//   - ONCEWARD_POSTGRES_URL names one, with a role that can create databases; none says that there
//     is none;
//   - otherwise an installed server is started (Debian package postgresql), once for the process.
//     Its data is in a temporary directory, and it listens only on a Unix socket there. If the
//     process runs as root, the server runs as the user postgres or as the user without rights.
//
// Without either, the tests are skipped, and one line per package on standard error says so.
// ONCEWARD_REQUIRE_POSTGRES=1 makes that a failure. A server that is there and does not start is
// always a failure.
//
// # Lifetimes
//
// A package calls [Main] in TestMain, which stops the server after the last test. The kernel ends
// it with the process that has started it. Each test has databases of its own ([New]), which are
// dropped at its end. A test that takes its server down starts one ([Own]).
//
// fsync is off unless ONCEWARD_POSTGRES_FSYNC=1 is set: tests end processes, never the machine.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/onceward/onceward/e2e/leaktest"
	"github.com/onceward/onceward/processors/postgres"
)

const (
	envURL     = "ONCEWARD_POSTGRES_URL"
	envRequire = "ONCEWARD_REQUIRE_POSTGRES"
	envFsync   = "ONCEWARD_POSTGRES_FSYNC"
)

// noServer is the URL that keeps tests from starting a server, for runs that need Go alone.
const noServer = "none"

// errUnwanted: the environment says that no server is to be used.
var errUnwanted = fmt.Errorf("%w: %s is %s", errUnavailable, envURL, noServer)

// errUnavailable: there is no server to be had.
var errUnavailable = errors.New("there is no PostgreSQL server")

// errNotInstalled: none is installed, and the environment names none.
var errNotInstalled = fmt.Errorf("%w: none is installed (Debian package postgresql), and %s is not set", errUnavailable, envURL)

// shared is the server of the process: one for all tests is the point of it.
var shared struct {
	once   sync.Once
	url    string
	server *Server // nil where the environment names one
	err    error
	notice sync.Once
}

// Main runs a package's tests, stops the server that they shared, looks for leaked goroutines and
// exits the process. Call it from TestMain, which has nothing to do afterwards.
func Main(m *testing.M, leaks ...goleak.Option) { os.Exit(Run(m, leaks...)) }

// Run is [Main] for a TestMain that has more to do: it returns the code to exit with, and runs
// whatever runs tests.
func Run(m interface{ Run() int }, leaks ...goleak.Option) int {
	if err := skipExamples(); err != nil {
		fmt.Fprintln(os.Stderr, "pgtest:", err)
		return 1
	}
	code := m.Run()
	shared.once.Do(func() { shared.err = errors.New("pgtest: the tests are over") })
	if shared.server != nil {
		if err := shared.server.close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	if code == 0 {
		if err := leaktest.Find(leaktest.Patience, leaks...); err != nil {
			fmt.Fprintln(os.Stderr, "pgtest: goroutines outlive the tests:", err)
			code = 1
		}
	}
	return code
}

// Database is a database of one test.
type Database struct {
	// URL is the connection string.
	URL string
	// Pool is a pool of the test's own, which has nothing to do with what is tested.
	Pool *pgxpool.Pool

	name  string
	admin string // the connection string of the database that others are created from
}

// New returns a database with the tables of this build, for this test alone. Without a server the
// test is skipped, or fails where one is required.
func New(t testing.TB) *Database {
	t.Helper()
	db := Empty(t)
	if _, err := postgres.Migrate(t.Context(), db.Pool); err != nil {
		t.Fatal(err)
	}
	return db
}

// Empty is [New] without the tables.
func Empty(t testing.TB) *Database {
	t.Helper()
	skipWithout(t, startShared())
	return create(t, shared.url)
}

// startShared starts the server of the process, or finds the one that the environment names.
func startShared() error {
	shared.once.Do(func() {
		switch shared.url = os.Getenv(envURL); shared.url {
		case "":
		case noServer:
			shared.err = errUnwanted
			return
		default:
			return
		}
		if shared.server, shared.err = start(context.Background()); shared.err == nil { // it outlives the test
			shared.url = shared.server.url
		}
	})
	return shared.err
}

// skipWithout ends a test that got no server.
func skipWithout(t testing.TB, err error) {
	t.Helper()
	required := false
	if v := os.Getenv(envRequire); v != "" {
		var parseErr error
		if required, parseErr = strconv.ParseBool(v); parseErr != nil {
			t.Fatalf("pgtest: %s must be 0 or 1, not %q", envRequire, v)
		}
	}
	switch {
	case err == nil:
	case errors.Is(err, errUnavailable) && !required:
		shared.notice.Do(func() { fmt.Fprintln(os.Stderr, "NOT RUN: tests on PostgreSQL:", err) })
		t.Skip(err)
	default:
		t.Fatal(err)
	}
}

// numbers tell the databases of a process apart.
var numbers atomic.Int64

// nextDatabase returns the name of a new database and its connection string.
func nextDatabase(admin string) (name, connection string, err error) {
	u, err := url.Parse(admin)
	if err != nil {
		return "", "", fmt.Errorf("pgtest: %s is not a connection URL", envURL) // the error would quote it, with its password
	}
	name = fmt.Sprintf("onceward_%d_%d", os.Getpid(), numbers.Add(1))
	u.Path = "/" + name
	return name, u.String(), nil
}

func create(t testing.TB, admin string) *Database {
	t.Helper()
	name, u, err := nextDatabase(admin)
	if err != nil {
		t.Fatal(err)
	}
	db := &Database{URL: u, admin: admin, name: name}
	db.asAdmin(t, context.Background(), "CREATE DATABASE "+db.name)
	t.Cleanup(func() { db.asAdmin(t, context.Background(), "DROP DATABASE "+db.name+" WITH (FORCE)") })
	db.Pool = db.NewPool(t, nil)
	return db
}

// asAdmin runs a statement on the database that others are created from.
func (db *Database) asAdmin(t testing.TB, ctx context.Context, sql string, args ...any) {
	t.Helper()
	conn, err := pgx.Connect(ctx, db.admin)
	if err != nil {
		t.Errorf("pgtest: connect: %v", err)
		return
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, sql, args...); err != nil {
		t.Errorf("pgtest: %s: %v", sql, err)
	}
}

// NewPool returns another pool on the database, closed at the end of the test. The function may
// change its configuration.
func (db *Database) NewPool(t testing.TB, change func(c *pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	c, err := pgxpool.ParseConfig(db.URL)
	if err != nil {
		t.Fatal("pgtest: the connection string does not parse")
	}
	c.MaxConns = 30
	if change != nil {
		change(c)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// Exec runs statements.
func (db *Database) Exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	if _, err := db.Pool.Exec(context.WithoutCancel(t.Context()), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// Int returns the number that a query has for its answer.
func (db *Database) Int(t testing.TB, sql string, args ...any) (n int64) {
	t.Helper()
	if err := db.Pool.QueryRow(context.WithoutCancel(t.Context()), sql, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// Plan returns the plan of a statement.
func (db *Database) Plan(t testing.TB, sql string, args ...any) string {
	t.Helper()
	return db.lines(t, "EXPLAIN "+sql, args...)
}

// Executed runs a statement and returns its plan, with the numbers of rows that each step has read.
func (db *Database) Executed(t testing.TB, sql string, args ...any) string {
	t.Helper()
	return db.lines(t, "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) "+sql, args...)
}

// lines returns the rows of a query, each of one text.
func (db *Database) lines(t testing.TB, sql string, args ...any) string {
	t.Helper()
	rows, err := db.Pool.Query(t.Context(), sql, args...)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return strings.Join(lines, "\n")
}

// Terminate ends every session of the database that has the application name, as
// pg_terminate_backend does, and returns how many there were.
func (db *Database) Terminate(t testing.TB, application string) int64 {
	t.Helper()
	return db.Int(t, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = $1 AND application_name = $2`, db.name, application)
}

// Waiting returns how many sessions of the database wait for a lock.
func (db *Database) Waiting(t testing.TB) int64 {
	t.Helper()
	return db.Int(t, `SELECT count(*) FROM pg_stat_activity WHERE datname = $1 AND wait_event_type = 'Lock'`, db.name)
}

// Interrupted runs a statement in tx that sleeps, and ends its context when the database says that
// it does.
func (db *Database) Interrupted(ctx context.Context, t testing.TB, tx pgx.Tx) error {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		defer cancel()
		Await(t, "the statement sleeps", func() bool {
			return db.Int(t, `SELECT count(*) FROM pg_stat_activity WHERE datname = $1 AND wait_event = 'PgSleep'`, db.name) > 0
		})
	})
	defer watch.Wait()
	_, err := tx.Exec(ctx, "SELECT pg_sleep(3600)")
	return err
}
