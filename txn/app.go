package txn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/onceward/onceward/state/pebblestore"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/internal/console"
	"github.com/onceward/onceward/txn/internal/globaltable"
	"github.com/onceward/onceward/txn/internal/metrics"
	"github.com/onceward/onceward/txn/internal/opening"
	"github.com/onceward/onceward/txn/internal/session"
	"github.com/onceward/onceward/txn/internal/task"
)

// App runs one topology in this process. Run is called once; every other method may be called from
// any goroutine at any time.
type App struct {
	topology *topology.Topology
	cfg      Config
	log      *slog.Logger
	metrics  *metrics.Metrics
	rebuilds opening.Rebuilds
	alerts   alerts
	// consoleWork is shared by all handlers of the console.
	consoleWork *console.Work
	// started is when the counters began with zero.
	started time.Time

	mu struct {
		sync.Mutex
		ran      bool
		state    State
		reason   string
		instance string
		// session is the membership and in the instance that it belongs to; nil while there is
		// none.
		session *session.Session
		in      *instance
		totals  Totals
		// http is where the endpoint listens, shared the caches while there are some.
		http   string
		shared *pebblestore.Shared
		// globals are the global tables while they are read.
		globals *globaltable.Tables
		// peersAddress is where other instances dial this one.
		peersAddress string
		// watch asks other instances, while there is one.
		watch *watch
	}
}

// New checks the configuration: every mistake in it is a [ConfigError], joined if there are
// several. It touches neither the cluster nor the disk.
func New(t *topology.Topology, cfg Config) (*App, error) {
	if t == nil {
		return nil, &ConfigError{"topology", "there is none"}
	}
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.Application != "" {
		named, err := t.WithApplication(cfg.Application)
		if err != nil {
			return nil, &ConfigError{"Application", err.Error()}
		}
		t = named
	}
	if err := errors.Join(checkNames(t), checkMode(t, cfg)); err != nil {
		return nil, err
	}
	a := &App{topology: t, cfg: cfg, log: cfg.Logger.With("application", t.Application()), started: time.Now(), consoleWork: console.NewWork()}
	a.mu.state = Created
	a.metrics = metrics.New(a.snapshot)
	return a, nil
}

// checkNames refuses inputs of one task that a commit could not tell apart: it names topics by a
// hash.
func checkNames(t *topology.Topology) error {
	for _, sub := range t.Subtopologies() {
		named := map[uint32]string{}
		for _, src := range sub.Sources {
			hash := task.HashName(src.Topic)
			if other, taken := named[hash]; taken {
				return &ConfigError{"topology", fmt.Sprintf("subtopology %s reads the topics %s and %s, whose names have the same hash: "+
					"rename one of them, or read it through a repartitioning", sub.Name, other, src.Topic)}
			}
			named[hash] = src.Topic
		}
	}
	return nil
}

// Run processes until ctx ends, and then stops in order: it commits the open rounds, flushes the
// databases, and leaves the group unless Remain is set. It returns nil after such a stop, or
// ErrStopped if some task had stopped by itself. An error means that the application cannot
// continue; every store then holds committed writes only.
func (a *App) Run(ctx context.Context) (err error) {
	if !a.start() {
		return errors.New("Run was called before: an App runs once")
	}
	defer a.setState(Stopped)
	closeHTTP, err := a.serveHTTP()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeHTTP()) }()
	in, err := a.open(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil // ended before anything had begun
		}
		return err
	}
	defer func() { err = errors.Join(err, in.close()) }()
	closeControl := a.serveControl(in.dir.Path())
	defer func() { err = errors.Join(err, closeControl()) }()
	if err := in.waitFence(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // ended before anything had begun
		}
		return err
	}
	if in.startGlobals(); in.globals.Wait(ctx) != nil {
		return nil // ended before anything had begun
	}
	if in.watch, err = in.newWatch(); err != nil {
		return err
	}
	err = a.cfg.refused(a.sessions(ctx, in))
	if in.left.Nothing || errors.Is(err, kerr.FencedInstanceID) { // else the peers are to end what is left
		in.watch.goodbye()
	}
	return err
}
