package admin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn"
	"github.com/onceward/onceward/txn/internal/backoff"
	"github.com/onceward/onceward/txn/internal/control"
)

// State is the committed state of one instance on this machine, to be read by its operator. It
// reads the databases of an instance that does not run, and asks one that runs over the control
// socket in its state directory. It changes nothing in either case.
//
// While the State of an instance that does not run is open, the instance cannot be started: a start
// waits ten seconds for it. A State is safe for concurrent use.
type State struct {
	path     string
	identity state.Identity
	source   stateSource
	running  bool
}

// stateSource is an instance that runs, or a directory.
type stateSource interface {
	tasks(ctx context.Context, d Detail) ([]TaskState, error)
	get(ctx context.Context, store string, partition int32, key []byte, stale bool) (Row, error)
	scan(ctx context.Context, q ScanRequest) (*Scan, error)
	Close() error
}

// ErrInMemory says that the state directory has no rows of a store with topology.Store.InMemory.
// The running instance has them, and the changelog.
var ErrInMemory = errors.New("the rows of the store are in memory, and not in the directory; ask the running instance, or read the changelog")

// ErrLostOnRestart says that a store has neither rows in a state directory nor a changelog: only
// the running instance has its rows (topology.Store.LostOnRestart).
var ErrLostOnRestart = errors.New("the store is LostOnRestart: only the running instance has its rows, and no changelog has them")

// At says what an answer contains and whose it is.
type At struct {
	Task graph.TaskID
	// Positions are the input offsets and changelog positions of the state, with its last round.
	Positions state.Positions
	// Epoch is the ownership under which a running instance has the task, zero for one that does
	// not run.
	Epoch txn.Epoch
	// Stale is why the state would not have been served without being asked for stale state, as
	// txn.Read says it; nil if it would. State of an instance that does not run is not stale by
	// itself, but others may have gone on from it.
	Stale error
}

// Row is the answer to a key.
type Row struct {
	At
	Found bool
	Value []byte
}

// TaskState is the state of one task.
type TaskState struct {
	At
	// DirectoryBytes is the size of the task's directory.
	DirectoryBytes int64
	// Stores are in the order of their names. There are none for a task that has no database to
	// read at the moment: Stale says why.
	Stores []StoreState
}

// StoreState is one store of a task.
type StoreState struct {
	Name string
	// Layout says what its rows are.
	Layout state.Layout
	// Keys were counted if Counted is set, and otherwise estimated.
	Keys    int64
	Counted bool
	// DiskBytes is about the size of the rows in tables, on the disk unless InMemory is set.
	DiskBytes int64
	// InMemory says that the rows are in memory. The directory of a stopped instance has none of
	// them; what it says of their number and size is 0.
	InMemory bool
	// FromSource says that the store has no changelog, because it is restored from its source
	// (topology.RestoreFromTopic): Changelog is that topic.
	FromSource bool
	// Changelog is the topic of the changelog, Partitions the number of its partitions, 0 if that
	// is not known. It is empty for a store that is LostOnRestart.
	Changelog  string
	Partitions int32
	// End is the last stable offset of the changelog's partition, -1 if it is not known.
	End int64
}

// Lag returns how far the state at those positions is behind its changelog, in offsets; ok is false
// if that is not known. A running task is behind by what its next rounds have written. A single
// offset behind the state is the marker of the transaction that wrote it, and none.
func (s StoreState) Lag(p state.Positions) (lag int64, ok bool) {
	c, named := p.Changelog(s.Name)
	if !named || s.End < 0 {
		return 0, false
	}
	lag = max(s.End-max(c.Applied, c.Scanned), 0)
	if lag == 1 { // a transaction has a record and a marker at least
		lag = 0
	}
	return lag, true
}

// ScanRequest is a range of keys of one partition of a store.
type ScanRequest struct {
	Store     string
	Partition int32
	Range     state.Range
	// Limit is how many rows there are at most; 0 is no limit.
	Limit int64
	// Stale asks for whatever state there is, as txn.Stale does.
	Stale bool
}

// Scan is a range of rows as they were at one moment. It belongs to one goroutine and has to be
// closed, also in the middle.
type Scan struct {
	At
	rows  iter.Seq2[state.Entry, error]
	close func() error
}

// Rows yields the rows in the order of their keys, once. An error is the last thing that it yields;
// without one, the rows are complete.
func (s *Scan) Rows() iter.Seq2[state.Entry, error] { return s.rows }

// Close releases what the scan holds.
func (s *Scan) Close() error { return s.close() }

// openWait is how long a locked directory is waited for whose process does not answer: it may be
// starting or stopping.
const openWait = 5 * time.Second

// OpenState opens the state directory of an instance on this machine. If a process has it, that
// process is asked from then on. It fails with state.ErrLocked if that process does not answer in
// five seconds, and otherwise as state.OpenDirectoryReadOnly does.
func OpenState(ctx context.Context, dir string) (*State, error) {
	pause := backoff.Backoff{Next: 20 * time.Millisecond, Max: 500 * time.Millisecond}
	for until := time.Now().Add(openWait); ; {
		opened, err := state.OpenDirectoryReadOnly(dir)
		if err == nil {
			return &State{path: dir, identity: opened.Identity(), source: newStopped(opened)}, nil
		}
		if !errors.Is(err, state.ErrLocked) {
			return nil, err
		}
		answer := ping(ctx, dir)
		if answer == nil {
			identity, err := state.Identify(dir)
			if err != nil {
				return nil, err
			}
			return &State{path: dir, identity: identity, source: running{dir}, running: true}, nil
		}
		if time.Now().After(until) || pause.Wait(ctx) != nil {
			return nil, fmt.Errorf("%w, and does not answer: %w", err, answer)
		}
	}
}

// ping asks for a sign of life.
func ping(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, openWait)
	defer cancel()
	var status struct{}
	return control.Status(ctx, dir, &status)
}

// positions returns those of the databases; none while an instance runs on them, or one runs
// elsewhere.
func (s *State) positions(ctx context.Context, quiet bool) (map[graph.TaskID]state.Positions, error) {
	out := map[graph.TaskID]state.Positions{}
	if s.running || !quiet {
		return out, nil
	}
	tasks, err := s.Tasks(ctx, Names)
	for _, t := range tasks {
		out[t.Task] = t.Positions
	}
	return out, err
}

// checkCluster refuses state that belongs to another cluster.
func (c *Client) checkCluster(ctx context.Context, s *State) error {
	m, err := c.adm.BrokerMetadata(ctx)
	if err != nil {
		return fmt.Errorf("asking for the cluster's id: %w", err)
	}
	if err := state.CheckCluster(s.identity.Cluster, m.Cluster); err != nil {
		return fmt.Errorf("state directory %s: %w", s.path, err)
	}
	return nil
}

// Identity returns what the state directory says about itself.
func (s *State) Identity() state.Identity { return s.identity }

// Running reports whether a running instance answers.
func (s *State) Running() bool { return s.running }

// Detail says how much [State.Tasks] finds out of sizes. Each has what is in those before.
type Detail string

// The details.
const (
	// Names has the tasks with their positions and stores, and no sizes.
	Names = Detail(control.Names)
	// Estimates has sizes; keys are counted only where they are few.
	Estimates = Detail(control.Estimates)
	// Counts has all keys counted, which reads every row.
	Counts = Detail(control.Counts)
)

// Tasks describes every task that has state here, in the order of subtopology and partition, and
// behind them the global tables. The subtopology of a global table is "globals/" and the name of
// its store, and its partition is 0.
func (s *State) Tasks(ctx context.Context, d Detail) ([]TaskState, error) {
	tasks, err := s.source.tasks(ctx, d)
	if err != nil {
		return nil, fmt.Errorf("reading the state of the tasks: %w", err)
	}
	if d == Names {
		return tasks, nil
	}
	for i, t := range tasks {
		place := filepath.Join(s.path, "tasks", t.Task.Subtopology, strconv.Itoa(int(t.Task.Partition)))
		if strings.HasPrefix(t.Task.Subtopology, control.GlobalPrefix) { // which is its place below the directory
			place = filepath.Join(s.path, t.Task.Subtopology)
		}
		if tasks[i].DirectoryBytes, err = sizeOf(place); err != nil {
			return nil, fmt.Errorf("measuring task %s: %w", t.Task, err)
		}
	}
	return tasks, nil
}

// Get returns the row of a key. It fails with txn.ErrNotServing, or one that wraps it, if the
// partition is not here or, unless stale is set, not to be served; and with state.ErrUnknownStore.
func (s *State) Get(ctx context.Context, store string, partition int32, key []byte, stale bool) (Row, error) {
	row, err := s.source.get(ctx, store, partition, key, stale)
	if err != nil {
		return Row{}, fmt.Errorf("reading store %s[%d]: %w", store, partition, err)
	}
	return row, nil
}

// GetBehind waits until the state contains the result of the record at an offset of an input, in
// the partition of that number, and returns the row of a key as it is then. It is for callers that
// have written the record, and want to read its result. It fails as Get does, and when ctx ends,
// but it waits for a task that is being restored or in doubt. The state of an instance that does
// not run stays where it is.
func (s *State) GetBehind(ctx context.Context, store string, partition int32, key []byte, topic string, offset int64) (Row, error) {
	pause := backoff.Backoff{Next: 20 * time.Millisecond, Max: 500 * time.Millisecond}
	for {
		row, err := s.Get(ctx, store, partition, key, false)
		at, named := row.Positions.Input(topic, partition)
		switch {
		case err == nil && named && at.Offset > offset:
			return row, nil
		case err != nil && ctx.Err() == nil && !errors.Is(err, txn.ErrRestoring) && !errors.Is(err, txn.ErrInDoubt):
			return Row{}, err
		}
		if pause.Wait(ctx) != nil {
			why := context.Cause(ctx)
			if err != nil {
				why = fmt.Errorf("%w: %w", why, err)
			}
			return Row{}, fmt.Errorf("waiting until store %s[%d] is behind offset %d of %s: %w", store, partition, offset, topic, why)
		}
	}
}

// Scan begins to read a range of rows. It needs the same memory whatever the number of rows. It
// fails as Get does. A running instance gives the scan up if nothing of it is read for a minute.
func (s *State) Scan(ctx context.Context, q ScanRequest) (*Scan, error) {
	scan, err := s.source.scan(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("reading store %s[%d]: %w", q.Store, q.Partition, err)
	}
	return scan, nil
}

// Close gives the directory up. Scans that are open fail from then on.
func (s *State) Close() error { return s.source.Close() }

// sizeOf sums the files of a directory, which a running instance may change meanwhile.
func sizeOf(dir string) (bytes int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		var info os.FileInfo
		if err == nil && e.Type().IsRegular() {
			info, err = e.Info()
		}
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			return nil
		}
		if info != nil {
			bytes += info.Size()
		}
		return err
	})
	return bytes, err
}
