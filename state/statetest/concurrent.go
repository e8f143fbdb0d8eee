package statetest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/onceward/onceward/state"
)

// testConcurrent lets views and reads run beside batches. Every batch gives all keys of all stores
// one value, the number of the batch, so that a reader that sees two values in one view has seen
// half a batch.
func testConcurrent(t *testing.T, db state.Database) {
	const batches, readers = 200, 3
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range readers {
		wg.Go(func() {
			for {
				if err := checkUniform(db); err != nil {
					t.Error(err)
					return
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for n := range int64(batches) {
		var writes []state.Write
		for _, name := range storeNames {
			for _, key := range keys {
				writes = append(writes, setTo(name, key, strconv.FormatInt(n+1, 10)))
			}
		}
		mustApply(t, db, n, writes...)
	}
	close(done)
	wg.Wait()
}

// checkUniform opens a view and expects one value everywhere: the number in the view's positions.
func checkUniform(db state.Database) (err error) {
	v, err := db.View()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.Close()) }()
	want := ""
	if in, ok := v.Positions().Input("in", 0); ok {
		want = strconv.FormatInt(in.Offset, 10)
	}
	for _, name := range storeNames {
		entries, err := collect(v.Scan(state.IDOf(name), state.Range{}), nil)
		if err != nil {
			return err
		}
		if len(entries) > 0 && len(entries) != len(keys) {
			return fmt.Errorf("a view of %d entries, want %d", len(entries), len(keys))
		}
		for _, e := range entries {
			if e.value != want {
				return fmt.Errorf("a view at batch %q holds %q", want, e.value)
			}
		}
	}
	// A read without a view sees whole batches too: never an older value than the view did.
	value, ok, err := db.Get(state.IDOf(storeNames[0]), []byte(keys[0]))
	if err != nil {
		return err
	}
	if seen, _ := strconv.Atoi(want); ok {
		if now, _ := strconv.Atoi(string(value)); now < seen {
			return fmt.Errorf("a read after batch %d returned %d", seen, now)
		}
	}
	return nil
}

// testConcurrentTask is the life of a worker: the owner writes round n+1 and reads through all
// layers while another goroutine reads the writes of round n and applies them.
func testConcurrentTask(t *testing.T, db state.Database) {
	const rounds = 150
	task, err := state.NewTask(db, state.KeyValues(storeNames...))
	if err != nil {
		t.Fatal(err)
	}
	type job struct {
		layer      *state.Layer
		base, next state.Positions
	}
	jobs, results := make(chan job), make(chan error)
	var wg sync.WaitGroup
	wg.Go(func() {
		for j := range jobs {
			changelog := 0
			for range j.layer.Writes() {
				changelog++
			}
			if changelog != j.layer.Len() {
				results <- fmt.Errorf("%d writes of %d", changelog, j.layer.Len())
				continue
			}
			results <- task.Apply(j.layer, j.base, j.next)
		}
	})
	var inFlight *state.Layer
	for n := range int64(rounds) {
		if err := ownRound(task, n); err != nil {
			t.Fatal(err)
		}
		if inFlight != nil {
			if err := <-results; err != nil {
				t.Fatal(err)
			}
			task.Retire(inFlight)
		}
		inFlight = task.Freeze()
		jobs <- job{inFlight, at(n), at(n + 1)}
	}
	if err := <-results; err != nil {
		t.Fatal(err)
	}
	task.Retire(inFlight)
	close(jobs)
	wg.Wait()
	if !task.Positions().Equal(at(rounds)) {
		t.Errorf("the task ended at %v", task.Positions())
	}
	if got, err := collect(db.Scan(state.IDOf(storeNames[0]), state.Range{}), nil); err != nil ||
		!slices.ContainsFunc(got, func(e entry) bool { return e.value == strconv.Itoa(rounds) }) {
		t.Errorf("the database ended with %q, %v", got, err)
	}
}

// ownRound counts every key up by one, with a record that fails in between.
func ownRound(task *state.Task, n int64) error {
	for _, name := range storeNames {
		b := task.Store(name)
		for _, key := range keys {
			value, _, err := b.Get([]byte(key))
			if err != nil {
				return err
			}
			if was, _ := strconv.ParseInt(string(value), 10, 64); was != n {
				return fmt.Errorf("round %d: %s %q is %q", n+1, name, key, value)
			}
			task.Mark()
			if err := b.Put([]byte(key), strconv.AppendInt(nil, n+1, 10)); err != nil {
				return err
			}
			task.Mark()
			if err := b.Delete([]byte(key)); err != nil {
				return err
			}
			task.Revert()
		}
		got, err := collect(b.Scan(state.Range{Reverse: n%2 == 0}), nil)
		if err != nil {
			return err
		}
		if len(got) != len(keys) {
			return fmt.Errorf("round %d: a scan of %s has %d entries, want %d",
				n+1, name, len(got), len(keys))
		}
	}
	return nil
}
