package topologytest

import (
	"fmt"
	"time"

	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// CommitByHand lets the test end the transactions. Only [Driver.Commit] and [Driver.Restart]
// commit; [Driver.Crash] and [Driver.Abort] undo the work since the last commit.
//
// Uncommitted work is visible only in stores, and not in outputs, dead letters and counts. It is
// not visible in the topics between subtopologies either. So a record needs one commit for each
// subtopology that it goes through.
//
// A unit of work that is tried again in place commits the work before it. A runtime does the same:
// it does not wait inside a transaction, and it commits the number of attempts.
//
// Without this option each unit of work is committed at once.
func CommitByHand() Option { return func(s *settings) { s.byHand = true } }

// round is the work since the last commit that is not in tasks, with CommitByHand.
type round struct {
	// units are in the order of processing.
	units   []unit
	outputs []graph.Output
	counts  []graph.OutcomeCount
}

// unit is a processed unit of work: the next record of an input, or a punctuation if input is nil.
type unit struct {
	task        *task
	input       *partition
	punctuation topology.Punctuation
}

// retry is how often a record was tried, and since when it fails. Its input is nil for a
// punctuation.
type retry struct {
	input        *partition
	offset       int64
	attempts     int
	firstFailure time.Time
}

// kept is the part of a task that a crash does not undo.
type kept struct {
	streamTime int64
	retry      retry
	parked     []graph.Parked
}

// Commit ends the transaction of [CommitByHand] and begins the next one: all work since the last
// commit becomes readable, and no crash undoes it. It is one transaction for all tasks. Then tasks
// process the records that they could not read before, as a part of the next transaction. The error
// is that of [Pipe]. To commit everything that follows from a record:
//
//	for d.Uncommitted() > 0 {
//		if err := d.Commit(); err != nil {
//			return err
//		}
//	}
func (d *Driver) Commit() error {
	if err := d.mustBeByHand("Commit"); err != nil {
		return err
	}
	if err := d.commit(); err != nil {
		return err
	}
	return d.run()
}

// Uncommitted returns the number of units of work since the last commit: records, and wall-clock
// punctuations that have changed or written something. It is 0 without [CommitByHand].
func (d *Driver) Uncommitted() int { return len(d.round.units) }

// Crash ends the program without a warning and starts it again. It undoes all work since the last
// commit: store writes, outputs, dead letters, counts, positions in topics and stream time. It
// makes new graphs, as [Driver.Restart] does. So a stopped task runs again and wall-clock schedules
// start again; firings that were undone are not repeated. Piped records stay in their topics.
//
// Before the call returns, the records since the last commit are processed again in the same order,
// so that they have the same outputs. (A runtime keeps that order for each topic and partition.)
// Then parked and delayed records come that are due. A record that had failed before the last
// commit continues with its number of attempts.
//
// The clock does not go back. Nor do Go variables outside of the graphs, which reveals a handler
// that keeps an effect in one. The error is that of [Pipe]. Without [CommitByHand] Crash returns an
// error, because nothing can be undone.
func (d *Driver) Crash() error {
	if err := d.mustBeByHand("Crash"); err != nil {
		return err
	}
	done := d.undo()
	for _, tk := range d.tasks {
		tk.retry = tk.kept.retry
	}
	if err := d.reopen(); err != nil {
		return err
	}
	for _, u := range done {
		if u.input != nil {
			u.again()
		}
	}
	return d.Advance(0)
}

// Abort undoes the work since the last commit, as Crash does, and the program goes on: the cluster
// has aborted its transaction. The graphs stay, with the Go variables of their handlers. That
// reveals a handler that keeps an effect in one. Before the call returns, all undone work is done
// again in the same order. Wall-clock punctuations get the same times again. A stopped task stays
// stopped. A record that failed since the last commit counts its attempts from the beginning.
//
// The error is that of [Pipe]. Without [CommitByHand] Abort returns an error, because nothing can
// be undone.
func (d *Driver) Abort() error {
	if err := d.mustBeByHand("Abort"); err != nil {
		return err
	}
	done := d.undo()
	for _, tk := range d.tasks {
		tk.graph.Rewind(tk.kept.parked)
	}
	for _, u := range done {
		u.again()
	}
	return d.run()
}

func (d *Driver) mustBeByHand(what string) error {
	if d.settings.byHand {
		return nil
	}
	return fmt.Errorf("topologytest: %s: each unit of work is committed at once without the option CommitByHand", what)
}

// commit makes the work so far permanent: no crash undoes it.
func (d *Driver) commit() error {
	for _, tk := range d.tasks {
		if err := tk.commit(); err != nil {
			return fmt.Errorf("topologytest: %w", err)
		}
		if d.settings.byHand {
			tk.keep()
		}
	}
	done := d.round
	d.round = round{}
	d.publish(done.outputs, done.counts)
	return nil
}

// undo reverts everything to the last commit, and returns the units since then.
func (d *Driver) undo() (done []unit) {
	done = d.round.units
	d.round = round{}
	for _, tk := range d.tasks {
		tk.undo()
		d.ready.add(tk.index)
	}
	return done
}

// again processes the unit again, unless its task is stopped. The record is the first one of its
// input, because all records before it are processed.
func (u *unit) again() {
	switch {
	case u.task.stopped != nil:
	case u.input != nil:
		u.task.process(u.input)
	default:
		u.task.fire(u.punctuation)
	}
}

// keep notes the state of the task at a commit.
func (t *task) keep() {
	for _, in := range t.inputs {
		in.drop()
	}
	t.kept = kept{streamTime: t.streamTime, retry: t.retry, parked: t.graph.Parked()}
}

// undo reverts the task to the last commit.
func (t *task) undo() {
	t.state.Drop()
	for _, in := range t.inputs {
		in.rewind()
	}
	t.streamTime = t.kept.streamTime
}

// triedBefore returns the known number of earlier attempts of the first record of an input.
func (t *task) triedBefore(p *partition) retry {
	if t.retry.input == p && t.retry.offset == p.position {
		return t.retry
	}
	return retry{input: p, offset: p.position}
}

// keepAttempts commits before the pause after a failed attempt, with CommitByHand.
func (t *task) keepAttempts(r retry) error {
	if !t.driver.settings.byHand {
		return nil
	}
	if r.input != nil {
		t.retry = r
	}
	return t.driver.commit()
}
