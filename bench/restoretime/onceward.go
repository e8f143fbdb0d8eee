package restoretime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/onceward/onceward/bench/benchtopics"
	"github.com/onceward/onceward/bench/load"
	"github.com/onceward/onceward/bench/measure"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// envInstance makes the program an instance of the application, with the settings that it holds.
const envInstance = "ONCEWARD_RESTORE_INSTANCE"

// statusInterval is how exact begin and end of a restore are known.
const statusInterval = time.Millisecond

// fillTimeout is far beyond what a good fill takes.
const fillTimeout = 10 * time.Minute

var errFillTimeout = fmt.Errorf("not filled within %s", fillTimeout)

// settings are what an instance is told.
type settings struct {
	Brokers     []string
	Application string
	StateDir    string
	CacheBytes  int64
	Partitions  int32
	// Read makes it report what its stores hold.
	Read bool
}

// RunInstance makes this program an instance of the application, and exits, if [Measure] has
// started it as such. A program that calls Measure calls it first: they are the same executable.
func RunInstance() { measure.Run(envInstance, settings.run) }

// run is the life of an instance.
func (s settings) run() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	b := topology.NewBuilder(s.Application)
	handles := declare(b, inputTopic(s.Application))
	t, err := b.Build()
	if err != nil {
		return err
	}
	app, err := txn.New(t, txn.Config{
		Brokers: s.Brokers, StateDir: s.StateDir, Instance: "bench", CacheBytes: s.CacheBytes,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- app.Run(ctx) }()
	if err = reportRestore(app, handles, s, ended); err == nil {
		measure.AwaitEnd()
	}
	stop()
	return errors.Join(err, <-ended)
}

type bytesStore = topology.Store[state.KeyValue[[]byte, []byte]]

// declare adds the application: every record of the input is put into all stores.
func declare(b *topology.Builder, input string) []bytesStore {
	var handles []bytesStore
	var declared []topology.AnyStore
	for _, name := range stores {
		store := topology.KeyValueStore(name, schemas.Bytes(), schemas.Bytes())
		handles, declared = append(handles, store), append(declared, store)
	}
	in := topology.From(b, topology.Topic(input, schemas.Bytes(), schemas.Bytes()))
	topology.Stateful(in, "put", declared...).Process(func(t *topology.Setup) (topology.Handler[[]byte, []byte], error) {
		var opened []state.KeyValue[[]byte, []byte]
		for _, store := range handles {
			opened = append(opened, store.In(t))
		}
		return func(_ *topology.Context, r topology.Record[[]byte, []byte]) error {
			for _, store := range opened {
				if err := store.Put(r.Key, r.Value); err != nil {
					return err
				}
			}
			return nil
		}, nil
	})
	return handles
}

// reportRestore watches the restore and reports it. There is none when the changelogs are to be
// filled.
func reportRestore(app *txn.App, handles []bytesStore, s settings, ended chan error) error {
	parts, err := watch(app, s.Partitions, ended)
	if err != nil {
		return err
	}
	rep := report{Parts: parts}
	if s.Read {
		if rep.Contents, err = readStores(app, handles, s.Partitions); err != nil {
			return err
		}
	}
	return measure.Report(rep)
}

// watch follows the status until every task runs. A task's restore begins at the last look before
// it has something to do, and ends at the look that finds it running.
func watch(app *txn.App, partitions int32, ended chan error) ([]Part, error) {
	begun, done := map[int32]time.Time{}, map[int32]time.Time{}
	records := map[int32]int64{}
	tick := time.NewTicker(statusInterval)
	defer tick.Stop()
	for before := time.Now(); len(done) < int(partitions); {
		now := time.Now()
		for _, t := range app.Status().Tasks {
			p := t.ID.Partition
			if t.State == txn.TaskStopped {
				return nil, fmt.Errorf("task %s has stopped: %s", t.ID, t.Reason)
			}
			if begun[p].IsZero() && (t.Restored > 0 || t.Remaining > 0) {
				begun[p] = before
			}
			if done[p].IsZero() && t.State == txn.TaskRunning {
				done[p], records[p] = now, t.Restored
			}
		}
		before = now
		select {
		case err := <-ended:
			ended <- err
			return nil, fmt.Errorf("the application has ended: %w", err)
		case <-tick.C:
		}
	}
	var first time.Time
	for _, at := range begun {
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	var parts []Part
	for p := range partitions {
		if begun[p].IsZero() {
			continue // it had nothing to restore, which the number of records will tell
		}
		parts = append(parts, Part{Partition: p, From: begun[p].Sub(first), To: done[p].Sub(first), Records: records[p]})
	}
	return parts, nil
}

// readStores adds up what is in all partitions of each store.
func readStores(app *txn.App, handles []bytesStore, partitions int32) ([]storeReport, error) {
	var out []storeReport
	for _, store := range handles {
		var c Content
		for p := range partitions {
			view, err := txn.Read(app, store, p)
			if err != nil {
				return nil, err
			}
			for e, err := range view.Store().All() {
				if err != nil {
					return nil, errors.Join(err, view.Close())
				}
				c.Entries++
				c.Digest += measure.HashEntry(e.Key, e.Value)
			}
			if err := view.Close(); err != nil {
				return nil, err
			}
		}
		out = append(out, storeReport{Store: store.Name(), Entries: c.Entries, Digest: strconv.FormatUint(c.Digest, 16)})
	}
	return out, nil
}

// fill lets an instance process the input, chunk by chunk.
func (m *measurement) fill(ctx context.Context) (err error) {
	s := m.instance()
	dir, err := os.MkdirTemp(m.cfg.Dir, "fill-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s.StateDir = filepath.Join(dir, "state")
	cmd, err := measure.Self(ctx, envInstance, s)
	if err != nil {
		return err
	}
	p, err := measure.Start(cmd, filepath.Join(m.cfg.Dir, "fill.log"))
	if err != nil {
		return err
	}
	var rep report
	if err = p.Report(&rep); err == nil {
		err = m.load(ctx, s.StateDir)
	}
	if err = errors.Join(err, p.End()); err != nil { // it ends in order when its input does
		return fmt.Errorf("filling the changelogs: %w", err)
	}
	return nil
}

// load writes the input and waits for each chunk to be committed.
func (m *measurement) load(ctx context.Context, stateDir string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, fillTimeout, errFillTimeout)
	defer cancel()
	d := m.cfg.Data
	var lanes []*lane
	for p := range d.Partitions {
		lanes = append(lanes, d.lane(p))
	}
	written := int64(0)
	for n := range int64(chunks) {
		count, err := load.Write(ctx, m.cfg.Brokers, inputTopic(m.cfg.Name), d.records(lanes, n))
		if err != nil {
			return err
		}
		written += int64(count)
		err = benchtopics.Poll(ctx, "the input to be processed", func() (bool, error) {
			status, err := txn.InstanceStatus(ctx, stateDir)
			return status.Totals.Records >= written, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// restore lets an instance restore everything into an empty directory.
func (m *measurement) restore(ctx context.Context, read bool) (_ Restore, _ report, err error) {
	if err := m.cluster.AwaitEmpty(ctx, m.cfg.Name); err != nil {
		return Restore{}, report{}, err
	}
	dir, err := os.MkdirTemp(m.cfg.Dir, "onceward-")
	if err != nil {
		return Restore{}, report{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s := m.instance()
	s.StateDir, s.Read = filepath.Join(dir, "state"), read
	ctx, cancel := context.WithTimeoutCause(ctx, runTimeout, errRunTimeout)
	defer cancel()
	cmd, err := measure.Self(ctx, envInstance, s)
	if err != nil {
		return Restore{}, report{}, err
	}
	return runRestore(ctx, cmd, filepath.Join(m.cfg.Dir, "onceward.log"), m.cfg.Data.Records)
}

func (m *measurement) instance() settings {
	return settings{
		Brokers: m.cfg.Brokers, Application: m.cfg.Name, CacheBytes: m.cfg.CacheBytes, Partitions: m.cfg.Data.Partitions,
	}
}
