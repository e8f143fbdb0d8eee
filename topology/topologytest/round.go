package topologytest

import (
	"fmt"
	"time"

	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// CommitByHand leaves it to the test when the transactions end: nothing is committed but by
// [Driver.Commit] and [Driver.Restart], and [Driver.Crash] and [Driver.Abort] undo what was done
// since. What is not committed shows nowhere but in the stores: not in outputs, dead letters and
// counts, and not in the topics between subtopologies, whose tasks go on behind the commit, so that
// a record takes one commit for each subtopology that it goes through.
//
// A unit of work that is tried again in place commits what was done before it, whatever the test
// says. A runtime does not wait inside a transaction, and keeps in the commit how often the record
// was tried.
//
// Without this option each unit of work is committed at once.
func CommitByHand() Option { return func(s *settings) { s.byHand = true } }

// round is what was done since the last commit, where that is made by hand, as far as it is not in
// tasks.
type round struct {
	// units are in the order in which they were done.
	units   []unit
	outputs []graph.Output
	counts  []graph.Tally
}

// unit is a piece of work that was done: the record of an input that came next, or a punctuation if
// input is nil.
type unit struct {
	task        *task
	input       *partition
	punctuation topology.Punctuation
}

// retry says of a record how often it was tried, and since when it fails. Its input is nil for a
// punctuation.
type retry struct {
	input        *partition
	offset       int64
	attempts     int
	firstFailure time.Time
}

// kept is what of a task a crash does not touch.
type kept struct {
	streamTime int64
	retry      retry
	parked     []graph.Parked
}

// Commit ends the transaction of [CommitByHand] and begins the next one: all that was done since
// the last commit is readable now, and no crash undoes it. It is one transaction for all tasks.
// Then tasks process what they could not read before, which is a part of the next one; the error is
// that of [Pipe]. To commit all that follows from what was piped:
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

// Uncommitted returns how many units of work were done since the last commit: records, and
// punctuations by the wall clock that have left something. It is 0 without [CommitByHand].
func (d *Driver) Uncommitted() int { return len(d.round.units) }

// Crash ends the program without a warning and starts it again. All that was done since the last
// commit is gone: what was written to stores, outputs, dead letters and counts, the positions in
// the topics and the stream time. New graphs are made, as by [Driver.Restart], so that a stopped
// task runs again and schedules of the wall clock begin anew: their firings that are undone do not
// come again. What was piped is still there.
//
// The records that were processed since the last commit are processed again before the call
// returns, all of them in the order in which they were, so that the outputs come again as they
// were; a runtime keeps that order for each topic and partition. Then come records that are parked
// or delayed and due. A record that had failed before the last commit goes on counting attempts
// there.
//
// The clock does not go back. Nor do Go variables outside of what the graphs have made, which shows
// a handler that keeps an effect in one. The error is that of [Pipe]. Without [CommitByHand] it is
// one that says that nothing can be undone.
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

// Abort undoes what was done since the last commit, as Crash does, in a program that goes on: the
// cluster has not taken its transaction. The graphs stay, and with them what their handlers keep in
// Go variables, which shows one that keeps an effect there. All that was undone is done again
// before the call returns, in the same order, punctuations by the wall clock included, which get
// the time that they got before. A stopped task stays stopped. A record that has failed on the way
// begins to count attempts anew.
//
// The error is that of [Pipe]. Without [CommitByHand] it is one that says that nothing can be
// undone.
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

// commit makes what was done a part of what a crash leaves.
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

// undo takes everything back to the last commit, and returns what was done since.
func (d *Driver) undo() (done []unit) {
	done = d.round.units
	d.round = round{}
	for _, tk := range d.tasks {
		tk.undo()
		d.ready.add(tk.index)
	}
	return done
}

// again does the unit again, unless its task is stopped. The record is the first one of its input,
// because what came before it is done.
func (u *unit) again() {
	switch {
	case u.task.stopped != nil:
	case u.input != nil:
		u.task.process(u.input)
	default:
		u.task.fire(u.punctuation)
	}
}

// keep notes where the task is at a commit.
func (t *task) keep() {
	for _, in := range t.inputs {
		in.forget()
	}
	t.kept = kept{streamTime: t.streamTime, retry: t.retry, parked: t.graph.Parked()}
}

// undo takes the task back to the last commit.
func (t *task) undo() {
	t.state.Drop()
	for _, in := range t.inputs {
		in.rewind()
	}
	t.streamTime = t.kept.streamTime
}

// triedBefore says how often the first record of an input was tried before, as far as that is
// known.
func (t *task) triedBefore(p *partition) retry {
	if t.retry.input == p && t.retry.offset == p.position {
		return t.retry
	}
	return retry{input: p, offset: p.position}
}

// keepAttempts commits, where that is made by hand, before the pause after a failed attempt.
func (t *task) keepAttempts(r retry) error {
	if !t.driver.settings.byHand {
		return nil
	}
	if r.input != nil {
		t.retry = r
	}
	return t.driver.commit()
}
