// Command payments is a payment service with all that stands behind it: from the HTTP request to
// the read model, each request has one effect. README.md explains it and says how to run it.
//
//	payments migrate     creates the tables
//	payments service     answers HTTP requests
//	payments relay       publishes the steps that the service has stored
//	payments topology    decides which steps are valid, and keeps the balances
//	payments sink        writes the decisions and balances to the read model
//
// The database is that of -database, or of DATABASE_URL. The exit code is 0, 1 if a process has
// failed and can be started again, or 2 if the command line is wrong. Those of payments topology
// are the exit codes of onceward.Run.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/txn"
)

func main() { os.Exit(run(os.Args[1:], os.Stderr)) }

// settings are the flags. All processes of one installation have the same database, brokers and
// prefix.
type settings struct {
	database, brokers, prefix string
	listen                    string
	stateDir                  string
	instance                  string
}

// connections is how many connections to the database a process has at most.
const connections = 8

// run runs a command line and returns the exit code.
func run(args []string, stderr io.Writer) (code int) {
	var s settings
	flags := flag.NewFlagSet("payments migrate|service|relay|topology|sink", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&s.database, "database", "", "`URL` of the database, by default DATABASE_URL")
	flags.StringVar(&s.brokers, "brokers", "localhost:9092", "Kafka brokers, `host:port,...`")
	flags.StringVar(&s.prefix, "prefix", "payments-", "beginning of the names of topics and groups")
	flags.StringVar(&s.listen, "listen", "127.0.0.1:8080", "service: `address` of the HTTP server")
	flags.StringVar(&s.stateDir, "state-dir", "state", "topology: `directory` of this instance alone")
	flags.StringVar(&s.instance, "instance", "", "sink: `name` that this instance keeps when it is started again")
	if len(args) == 0 {
		flags.Usage()
		return onceward.ExitUsage
	}
	process := args[0]
	if err := flags.Parse(args[1:]); err != nil {
		return onceward.ExitUsage
	}
	if process == "topology" {
		return onceward.Run(topicsOf(s.prefix).topology,
			txn.Config{Brokers: s.brokerList(), StateDir: s.stateDir, Logger: slog.Default()})
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process
	config, err := pgxpool.ParseConfig(cmp.Or(s.database, os.Getenv("DATABASE_URL")))
	if err != nil { // the error could quote a password
		fmt.Fprintln(stderr, "payments: -database or DATABASE_URL is no URL such as postgres://user@host/name")
		return onceward.ExitUsage
	}
	config.MaxConns = connections
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		fmt.Fprintln(stderr, "payments:", err)
		return onceward.ExitFailed
	}
	defer pool.Close()
	switch process {
	case "migrate":
		err = migrate(ctx, pool)
	case "service":
		err = s.service(ctx, pool)
	case "relay":
		err = s.relay(ctx, pool)
	case "sink":
		err = s.sink(ctx, pool)
	default:
		flags.Usage()
		return onceward.ExitUsage
	}
	if err != nil {
		fmt.Fprintln(stderr, "payments:", err)
		return onceward.ExitFailed
	}
	return onceward.ExitDone
}

func (s settings) brokerList() []string { return strings.Split(s.brokers, ",") }
