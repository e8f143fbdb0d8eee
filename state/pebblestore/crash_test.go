package pebblestore_test

import (
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/pebblestore"
	"github.com/onceward/onceward/state/statetest"
)

// crashRun is one life of a database with crashes in it.
type crashRun struct {
	seed   uint64
	rounds int
	// heavy makes rounds so many times as large, 0 is once.
	heavy   int
	history *statetest.History
	// wrap puts a deliberately broken layer over the database, for the control.
	wrap func(state.Database) state.Database

	crashes, lost int
}

// open makes tables small, so that a short history has flushes, compactions, large batches and
// several levels. The larger ones let rounds stay in the buffer.
func (r *crashRun) open(fs vfs.FS, rng *rand.Rand) (state.Database, error) {
	options := pebblestore.Options{FS: fs, FlushBytes: 1 << (12 + rng.IntN(7))}
	if rng.IntN(2) == 0 {
		options = pebblestore.CompactEarly(options)
	}
	db, err := pebblestore.Open("task", options)
	if err != nil || r.wrap == nil {
		return db, err
	}
	return r.wrap(db), nil
}

// run applies the history round by round and crashes now and then: it clones the file system as a
// crash at this moment would leave it, with 0 to 100 % of what was not synced, and expects of the
// clone that it opens at one of the rounds and can be brought to the end. The life of the original
// goes on meanwhile, so that flushes and compactions are under way at the moment of most crashes.
func (r *crashRun) run() error {
	rng := rand.New(rand.NewPCG(r.seed, 1))
	r.history = statetest.NewHistory(rng, r.rounds, 60*max(r.heavy, 1), 1+rng.IntN(400))
	fs := vfs.NewCrashableMem()
	db, err := r.open(fs, rng)
	if err != nil {
		return err
	}
	if err := db.Declare(r.history.Stores()...); err != nil {
		return errors.Join(err, db.Close())
	}
	for i := range r.history.Rounds {
		if err := r.history.Apply(db, i, i+1); err != nil {
			return errors.Join(err, db.Close())
		}
		if rng.IntN(20) == 0 { // a batch of another kind, at the positions of the last round
			if err := db.Declare(state.Declaration{Name: fmt.Sprint("declared after round ", i+1)}); err != nil {
				return errors.Join(err, db.Close())
			}
		}
		durable := 0
		if rng.IntN(20) == 0 {
			if err := db.Flush(); err != nil {
				return errors.Join(err, db.Close())
			}
			durable = i + 1
		}
		if rng.IntN(12) != 0 && durable == 0 {
			continue
		}
		clone := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
		if err := r.recover(clone, rng, durable, i+1, 2); err != nil {
			return errors.Join(fmt.Errorf("crash after round %d: %w", i+1, err), db.Close())
		}
	}
	n, err := r.history.Verify(db)
	if err == nil && n != len(r.history.Rounds) {
		err = fmt.Errorf("ended at round %d", n)
	}
	return errors.Join(err, db.Close())
}

// recover opens what a crash left, which must have between durable and applied rounds, and brings
// it to the end. On the way it crashes again.
func (r *crashRun) recover(fs *vfs.MemFS, rng *rand.Rand, durable, applied, crashes int) (err error) {
	r.crashes++
	db, err := r.open(fs, rng)
	if err != nil {
		return fmt.Errorf("reopen: %w", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	n, err := r.history.Verify(db)
	if err != nil {
		return fmt.Errorf("reopened: %w", err)
	}
	if n < durable || n > applied {
		return fmt.Errorf("reopened at round %d: %d were flushed and %d applied", n, durable, applied)
	}
	r.lost += applied - n
	// The names went in before the first round. A database that lost them too is new.
	if names, err := db.Stores(); err != nil || n > 0 && len(names) < len(r.history.Stores()) {
		return errors.Join(err, fmt.Errorf("at round %d the names of the stores are %q", n, names))
	}
	if err := db.Declare(r.history.Stores()...); err != nil {
		return err
	}
	for i := n; i < len(r.history.Rounds); i++ {
		if err := r.history.Apply(db, i, i+1); err != nil {
			return err
		}
		if crashes > 0 && rng.IntN(40) == 0 {
			clone := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
			if err := r.recover(clone, rng, 0, i+1, crashes-1); err != nil {
				return fmt.Errorf("second crash after round %d: %w", i+1, err)
			}
			crashes--
		}
	}
	if n, err := r.history.Verify(db); err != nil || n != len(r.history.Rounds) {
		return errors.Join(err, fmt.Errorf("replayed to round %d", n))
	}
	return nil
}

// crashOperations is how many writes the crash test makes: as many as the environment says (make
// soak-state), 100,000 otherwise, fewer with -short and where each is slow. The seeds begin with
// the one that the environment names.
func crashOperations(t *testing.T) (operations int, seed uint64) {
	t.Helper()
	operations = 100_000
	switch {
	case pebblestore.RaceDetector:
		operations = 2000
	case testing.Short():
		operations = 20_000
	}
	for name, set := range map[string]func(n uint64){
		"ONCEWARD_STATE_OPERATIONS": func(n uint64) { operations = int(n) }, "ONCEWARD_STATE_SEED": func(n uint64) { seed = n },
	} {
		if text := os.Getenv(name); text != "" {
			n, err := strconv.ParseUint(text, 10, 63)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			set(n)
		}
	}
	return operations, seed
}

func TestCrashLeavesAPrefixOfWholeRounds(t *testing.T) {
	wanted, seed := crashOperations(t)
	operations, crashes, lost, runs := 0, 0, 0, 0
	for ; operations < wanted; runs, seed = runs+1, seed+1 {
		r := &crashRun{seed: seed, rounds: 60}
		if runs%4 == 3 {
			r.heavy = 10
		}
		if err := r.run(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		operations += r.history.Operations()
		crashes += r.crashes
		lost += r.lost
	}
	t.Logf("%d operations, %d crashes, %d rounds lost and replayed; the next seed is %d", operations, crashes, lost, seed)
	if crashes < runs || lost == 0 {
		t.Errorf("%d crashes lost %d rounds: the test does not crash where it hurts", crashes, lost)
	}
}

// torn writes the data of a round and its positions in two batches.
type torn struct{ state.Database }

func (d torn) Apply(base, next state.Positions, writes iter.Seq[state.Write]) error {
	if err := d.Database.Apply(base, base, writes); err != nil {
		return err
	}
	if next.Round.Epoch%8 == 0 {
		if err := d.Flush(); err != nil { // a flush between the two
			return err
		}
	}
	return d.Database.Apply(base, next, func(func(state.Write) bool) {})
}

// TestCrashTestFindsTornRounds is the control: positions and data in two batches must not pass.
func TestCrashTestFindsTornRounds(t *testing.T) {
	for seed := range uint64(20) {
		r := &crashRun{seed: seed, rounds: 60}
		r.wrap = func(db state.Database) state.Database { return torn{db} }
		if err := r.run(); err != nil {
			t.Logf("found with seed %d: %.300v", seed, err)
			return
		}
	}
	t.Error("the crash test passes a database that tears rounds apart")
}
