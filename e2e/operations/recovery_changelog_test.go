package operations_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/pebblestore"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn"
	"github.com/onceward/onceward/txn/admin"
)

// fromChangelog rebuilds the databases of a directory.
func (e *recoveryScene) fromChangelog(op *admin.Application, stores ...string) action {
	return func(ctx context.Context, o admin.Options) (admin.Report, error) {
		return op.RebuildFromChangelog(ctx, e.stateDir, stores, o)
	}
}

// damage puts another value under every key of a store, at the same positions, as no round has
// written it.
func (e *recoveryScene) damage(store string) {
	e.t.Helper()
	for p := range recoveryPartitions {
		db := e.open(p)
		at := db.Positions()
		for entry, err := range db.Scan(state.IDOf(store), state.Range{}) {
			if err != nil {
				e.t.Fatal(err)
			}
			write := state.Write{Store: state.IDOf(store), Key: entry.Key, Value: make([]byte, 8)}
			if err := db.Apply(at, at, func(yield func(state.Write) bool) { yield(write) }); err != nil {
				e.t.Fatal(err)
			}
		}
		if err := db.Close(); err != nil {
			e.t.Fatal(err)
		}
	}
}

func (e *recoveryScene) open(partition int) state.Database {
	e.t.Helper()
	db, err := pebblestore.Open(filepath.Join(e.stateDir, "tasks", e.in, string(rune('0'+partition))), pebblestore.Options{})
	if err != nil {
		e.t.Fatal(err)
	}
	return db
}

// values counts the keys of a store that have the value that the model has, times by, and those
// that have another.
func (e *recoveryScene) values(store string, by int64) (right, wrong int) {
	e.t.Helper()
	for p := range recoveryPartitions {
		db := e.open(p)
		for entry, err := range db.Scan(state.IDOf(store), state.Range{}) {
			if err != nil {
				e.t.Fatal(err)
			}
			var n int64
			for _, b := range entry.Value {
				n = n<<8 | int64(b)
			}
			if n == by*e.model.counts[string(entry.Key)] {
				right++
			} else {
				wrong++
			}
		}
		if err := db.Close(); err != nil {
			e.t.Fatal(err)
		}
	}
	return right, wrong
}

// TestRebuildStopped: databases that differ from their changelogs are rebuilt in the directory of a
// stopped instance, one store or all of them.
func TestRebuildStopped(t *testing.T) {
	t.Parallel()
	cluster.Scenario(t, func(t *testing.T, c *cluster.Cluster) {
		e := begun(t, c)
		op := e.operator()
		e.damage("counts")
		e.damage("sizes")
		if right, wrong := e.values("sizes", 10); right != 0 || wrong != recoveryPartitions*keys {
			t.Fatalf("%d keys are right and %d wrong: nothing is damaged", right, wrong)
		}
		e.refuses(e.fromChangelog(op, "other"), "other")
		e.does(e.fromChangelog(op, "counts"))
		if right, wrong := e.values("counts", 1); right != recoveryPartitions*keys || wrong != 0 {
			t.Errorf("%d keys of the rebuilt store are right and %d wrong", right, wrong)
		}
		if right, wrong := e.values("sizes", 10); right != 0 || wrong != recoveryPartitions*keys {
			t.Errorf("%d keys of the other store have changed, %d are as they were", right, wrong)
		}
		e.does(e.fromChangelog(op))
		if right, wrong := e.values("sizes", 10); right != recoveryPartitions*keys || wrong != 0 {
			t.Errorf("%d keys of the rebuilt store are right and %d wrong", right, wrong)
		}
		if entries, err := os.ReadDir(filepath.Join(e.stateDir, "trash", "rebuild", e.in)); err == nil && len(entries) > 0 {
			t.Errorf("the rebuild has left %v", entries)
		}
		e.goesOn(100, 20)
	})
}

// TestRebuildInterrupted: a rebuild that its caller cancels leaves every task either rebuilt or as
// it was, and another call does the rest.
func TestRebuildInterrupted(t *testing.T) {
	t.Parallel()
	cluster.OnVirtual(t, rebuildInterrupted)
}

func rebuildInterrupted(t *testing.T, c *cluster.Cluster) {
	e := begun(t, c)
	op := e.operator()
	e.damage("counts")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var told []admin.Progress
	o := admin.Options{Progress: func(p admin.Progress) {
		told = append(told, p)
		if p.Records > 0 && p.Left == 0 {
			cancel()
		}
	}}
	if _, err := e.fromChangelog(op)(ctx, o); !errors.Is(err, context.Canceled) {
		t.Fatalf("the rebuild ends with %v", err)
	}
	last := told[len(told)-1]
	if last.Task.Subtopology != e.in || last.Store != "" || told[0].Bytes < told[0].Records {
		t.Errorf("told is %+v", told)
	}
	right, wrong := e.values("counts", 1)
	if right%keys != 0 || right == recoveryPartitions*keys || right+wrong != recoveryPartitions*keys {
		t.Errorf("%d keys are right and %d wrong, of %d in a task", right, wrong, keys)
	}
	e.does(e.fromChangelog(op))
	if right, wrong := e.values("counts", 1); right != recoveryPartitions*keys || wrong != 0 {
		t.Errorf("after the second call %d keys are right and %d wrong", right, wrong)
	}
	e.goesOn(100, 20)
}

// TestRebuildRunning: an instance rebuilds its own databases while records come, asked through its
// socket or by its program. Nothing is lost or counted twice, and no other process gets its
// directory. It is on real time because an instance on virtual time has no socket.
func TestRebuildRunning(t *testing.T) {
	t.Parallel()
	cluster.Each(t, func(t *testing.T, c *cluster.Cluster) {
		e := newRecoveryScene(t, c)
		e.feed(100)
		e.life(100)
		e.process(0, 100)
		e.damage("counts")
		e.damage("sizes")
		r := e.start() // the databases are at their positions, so that nothing tells the start that they are wrong
		e.until(r, 100)
		if _, err := e.fromChangelog(e.operator())(t.Context(), admin.Options{}); !errors.Is(err, state.ErrLocked) {
			t.Errorf("rebuilding under a running instance gave %v, want ErrLocked", err)
		}
		done := 0
		for turn, stores := range [][]string{nil, {"sizes"}, {"counts"}} {
			names, err := txn.RebuildTasks(t.Context(), e.stateDir, nil, stores, true)
			if err != nil || len(names) != 2 || names[0] != e.in+"_0" || names[1] != e.in+"_1" {
				t.Fatalf("the dry run says %v (%v), want both tasks", names, err)
			}
			if turn == 2 {
				done++
				err = r.Rebuild([]graph.TaskID{{Subtopology: e.in, Partition: 1}}, stores...)
			} else {
				done += 2
				_, err = txn.RebuildTasks(t.Context(), e.stateDir, nil, stores, false)
			}
			if err != nil {
				t.Fatal(err)
			}
			if turn > 0 {
				e.feed(50) // while it is rebuilt
			}
			r.Until(fmt.Sprint(done, " rebuilds"), func(txn.Status) bool { return e.rebuilt() >= done })
			e.feed(50)
			e.until(r, len(e.fed[0]))
		}
		for _, tasks := range [][]graph.TaskID{{{Subtopology: "absent"}}, {{Subtopology: e.in, Partition: 7}}} {
			if err := r.Rebuild(tasks); !errors.Is(err, txn.ErrNoSuchTask) {
				t.Errorf("rebuilding %v gave %v, want ErrNoSuchTask", tasks, err)
			}
		}
		if err := r.Rebuild(nil, "other"); !errors.Is(err, txn.ErrNoSuchTask) {
			t.Errorf("rebuilding another store gave %v, want ErrNoSuchTask", err)
		}
		if err := r.Stop(); err != nil {
			t.Fatal(err)
		}
		e.process(100, len(e.fed[0]))
		e.check()
		if right, wrong := e.values("counts", 1); right != recoveryPartitions*keys || wrong != 0 {
			t.Errorf("%d keys are right and %d wrong", right, wrong)
		}
		e.goesOn(len(e.fed[0]), 10)
	})
}

// TestRebuildStoreOfDamaged: where a database is damaged, its other stores cannot be kept. The
// rebuild of one store is then given up, and the task is restored in full as it would be at any
// start; it does not stay away.
func TestRebuildStoreOfDamaged(t *testing.T) {
	t.Parallel()
	cluster.OnVirtual(t, func(t *testing.T, c *cluster.Cluster) {
		e := begun(t, c)
		r := e.start()
		e.until(r, 200)
		e.process(100, 200)
		if err := r.Stop(); err != nil {
			t.Fatal(err)
		}
		r = e.start()
		e.until(r, 200)
		tables, err := filepath.Glob(filepath.Join(e.stateDir, "tasks", e.in, "*", "*.sst"))
		if err != nil || len(tables) == 0 {
			t.Fatalf("there are the tables %v, %v", tables, err)
		}
		for _, table := range tables {
			content, err := os.ReadFile(table)
			if err != nil {
				t.Fatal(err)
			}
			for i := range len(content) / 2 {
				content[i] ^= 0x55
			}
			if err := os.WriteFile(table, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Rebuild(nil, "counts"); err != nil {
			t.Fatal(err)
		}
		e.feed(20)
		e.until(r, 220)
		e.process(200, 220)
		e.check()
	})
}
