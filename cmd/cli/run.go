package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
	"github.com/onceward/onceward/txn/admin"
)

// runCommand runs a topology as one instance of its application.
type runCommand struct {
	selection
	Brokers     []string `required:"" placeholder:"HOST:PORT" env:"ONCEWARD_BROKERS" help:"Brokers to start from, with commas between them."`
	StateDir    string   `required:"" placeholder:"DIR" env:"ONCEWARD_STATE_DIR" help:"Directory of this instance, on a local disk; made if it is not there."`
	Application string   `placeholder:"ID" env:"ONCEWARD_APPLICATION" help:"Application id; default is the name of the pipeline."`
	Instance    string   `placeholder:"NAME" env:"ONCEWARD_INSTANCE" help:"Name of this instance among those of the application; default is made once and kept in the state directory."`
	Mode        string   `enum:"live,replay,backfill,repair" default:"live" placeholder:"MODE" env:"ONCEWARD_MODE" help:"Why records are processed: live, replay (which needs an application id of its own), backfill or repair; default ${default}."`
	ModeBefore  []string `enum:"live,replay,backfill,repair" placeholder:"MODE" env:"ONCEWARD_MODE_BEFORE" help:"Modes that the application has run in before, with commas between them, and whose state it takes over; stop every instance first."`

	connection

	Workers        int           `placeholder:"N" env:"ONCEWARD_WORKERS" help:"Number of workers; default is one for each CPU."`
	CommitInterval time.Duration `default:"100ms" placeholder:"DURATION" env:"ONCEWARD_COMMIT_INTERVAL" help:"The longest that a record waits for its commit; default ${default}."`
	ConnectTimeout time.Duration `default:"60s" placeholder:"DURATION" env:"ONCEWARD_CONNECT_TIMEOUT" help:"How long to wait for the brokers at the start; default ${default}."`

	StateMemory        byteSize      `default:"256MiB" placeholder:"SIZE" env:"ONCEWARD_STATE_MEMORY" help:"Memory of all databases of the instance together; default ${default}."`
	RestoreMemory      byteSize      `default:"64MiB" placeholder:"SIZE" env:"ONCEWARD_RESTORE_MEMORY" help:"Memory for what all restores together have read, beside that of the databases; default ${default}."`
	Compression        string        `enum:"none,gzip,snappy,lz4,zstd" default:"none" placeholder:"NAME" env:"ONCEWARD_COMPRESSION" help:"How what is written is compressed: none, gzip, snappy, lz4 or zstd; default ${default}."`
	SessionTimeout     time.Duration `default:"45s" placeholder:"DURATION" env:"ONCEWARD_SESSION_TIMEOUT" help:"How long the group waits for an instance that is gone before others take its tasks; default ${default}."`
	TransactionTimeout time.Duration `default:"10s" placeholder:"DURATION" env:"ONCEWARD_TRANSACTION_TIMEOUT" help:"How long a broker waits for an instance that is gone before it aborts its transactions; default ${default}."`

	Standbys    int      `placeholder:"N" env:"ONCEWARD_STANDBYS" help:"Warm copies of each task's state that other instances keep, so that one takes over at once; all instances should have the same number. Default is none."`
	StandbyRate byteSize `placeholder:"SIZE" env:"ONCEWARD_STANDBY_RATE" help:"The most that all copies together read of changelogs per second; default is no bound."`
	StandbyDisk byteSize `placeholder:"SIZE" env:"ONCEWARD_STANDBY_DISK" help:"Disk space of all copies from which on those that are not warm read no more; default is no bound."`
	Rack        string   `placeholder:"NAME" env:"ONCEWARD_RACK" help:"Place of the instance that fails as a whole, such as an availability zone. Copies are kept in another one than their task where that is possible."`

	Peers           string `placeholder:"ADDRESS" env:"ONCEWARD_PEERS" help:"HOST:PORT where other instances of the application connect, or off. Instances that watch each other take over at once from one that dies. Default is a free port of 127.0.0.1 if all brokers are at loopback addresses, else off."`
	PeersAdvertise  string `placeholder:"ADDRESS" env:"ONCEWARD_PEERS_ADVERTISE" help:"HOST:PORT at which other instances reach --peers; default is the same."`
	PeersSecretFile string `placeholder:"FILE" env:"ONCEWARD_PEERS_SECRET_FILE" help:"Secret that all instances share, of at least 16 bytes."`
	PeersCert       string `placeholder:"FILE" env:"ONCEWARD_PEERS_CERT" help:"Certificate of this instance for its peers (PEM)."`
	PeersKey        string `placeholder:"FILE" env:"ONCEWARD_PEERS_KEY" help:"Key of --peers-cert (PEM)."`
	PeersCA         string `name:"peers-ca" placeholder:"FILE" env:"ONCEWARD_PEERS_CA" help:"Authorities that sign the certificates of peers (PEM)."`

	InternalReplicas int16 `placeholder:"N" env:"ONCEWARD_INTERNAL_REPLICAS" help:"Replicas of changelogs, repartition topics and the rounds topic, which are created with as many and have to have at least as many; default is the cluster's."`
	InternalInSync   int   `name:"internal-min-in-sync" placeholder:"N" env:"ONCEWARD_INTERNAL_MIN_IN_SYNC" help:"Their min.insync.replicas, in the same way; default is the cluster's."`

	AcceptLostRows bool `env:"ONCEWARD_ACCEPT_LOST_ROWS" help:"Restore windows, sessions, series and ids even from a changelog that may have lost rows that are still needed; by default such a task stops."`

	RepairTransactions bool `env:"ONCEWARD_REPAIR_TRANSACTIONS" help:"Write the lost markers of own transactions that hang, where evidence says how they ended; takes ClusterAction. By default they are reported, for onceward transactions repair."`

	Remain      bool   `env:"ONCEWARD_REMAIN" help:"Keep the membership at the end, for a restart within the session timeout; by default the instance leaves."`
	FailFast    bool   `env:"ONCEWARD_FAIL_FAST" help:"End with the first task that stops, instead of when all have."`
	HTTP        string `name:"http" placeholder:"ADDRESS" env:"ONCEWARD_HTTP" help:"Where to serve /metrics, /healthz, /readyz and /console/: 127.0.0.1:PORT or unix:/PATH; default is nowhere."`
	HTTPExposed bool   `name:"http-exposed" env:"ONCEWARD_HTTP_EXPOSED" help:"Allow an address for --http that other machines reach, as :8080. Every client that reaches it can read the metrics, with the names of topics, tasks and nodes, and why tasks are stopped. The console then lists no dead letters."`

	ConsoleActions  bool `env:"ONCEWARD_CONSOLE_ACTIONS" help:"Let everyone who reaches the console redrive dead letters; by default it is read-only. Not with an exposed address."`
	ConsoleContents bool `env:"ONCEWARD_CONSOLE_CONTENTS" help:"Show keys and values of dead letters, and rows of stores, in the console. Not with an exposed address."`

	progressFlag
	LogLevel  string `enum:"debug,info,warn,error" default:"info" placeholder:"LEVEL" env:"ONCEWARD_LOG_LEVEL" help:"Least level that is logged, of debug, info, warn and error; default ${default}."`
	LogFormat string `enum:"text,json" default:"text" placeholder:"FORMAT" env:"ONCEWARD_LOG_FORMAT" help:"Form of the log, text or json; default ${default}."`
}

func (c *runCommand) Run(p *process) error {
	t, err := c.topology(p)
	if err != nil {
		return err
	}
	log, err := c.logger(p)
	if err != nil {
		return err
	}
	if err := c.checkTimes(); err != nil {
		return err
	}
	mode, err := topology.ParseMode(c.Mode)
	if err != nil {
		return usage("--mode: %w", err)
	}
	before := make([]topology.Mode, len(c.ModeBefore))
	for i, name := range c.ModeBefore {
		if before[i], err = topology.ParseMode(name); err != nil {
			return usage("--mode-before: %w", err)
		}
	}
	app, err := txn.New(t, txn.Config{
		Mode: mode, ModesBefore: before, Brokers: c.Brokers, StateDir: c.StateDir, Application: c.Application, Instance: c.Instance,
		Workers: c.Workers, CommitIntervalMax: c.CommitInterval, ConnectTimeout: c.ConnectTimeout,
		CacheBytes: int64(c.StateMemory), RestoreBytesMax: int64(c.RestoreMemory), Compression: txn.Compression(c.Compression),
		SessionTimeout: c.SessionTimeout, TransactionTimeout: c.TransactionTimeout,
		InternalReplicas: c.InternalReplicas, InternalMinInSync: c.InternalInSync, AcceptLostRows: c.AcceptLostRows,
		RepairTransactions: c.RepairTransactions, Standbys: c.Standbys, Rack: c.Rack,
		StandbyBytesPerSecondMax: int64(c.StandbyRate), StandbyDiskMax: int64(c.StandbyDisk),
		FailFast: c.FailFast, Remain: c.Remain, Logger: log, HTTP: c.HTTP, HTTPExposed: c.HTTPExposed, Security: c.security(),
		Console: c.console(),
		Peers: txn.Peers{
			Listen: c.Peers, Advertise: c.PeersAdvertise, SecretFile: c.PeersSecretFile,
			CertFile: c.PeersCert, KeyFile: c.PeersKey, CAFile: c.PeersCA,
		},
	})
	if err != nil {
		return wrongSettings(err)
	}
	ctx, release := untilSignal(p.ctx, log)
	defer release()
	if c.shown(p) {
		defer followRestores(ctx, app.Status, log)()
	}
	return c.run(ctx, app, t, log)
}

// console returns what the console shows and does. Clients of an exposed address can list dead
// letters only in a program that allows it (txn.Console.DeadLetters).
func (c *runCommand) console() txn.Console {
	out := txn.Console{Actions: c.ConsoleActions, Contents: c.ConsoleContents}
	if !c.HTTPExposed || out.Actions || out.Contents { // which are refused where the address is exposed
		out.DeadLetters = admin.ConsoleLetters(admin.Config{Brokers: c.Brokers, Security: c.security()})
	}
	return out
}

// checkTimes refuses a time of nothing, which would be the default to the runtime.
func (c *runCommand) checkTimes() error {
	var errs []error
	for _, t := range []struct {
		flag string
		of   time.Duration
	}{
		{"--commit-interval", c.CommitInterval}, {"--connect-timeout", c.ConnectTimeout}, {"--session-timeout", c.SessionTimeout},
		{"--transaction-timeout", c.TransactionTimeout},
	} {
		if t.of == 0 {
			errs = append(errs, usage("%s: %s is no time to wait; give more than 0s", t.flag, t.of))
		}
	}
	return errors.Join(errs...)
}

func (c *runCommand) run(ctx context.Context, app *txn.App, t *topology.Topology, log *slog.Logger) error {
	log.Info("starting", "topology", t.Name(), "application", app.Status().Application,
		"brokers", strings.Join(c.Brokers, ","), "state_dir", c.StateDir)
	err := app.Run(ctx)
	if _, ok := errors.AsType[*txn.ConfigError](err); ok {
		return wrongSettings(err) // a file that a setting names
	}
	totals := app.Status().Totals
	if err == nil {
		log.Info("stopped in order", "records", totals.Records, "outputs", totals.Outputs,
			"dead_letters", totals.DeadLetters, "commits", totals.Commits, "aborts", totals.Aborts)
	}
	return err
}

func (c *runCommand) logger(p *process) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		return nil, usage("--log-level: %w", err)
	}
	opts := &slog.HandlerOptions{Level: level}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(p.err, opts)), nil
	}
	return slog.New(slog.NewTextHandler(p.err, opts)), nil
}

// flagOf has the flags for the fields of txn.Config that can be wrong.
var flagOf = map[string]string{
	"Brokers":                  "--brokers",
	"StateDir":                 "--state-dir",
	"Application":              "--application",
	"Instance":                 "--instance",
	"Workers":                  "--workers",
	"CommitIntervalMax":        "--commit-interval",
	"ConnectTimeout":           "--connect-timeout",
	"CacheBytes":               "--state-memory",
	"RestoreBytesMax":          "--restore-memory",
	"SessionTimeout":           "--session-timeout",
	"TransactionTimeout":       "--transaction-timeout",
	"Standbys":                 "--standbys",
	"StandbyBytesPerSecondMax": "--standby-rate",
	"StandbyDiskMax":           "--standby-disk",
	"Rack":                     "--rack",
	"InternalReplicas":         "--internal-replicas",
	"InternalMinInSync":        "--internal-min-in-sync",
	"HTTP":                     "--http",
	"Console":                  "--console-actions, --console-contents",
	"Peers":                    "--peers",
	"Peers.Listen":             "--peers",
	"Peers.Advertise":          "--peers-advertise",
	"Peers.SecretFile":         "--peers-secret-file",
	"Peers.CertFile":           "--peers-cert",
	"Peers.KeyFile":            "--peers-key",
	"Peers.CAFile":             "--peers-ca",
	"Mode":                     "--mode",
	"ModesBefore":              "--mode-before",
}

// wrongSettings says what txn.New has to say in the words of the command line, one line a mistake.
func wrongSettings(err error) error {
	var errs []error
	all := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		all = joined.Unwrap()
	}
	for _, err := range all {
		if setting, ok := errors.AsType[*txn.ConfigError](err); ok {
			name := cmp.Or(flagOf[setting.Field], connectionFlags[setting.Field])
			if name == "" {
				name = setting.Field
			}
			err = fmt.Errorf("%s: %s", name, setting.Reason)
		}
		errs = append(errs, err)
	}
	return &usageError{errors.Join(errs...)}
}

// untilSignal returns a context that ends with the first SIGINT or SIGTERM. From then on signals
// have their usual effect again, so the second one ends the process. release ends the watching.
func untilSignal(parent context.Context, log *slog.Logger) (ctx context.Context, release func()) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer cancel()
		defer signal.Stop(signals)
		select {
		case s := <-signals:
			signal.Stop(signals)
			log.Info("stopping in order; a second signal ends the process at once", "signal", s.String())
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel()
		<-done
	}
}
