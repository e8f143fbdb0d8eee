package worker

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"testing"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/memstore"
	"github.com/onceward/onceward/txn/internal/protocol"
	"github.com/onceward/onceward/txn/internal/task"
)

// refusing is a database that refuses one of the steps of a committed round.
type refusing struct {
	state.Database
	applying, expiring, closing error
}

func (d *refusing) Apply(base, next state.Positions, writes iter.Seq[state.Write]) error {
	if d.applying != nil {
		return d.applying
	}
	return d.Database.Apply(base, next, writes)
}

func (d *refusing) Remove(base, next state.Positions, store state.StoreID, r state.Range) error {
	if d.expiring != nil {
		return d.expiring
	}
	return d.Database.Remove(base, next, store, r)
}

func (d *refusing) Close() error { return errors.Join(d.closing, d.Database.Close()) }

// refusingTask is a task with a window store in which rows expire with its first write, and one
// contribution of it that is ready to be applied.
func refusingTask(t *testing.T, d *refusing) (*task.Task, *task.Contribution) {
	t.Helper()
	d.Database = memstore.New()
	st, err := state.NewTask(d, []state.Declaration{{Name: "w", Layout: state.Layout{
		Kind: state.WindowKind, Retention: 60_000,
	}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Database.Close(); err != nil {
			t.Error(err)
		}
	})
	tk := task.New(task.Spec{State: st})
	st.Store("w").Advance(1 << 40)
	return tk, &task.Contribution{Task: tk, Layer: st.Freeze(), Next: state.Positions{Round: state.RoundID{ProducerID: 1}}}
}

// TestApplyStopsOneTask: what a disk does to a committed round is the matter of its task; what
// contradicts the log is the end of the process. The neighbour, whose store takes the round, has it
// either way when it comes first.
func TestApplyStopsOneTask(t *testing.T) {
	disk := &fs.PathError{Op: "write", Path: "p", Err: errors.New("input/output error")}
	for _, tc := range []struct {
		name   string
		db     refusing
		missed bool
		kind   protocol.EventKind
	}{
		{"nothing", refusing{}, false, protocol.Applied},
		{"I/O error", refusing{applying: fmt.Errorf("%w: %w", state.ErrFailed, disk)}, true, protocol.Applied},
		{"full disk", refusing{applying: state.ErrFull}, true, protocol.Applied},
		{"damage", refusing{applying: fmt.Errorf("x: %w", state.ErrCorrupt)}, true, protocol.Applied},
		{"another base", refusing{applying: &state.BaseError{}}, false, protocol.ApplyFailed},
		{"another error", refusing{applying: errors.New("x")}, false, protocol.ApplyFailed},
		{"I/O error while expiring", refusing{expiring: fmt.Errorf("%w: %w", state.ErrFailed, disk)}, true, protocol.Applied},
		{"failed read while expiring", refusing{expiring: disk}, true, protocol.Applied},
		{"another base while expiring", refusing{expiring: &state.BaseError{}}, false, protocol.ApplyFailed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			first, next := refusing{}, tc.db
			healthy, before := refusingTask(t, &first)
			_, c := refusingTask(t, &next)
			kind, err := (&committer{}).apply(&round{contributions: []*task.Contribution{before, c}})
			if kind != tc.kind || (err != nil) != (kind == protocol.ApplyFailed) {
				t.Errorf("the round ends with %s and %v, want %s", kind, err, tc.kind)
			}
			if (c.Missed != nil) != tc.missed || before.Missed != nil {
				t.Errorf("the task missed the round because of %v, its neighbour because of %v", c.Missed, before.Missed)
			}
			for _, is := range []error{tc.db.applying, tc.db.expiring} {
				if is != nil && !errors.Is(errors.Join(err, c.Missed), is) {
					t.Errorf("the reason %v is not told: %v, %v", is, err, c.Missed)
				}
			}
			if got := healthy.State.Positions().Round; got != before.Next.Round {
				t.Errorf("the neighbour is at round %s", got)
			}
		})
	}
}

// TestCloseOfStoppedDatabase: what a task that is stopped has told already is not told again as a
// failure of the worker.
func TestCloseOfStoppedDatabase(t *testing.T) {
	w := &Worker{log: slog.New(slog.DiscardHandler)}
	for _, tc := range []struct {
		err      error
		of, want bool // whether it fails the worker, of a task that is stopped, and of one that works
	}{
		{state.ErrFull, false, false},
		{fmt.Errorf("x: %w", state.ErrFailed), false, true},
		{fmt.Errorf("x: %w", state.ErrCorrupt), false, true},
		{errors.New("x"), true, true},
	} {
		stopped, _ := refusingTask(t, &refusing{closing: tc.err})
		stopped.Halt(tc.err)
		if err := w.closeTask(stopped); (err != nil) != tc.of {
			t.Errorf("%v: the close of a stopped task returns %v", tc.err, err)
		}
		works, _ := refusingTask(t, &refusing{closing: tc.err})
		if err := w.closeTask(works); (err != nil) != tc.want {
			t.Errorf("%v: the close of a task that works returns %v", tc.err, err)
		}
	}
}
