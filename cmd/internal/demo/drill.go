package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/onceward/onceward/txn"
	"github.com/onceward/onceward/txn/admin"
)

// drill is one run: it watches how far the pipeline is and kills it where the plan says.
type drill struct {
	o        Options
	adm      *admin.Client
	feed     *feed
	pipeline *process
	started  time.Time
	said     time.Time

	// base is what was committed when the pipeline was last started.
	base float64

	counted, wasted int
	restoreKilled   bool
}

// start starts the pipeline and notes where it begins: a transaction that is listed before it has
// moved on may still be one of the life before.
func (d *drill) start(ctx context.Context) (err error) {
	if d.base, err = d.progress(ctx, 0); err != nil {
		return err
	}
	return d.pipeline.start()
}

// stepDeadline bounds every wait of the drill: a pipeline that makes no progress is a failure, not
// a hang.
const stepDeadline = 60 * time.Second

func (d *drill) run(ctx context.Context) error {
	if err := d.start(ctx); err != nil {
		return err
	}
	for i := range d.o.Kills {
		// Spread over 12 to 72 % of the input: what is left is for tries that do not count. After
		// the second one the restore is hit.
		at := 0.12 + 0.60*float64(i)/float64(max(d.o.Kills-1, 1))
		if err := d.killAt(ctx, at); err != nil {
			return err
		}
		if i == min(1, d.o.Kills-1) {
			if err := d.killRestore(ctx); err != nil {
				return err
			}
		}
		if err := d.start(ctx); err != nil {
			return err
		}
	}
	return d.finish(ctx)
}

// latest is the share of the input after which no kill may fall.
const latest = 0.90

// killAt waits until the share is committed and kills. The kill counts only if the broker still
// lists an open transaction of the application when the process is gone; otherwise the pipeline is
// started again for another try.
func (d *drill) killAt(ctx context.Context, share float64) error {
	for {
		committed, err := d.waitFor(ctx, share)
		if err != nil {
			return err
		}
		if committed > latest {
			return fmt.Errorf("at %.0f %% of the input it is too late for another kill: use more events", 100*committed)
		}
		open, err := d.strike(ctx)
		if err != nil {
			return err
		}
		if open != "" {
			say(d.o.Out, "%6.1f s  killed at %4.1f %% with the transaction %s open", time.Since(d.started).Seconds(), 100*committed, open)
			return nil
		}
		if err := d.start(ctx); err != nil {
			return err
		}
	}
}

// strike kills and returns the transaction that the broker lists as open afterwards.
func (d *drill) strike(ctx context.Context) (string, error) {
	if err := d.pipeline.kill(); err != nil {
		return "", err
	}
	open, err := d.adm.OpenTransactions(ctx, application)
	if err != nil {
		return "", err
	}
	if len(open) == 0 {
		d.wasted++
		return "", nil
	}
	d.counted++
	return open[0], nil
}

// beside is how many times a kill is to fall into a restore while other tasks have a transaction
// open, before one into a restore alone will do: how long a restore goes on beside running tasks is
// up to the machine.
const beside = 3

// killRestore stops the pipeline in order, takes the state of one task away, as a lost disk does,
// starts it again, and kills it while that task is being restored in full, if it can be while
// others already have a transaction open.
func (d *drill) killRestore(ctx context.Context) error {
	for try := range 20 {
		if err := d.start(ctx); err != nil {
			return err
		}
		committed, err := d.waitFor(ctx, 0)
		if err != nil {
			return err
		}
		if committed > latest {
			break
		}
		if err := d.stop(ctx); err != nil {
			return err
		}
		task := filepath.Join(d.pipeline.stateDir, "tasks", eventsTopic, fmt.Sprint(try%partitions))
		if err := os.RemoveAll(task); err != nil {
			return err
		}
		if err := d.start(ctx); err != nil {
			return err
		}
		restoring, err := d.waitRestore(ctx, try < beside)
		if err != nil {
			return err
		}
		if restoring == "" { // it was over too soon
			if err := d.stop(ctx); err != nil {
				return err
			}
			continue
		}
		open, err := d.strike(ctx)
		if err != nil {
			return err
		}
		if open == "" && try < beside {
			continue
		}
		d.restoreKilled = true
		with := "no transaction"
		if open != "" {
			with = "the transaction " + open
		}
		say(d.o.Out, "%6.1f s  killed at %4.1f %% while task %s was being restored, with %s open", time.Since(d.started).Seconds(), 100*d.base,
			restoring, with)
		return nil
	}
	return errors.New("no kill fell into a restore: use more events")
}

func (d *drill) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stepDeadline)
	defer cancel()
	return d.pipeline.stop(ctx)
}

// waitRestore waits until a task is being restored, as the pipeline itself says, and, if that is
// asked for, a transaction of this life is open at the same time: producers are initialised before
// any task is restored, so no older one is left. It returns no task when all of them run.
func (d *drill) waitRestore(ctx context.Context, withOpen bool) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, stepDeadline)
	defer cancel()
	return poll(ctx, func() (string, bool, error) {
		if err := d.pipeline.alive(); err != nil {
			return "", false, err
		}
		if _, err := d.progress(ctx, 0); err != nil { // the tasks beside it are fed
			return "", false, err
		}
		s, err := txn.InstanceStatus(ctx, d.pipeline.stateDir)
		if err != nil || len(s.Tasks) < partitions {
			return "", false, nil //nolint:nilerr // not up yet: asked again until the deadline
		}
		restoring, running := "", 0
		for _, t := range s.Tasks {
			switch {
			case t.State == txn.TaskRunning:
				running++
			case t.State == txn.TaskRestoring && t.Remaining > 0:
				restoring = t.ID.String()
			}
		}
		if restoring == "" {
			return "", running == partitions, nil
		}
		if !withOpen {
			return restoring, true, nil
		}
		open, err := d.adm.OpenTransactions(ctx, application)
		return restoring, len(open) > 0, err
	})
}

// waitFor waits until the share of the input is committed, the pipeline has moved on since it was
// started, and one of its transactions is open; or until everything is committed. It returns the
// share that is committed.
func (d *drill) waitFor(ctx context.Context, share float64) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, stepDeadline)
	defer cancel()
	return poll(ctx, func() (float64, bool, error) {
		if err := d.pipeline.alive(); err != nil {
			return 0, false, err
		}
		committed, err := d.progress(ctx, share)
		if err != nil || committed < share || committed <= d.base {
			return committed, false, err
		}
		open, err := d.adm.OpenTransactions(ctx, application)
		return committed, len(open) > 0 || committed >= 1, err
	})
}

// poll calls f until it is done or fails, or ctx ends.
func poll[T any](ctx context.Context, f func() (T, bool, error)) (T, error) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		v, done, err := f()
		if done || err != nil {
			return v, err
		}
		select {
		case <-ctx.Done():
			return v, fmt.Errorf("the pipeline makes no progress: %w", ctx.Err())
		case <-tick.C:
		}
	}
}

// progress returns the share of the input that is committed, shows it from time to time, and feeds
// the pipeline up to the given share, or behind what is committed.
func (d *drill) progress(ctx context.Context, share float64) (float64, error) {
	committed, _, err := d.adm.Progress(ctx, application, eventsTopic)
	if err != nil {
		return 0, err
	}
	all := len(d.feed.facts)
	if err := d.feed.beyond(ctx, max(int(committed), int(share*float64(all)))); err != nil {
		return 0, err
	}
	have := float64(committed) / float64(max(all, 1))
	if time.Since(d.said) > time.Second {
		d.said = time.Now()
		say(d.o.Out, "%6.1f s  %4.1f %%  %d of %d events committed, %d kills", time.Since(d.started).Seconds(), 100*have, committed, all, d.counted)
	}
	return have, nil
}

// finish lets the pipeline process the rest and stops it in order.
func (d *drill) finish(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*stepDeadline)
	defer cancel()
	_, err := poll(ctx, func() (float64, bool, error) {
		if err := d.pipeline.alive(); err != nil {
			return 0, false, err
		}
		share, err := d.progress(ctx, 1)
		return share, share >= 1, err
	})
	if err != nil {
		return err
	}
	return d.stop(ctx)
}
