package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/pebblestore"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn"
	"github.com/onceward/onceward/txn/internal/control"
)

// stopped is the state directory of an instance that does not run. Databases are opened when they
// are asked for, and stay open.
type stopped struct {
	dir    *state.ReadOnlyDirectory
	shared *pebblestore.Shared

	mu        sync.Mutex
	databases map[state.TaskDirectory]state.ReadOnlyDatabase
}

// The caches of all databases of a directory.
const (
	cacheBytes   = 32 << 20
	openFilesMax = 256
)

func newStopped(dir *state.ReadOnlyDirectory) *stopped {
	return &stopped{
		dir: dir, shared: pebblestore.NewShared(cacheBytes, openFilesMax), databases: map[state.TaskDirectory]state.ReadOnlyDatabase{},
	}
}

func (s *stopped) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, db := range s.databases {
		errs = append(errs, db.Close())
	}
	s.shared.Close()
	return errors.Join(append(errs, s.dir.Close())...)
}

// database opens a task's database; nil means that the task has none yet.
func (s *stopped) database(id state.TaskDirectory) (state.ReadOnlyDatabase, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if db := s.databases[id]; db != nil {
		return db, nil
	}
	path, err := s.path(id)
	if err != nil {
		return nil, err
	}
	db, err := pebblestore.OpenReadOnly(path, pebblestore.Options{Shared: s.shared})
	if errors.Is(err, fs.ErrNotExist) && !errors.Is(err, state.ErrCorrupt) {
		return nil, nil //nolint:nilnil // a task that was never opened for long enough is not an error
	}
	if err != nil {
		return nil, err
	}
	s.databases[id] = db
	return db, nil
}

// path returns where a database is: of a task, or of a global table, which is called by
// control.GlobalPrefix and its store.
func (s *stopped) path(id state.TaskDirectory) (string, error) {
	if store, global := strings.CutPrefix(id.Subtopology, control.GlobalPrefix); global {
		return s.dir.GlobalPath(store)
	}
	return s.dir.TaskPath(id)
}

// places returns the tasks and the global tables that have a database.
func (s *stopped) places() ([]state.TaskDirectory, error) {
	ids, err := s.dir.Tasks()
	if err != nil {
		return nil, err
	}
	globals, err := s.dir.Globals()
	for _, store := range globals {
		ids = append(ids, state.TaskDirectory{Subtopology: control.GlobalPrefix + store})
	}
	return ids, err
}

func (s *stopped) tasks(ctx context.Context, d Detail) ([]TaskState, error) {
	ids, err := s.places()
	if err != nil {
		return nil, err
	}
	ran, err := s.ran()
	if err != nil {
		return nil, err
	}
	var tasks []TaskState
	for _, id := range ids {
		db, err := s.database(id)
		if err != nil {
			return nil, err
		}
		if db == nil {
			continue
		}
		stores, err := db.Stores()
		if err != nil {
			return nil, err
		}
		t := TaskState{At: atDirectory(id, db)}
		for _, store := range stores {
			m, err := control.Measure(ctx, store, db, db, control.Detail(d))
			if err != nil {
				return nil, err
			}
			source, fromSource := ran.sources[store.Name]
			changelog := cmp.Or(source, graph.ChangelogTopic(s.dir.Identity().Application, store.Name))
			if ran.lost[store.Name] {
				changelog = ""
			}
			t.Stores = append(t.Stores, StoreState{
				Name: store.Name, Layout: store.Layout, Keys: m.Keys, Counted: m.Counted, DiskBytes: m.DiskBytes, FromSource: fromSource, InMemory: ran.inMemory[store.Name],
				Changelog: changelog, End: -1,
			})
		}
		tasks = append(tasks, t)
	}
	return tasks, nil
}

// ranStores is what the databases do not say of the stores of the topology that ran last.
type ranStores struct {
	// sources has the topics of the stores that have no changelog.
	sources map[string]string
	// inMemory has the stores whose rows are in memory, lost those of them that nothing restores.
	inMemory, lost map[string]bool
}

// ran returns what the description of the topology that ran last says of its stores.
func (s *stopped) ran() (ranStores, error) {
	text, err := state.ReadDescription(s.dir.Path())
	if err != nil || text == nil {
		return ranStores{}, err
	}
	var d graph.Description
	if err := json.Unmarshal(text, &d); err != nil {
		return ranStores{}, fmt.Errorf("the description in the state directory: %w", err)
	}
	out := ranStores{sources: map[string]string{}, inMemory: map[string]bool{}, lost: map[string]bool{}}
	for _, sub := range d.Subtopologies {
		for _, store := range sub.Stores {
			if store.RestoredFrom != "" {
				out.sources[store.Name] = store.RestoredFrom
			}
			out.inMemory[store.Name], out.lost[store.Name] = store.InMemory, store.LostOnRestart
		}
	}
	for _, table := range d.GlobalTables {
		out.sources[table.Store] = table.Topic
	}
	return out, nil
}

func atDirectory(id state.TaskDirectory, db state.ReadOnlyDatabase) At {
	at := At{Task: graph.TaskID{Subtopology: id.Subtopology, Partition: id.Partition}, Positions: db.Positions()}
	// A global table has no commit whose positions it could lack. Its restore goes on at the next
	// start.
	if unfinished(at.Positions) && !strings.HasPrefix(id.Subtopology, control.GlobalPrefix) {
		at.Stale = errUnfinished
	}
	return at
}

// errUnfinished is a restore that the end of its process has interrupted.
var errUnfinished = fmt.Errorf("%w, which was not finished: the next start goes on with it", txn.ErrRestoring)

// unfinished reports whether the positions are those that a restore writes on its way: it sets the
// inputs last. A restore that began with some state can leave positions that look like those of a
// round; each store is then right by itself.
func unfinished(p state.Positions) bool {
	return slices.ContainsFunc(p.Changelogs, func(c state.Changelog) bool {
		return c.Scanned > c.Applied || len(p.Inputs) == 0 && c.Applied > 0
	})
}

// find returns the task that has a partition of a store.
func (s *stopped) find(store string, partition int32, stale bool) (At, state.ReadOnlyDatabase, error) {
	ids, err := s.places()
	if err != nil {
		return At{}, nil, err
	}
	ran, err := s.ran()
	if err != nil {
		return At{}, nil, err
	}
	switch {
	case ran.lost[store]:
		return At{}, nil, fmt.Errorf("store %s in %s: %w", store, s.dir.Path(), ErrLostOnRestart)
	case ran.inMemory[store]:
		return At{}, nil, fmt.Errorf("store %s in %s: %w", store, s.dir.Path(), ErrInMemory)
	}
	var elsewhere []int32
	for _, id := range ids {
		db, err := s.database(id)
		if err != nil {
			return At{}, nil, err
		}
		if db == nil {
			continue
		}
		stores, err := db.Stores()
		switch {
		case err != nil:
			return At{}, nil, err
		case !slices.ContainsFunc(stores, func(d state.Declaration) bool { return d.Name == store }):
		case id.Partition == partition:
			at := atDirectory(id, db)
			if at.Stale != nil && !stale {
				return At{}, nil, at.Stale
			}
			return at, db, nil
		default:
			elsewhere = append(elsewhere, id.Partition)
		}
	}
	if elsewhere == nil {
		return At{}, nil, fmt.Errorf("%w: no task in %s has it", state.ErrUnknownStore, s.dir.Path())
	}
	return At{}, nil, fmt.Errorf("%w: %s has the partitions %v of the store", txn.ErrNotServing, s.dir.Path(), elsewhere)
}

func (s *stopped) get(_ context.Context, store string, partition int32, key []byte, stale bool) (Row, error) {
	at, db, err := s.find(store, partition, stale)
	if err != nil {
		return Row{}, err
	}
	row := Row{At: at}
	row.Value, row.Found, err = db.Get(state.IDOf(store), key)
	return row, err
}

func (s *stopped) scan(ctx context.Context, q ScanRequest) (*Scan, error) {
	at, db, err := s.find(q.Store, q.Partition, q.Stale)
	if err != nil {
		return nil, err
	}
	rows := bounded(ctx, db.Scan(state.IDOf(q.Store), q.Range), q.Limit)
	return &Scan{At: at, rows: rows, close: func() error { return nil }}, nil
}

// bounded ends a sequence after limit rows, if that is not 0, and with an error when ctx ends.
func bounded(ctx context.Context, rows iter.Seq2[state.Entry, error], limit int64) iter.Seq2[state.Entry, error] {
	return func(yield func(state.Entry, error) bool) {
		n := int64(0)
		for e, err := range rows {
			if err == nil {
				err = ctx.Err()
			}
			if !yield(e, err) || err != nil {
				return
			}
			if n++; n == limit {
				return
			}
		}
	}
}
