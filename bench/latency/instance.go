package latency

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"runtime/pprof"
	"time"

	"github.com/onceward/onceward/bench/measure"
	"github.com/onceward/onceward/txn"
)

// envInstance makes the program an instance of the application, with the settings that it holds.
const envInstance = "ONCEWARD_LATENCY_INSTANCE"

// Settings are what one instance is told. The zero value of a setting is the application's default.
type Settings struct {
	Brokers     []string
	Application string
	Instance    string
	StateDir    string
	Topics      Topics
	// Workload is a name of package workload; empty is [WorkloadDefault].
	Workload string
	// Remain keeps the membership at a stop in order.
	Remain             bool
	SessionTimeout     time.Duration
	TransactionTimeout time.Duration
	CommitIntervalMax  time.Duration
	// Peers is where the instance listens for its peers, as Peers.Listen of package txn.
	// PeersSecret is the file with their secret.
	Peers, PeersSecret string
	// Standbys is how many copies of its tasks other instances keep.
	Standbys int
	// RepairTransactions is that of txn.Config.
	RepairTransactions bool
	// Queries is the file that takes the address at which the instance serves queries; it serves
	// none if that is empty. The workload is the ledger then.
	Queries string
	// Log is the file that the instance appends its log to.
	Log string
	// CPUProfile is a file for a CPU profile of ProfileFor, begun ProfileAfter the start.
	CPUProfile               string
	ProfileAfter, ProfileFor time.Duration
}

// RunInstance makes this program an instance, and exits, if another one has started it as such. A
// program that starts instances calls it first: they are the same executable.
func RunInstance() { measure.Run(envInstance, Settings.run) }

// run is the life of an instance.
func (s Settings) run() (err error) {
	ctx, stop := measure.UntilTold()
	defer stop()
	t, err := Topology(s.Application, s.Workload, s.Topics)
	if err != nil {
		return err
	}
	app, err := txn.New(t, txn.Config{
		Brokers: s.Brokers, StateDir: s.StateDir, Instance: s.Instance, Remain: s.Remain, SessionTimeout: s.SessionTimeout,
		TransactionTimeout: s.TransactionTimeout, CommitIntervalMax: s.CommitIntervalMax,
		Peers: txn.Peers{Listen: s.Peers, SecretFile: s.PeersSecret}, Standbys: s.Standbys,
		RepairTransactions: s.RepairTransactions,
		Logger:             slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return err
	}
	if s.Queries != "" {
		if err := serveQueries(app, s); err != nil {
			return err
		}
	}
	if s.CPUProfile != "" {
		profiled := make(chan error, 1)
		go func() { profiled <- profile(ctx, s) }()
		defer func() { err = errors.Join(err, <-profiled) }()
	}
	return app.Run(ctx)
}

// profile writes a profile, shorter if ctx ends before.
func profile(ctx context.Context, s Settings) error {
	select {
	case <-ctx.Done():
		return nil // stopped before
	case <-time.After(s.ProfileAfter):
	}
	f, err := os.Create(s.CPUProfile)
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return errors.Join(err, f.Close())
	}
	select {
	case <-ctx.Done():
	case <-time.After(s.ProfileFor):
	}
	pprof.StopCPUProfile()
	return f.Close()
}

// Instance is one process of the application. It can be started again and again, with the same
// identity and state.
type Instance struct {
	Settings Settings
	measure.Instance
}

// NewInstance returns an instance that is not started yet. The arguments are for a program that has
// to be told to call [RunInstance].
func NewInstance(s Settings, args ...string) *Instance {
	return &Instance{s, measure.Instance{
		Name: "instance " + s.Instance, Variable: envInstance, Told: s, Args: args, LogPath: s.Log,
	}}
}

// Status asks the process; it fails while it is not up yet.
func (i *Instance) Status(ctx context.Context) (txn.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return txn.InstanceStatus(ctx, i.Settings.StateDir)
}
