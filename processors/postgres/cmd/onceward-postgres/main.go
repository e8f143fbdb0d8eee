// Command onceward-postgres shows and repairs what the packages of processors/postgres keep in
// PostgreSQL. It also creates the tables.
//
//	queue     entries of pgqueue
//	outbox    entries of pgoutbox
//	sink      offsets and quarantine of pgsink
//	requests  requests of pgrequests, and those whose outcome is unknown
//	inbox     marks of pginbox
//
// Examples:
//
//	onceward-postgres migrate
//	onceward-postgres queue list billing --status QUARANTINED
//	onceward-postgres queue show billing 17 --payload
//	onceward-postgres queue requeue billing 17 --reason "the gateway is back"
//	onceward-postgres outbox list payments --failing
//	onceward-postgres sink list balances
//	onceward-postgres requests list payments
//	onceward-postgres inbox clean billing
//
// The database is that of --url, of DATABASE_URL, or of PGHOST and the other variables of libpq. A
// URL in the environment keeps its password out of the list of processes.
//
// Payloads and headers are shown where --payload asks for them, and nowhere else.
//
// The exit code is 0, 1 if something has failed, or 2 if the command line is wrong.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/processors/postgres"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

const (
	description = "Show and repair queues, outboxes, sinks, requests and inboxes in PostgreSQL."
	helpWidth   = 100
)

// commands is the command line.
type commands struct {
	URL      string           `name:"url" env:"DATABASE_URL" placeholder:"URL" help:"Database, such as postgres://user@host/name; by default that of PGHOST, PGDATABASE and so on."`
	Migrate  migrateCommand   `cmd:"" help:"Create the tables, or bring them up to date."`
	Queue    queueCommands    `cmd:"" help:"Entries of a queue (pgqueue)."`
	Outbox   outboxCommands   `cmd:"" help:"Entries of an outbox (pgoutbox)."`
	Sink     sinkCommands     `cmd:"" help:"Offsets and quarantine of a sink (pgsink)."`
	Requests requestsCommands `cmd:"" help:"Requests of a service (pgrequests)."`
	Inbox    inboxCommands    `cmd:"" help:"Marks of a service (pginbox)."`
}

// process is what commands have to do with.
type process struct {
	ctx  context.Context // here, because kong calls the commands
	pool *pgxpool.Pool
	out  io.Writer
}

// usageError is an error of the command line.
type usageError struct{ error }

// run runs a command line and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	err := parseAndRun(ctx, args, stdout, stderr)
	if err == nil || errors.Is(err, errHelp) {
		return 0
	}
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(stderr, "onceward-postgres: %s\n", strings.TrimSpace(line))
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && (e.Code == "42P01" || e.Code == "3F000") {
		fmt.Fprintln(stderr, "onceward-postgres migrate creates the tables")
	}
	if _, ok := errors.AsType[usageError](err); ok {
		return 2
	}
	return 1
}

// errHelp ends a command line that asks for help.
var errHelp = errors.New("help was shown")

func parseAndRun(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	var grammar commands
	parser, err := kong.New(&grammar, kong.Name("onceward-postgres"), kong.Description(description), kong.Writers(stdout, stderr),
		kong.ConfigureHelp(kong.HelpOptions{NoExpandSubcommands: true, WrapUpperBound: helpWidth}), kong.Exit(func(int) { panic(errHelp) }))
	if err != nil {
		return fmt.Errorf("the command line of this program: %w", err)
	}
	defer func() { // kong exits once it has shown help
		if v := recover(); v != nil {
			if e, ok := v.(error); !ok || !errors.Is(e, errHelp) {
				panic(v)
			}
			err = errHelp
		}
	}()
	selected, err := parser.Parse(args)
	if err != nil {
		return usageError{fmt.Errorf("%w; --help says what is possible", err)}
	}
	config, err := pgxpool.ParseConfig(grammar.URL)
	if err != nil {
		return usageError{errors.New("--url or DATABASE_URL: it is no connection URL, such as postgres://user@host/name")} // the error could quote a password
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	return selected.Run(&process{ctx: ctx, pool: pool, out: stdout})
}

// migrateCommand creates the tables.
type migrateCommand struct{}

// Help is for --help.
func (migrateCommand) Help() string {
	return "Instances can run meanwhile. The role needs the right to create a schema, or owns an empty schema onceward."
}

// Run is called by kong.
func (migrateCommand) Run(p *process) error {
	n, err := postgres.Migrate(p.ctx, p.pool)
	if err != nil {
		return err
	}
	fmt.Fprintf(p.out, "%d migrations have run\n", n)
	return nil
}
