package task

import (
	"maps"
	"slices"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/broker"
)

// Contribution is what one task adds to one round.
type Contribution struct {
	Task *Task
	// Journal is everything that the round took, in order: an abort runs it again.
	Journal []Entry
	// Taken says for each input what the journal holds of it. It is kept up to date while a record
	// is at work, so that ending a round does not read the journal.
	Taken []Taken
	// Counts are the sums of the outcomes, each outcome once, that are published when the round is
	// applied.
	Counts []graph.OutcomeCount
	// Worked is false while the journal holds control records only: they move the position but are
	// no reason to commit.
	Worked bool
	// DeadLetters counts the records that ended as one, DeadLetterCauses the same by what failed.
	DeadLetters int64
	// Punctuations counts those by the wall clock that left something.
	Punctuations     int64
	DeadLetterCauses map[DeadLetterCause]int64
	// Outputs counts the records to produce, dead letters included.
	Outputs int64
	// Missed is why the task stops at this round, which is committed: its database has stopped and
	// may not have taken it. It is set on the goroutine of the round's producer, before it answers,
	// and nil otherwise.
	Missed error

	// StateBytes is the memory of the task's open overlay as last counted.
	StateBytes int64

	// countAt is where the outcome is expected that is counted next, countOf where each outcome is.
	countAt int
	countOf map[outcome]int

	before []state.Input // working positions when the round began
	// otherForms says of each table whether it has taken a key in another form than its codec
	// writes; nil if none has.
	otherForms []bool
	// parkedBefore says how many records were parked then, parked how many are at its end.
	parkedBefore, parked []graph.Parked

	// From here on set by Seal.

	// Layer holds the round's writes; nil for a task without stores.
	Layer *state.Layer
	// Base are the positions that the store must be at, Next those after the round. Next is
	// complete once the round is flushed.
	Base, Next state.Positions
	retry      CommittedRetry
	offsets    []broker.Offset
	metadata   string
}

// DeadLetterCause says of a dead letter where its record failed and with which class.
type DeadLetterCause struct {
	Node  string
	Class graph.Class
}

// Begin starts the task's contribution to a round.
func (t *Task) Begin() *Contribution {
	return &Contribution{
		Task: t, Journal: t.spare.take(), Taken: make([]Taken, len(t.inputs)), before: t.WorkingInputs(), parkedBefore: t.parked,
	}
}

// Took notes a record or a punctuation that joined, and returns its memory.
func (c *Contribution) Took(e Entry, v *graph.Verdict) (bytes int64) {
	bytes = c.join(e)
	c.Worked = true
	if e.Record == nil && !e.isRelease() {
		c.Punctuations++
	}
	c.Outputs += int64(len(v.Outputs))
	c.tookKey(e)
	if v.Action == graph.DeadLetter {
		c.DeadLetters++
		if c.DeadLetterCauses == nil {
			c.DeadLetterCauses = map[DeadLetterCause]int64{}
		}
		c.DeadLetterCauses[DeadLetterCause{v.Failure.Node, v.Failure.Class}]++
	}
	for i := range v.Counts {
		c.count(&v.Counts[i])
	}
	return bytes
}

// join adds an entry to the journal, and returns its memory.
func (c *Contribution) join(e Entry) (bytes int64) {
	c.Journal = append(c.Journal, e)
	bytes = e.Bytes()
	if e.Record != nil {
		c.Taken[e.Input].add(e.Record, bytes)
	}
	return bytes
}

// tookKey notes whether tables take a key in another form than its codec writes.
func (c *Contribution) tookKey(e Entry) {
	for i, table := range c.Task.Tables {
		if e.Input == table.Input && e.Record != nil && !c.hasOtherForms(i) && !table.Written(e.Record.Key) {
			if c.otherForms == nil {
				c.otherForms = make([]bool, len(c.Task.Tables))
			}
			c.otherForms[i] = true
		}
	}
}

func (c *Contribution) hasOtherForms(table int) bool {
	return c.otherForms != nil && c.otherForms[table]
}

// TookControl notes a control record, and returns its memory: it only moves the position.
func (c *Contribution) TookControl(e Entry) (bytes int64) { return c.join(e) }

// Seal freezes the contribution on top of the committed positions. It is called when no earlier
// round is in flight.
func (c *Contribution) Seal(now time.Time) {
	t := c.Task
	c.Base = t.Committed
	c.Next = t.Committed.Clone()
	c.Next.Inputs = t.WorkingInputs()
	c.Next.WrittenAt = now.UnixMilli()
	c.retry = t.retry.committed(t.inputs)
	if t.Graph != nil {
		c.parked = t.Graph.Parked()
		t.parked = c.parked
	}
	for i := range c.Next.Inputs {
		in := &c.Next.Inputs[i]
		// The first input always commits, because it carries the metadata; the others once, and
		// then if they moved.
		if i == 0 || !t.named || in.Offset != c.before[i].Offset {
			c.offsets = append(c.offsets, broker.Offset{
				Topic: in.Topic, Partition: in.Partition, At: in.Offset, LeaderEpoch: t.epochs[i],
			})
		}
	}
	if t.State != nil {
		c.Layer = t.State.Freeze()
	}
}

// First reports whether this is the task's first commit by a round of this incarnation.
func (c *Contribution) First() bool { return !c.Task.named }

// WroteState reports whether the round has changed state that a commit names. A round that has
// written to stores in Lost alone has not: a database without its writes is as complete as before.
func (c *Contribution) WroteState() bool { return c.Layer != nil && c.Layer.Wrote(c.Task.Lasts) }

// Flushed completes Next: the round's id, which with wroteState is that of the state too, and for
// every changelog that was written the offset after its last record.
func (c *Contribution) Flushed(round state.RoundID, wroteState bool, fingerprint [8]byte, applied map[string]int64) {
	c.Next.Round = round
	if wroteState {
		c.Next.State = round
	}
	for i := range c.Next.Changelogs {
		cl := &c.Next.Changelogs[i]
		if at, ok := applied[cl.Store]; ok {
			cl.Applied, cl.Scanned = at, at
		}
		if c.Layer != nil {
			cl.StreamTime = c.Layer.StreamTime(state.IDOf(cl.Store))
		}
	}
	for i, table := range c.Task.Tables {
		c.digest(i, table)
	}
	b := NewCommitMetadata(fingerprint, c.named())
	b.Retry, b.Mode = c.retry, c.Task.Mode
	for _, p := range c.parked {
		if p.Records > 0 {
			b.Parked = append(b.Parked, CommittedParked{Store: p.Store, Records: p.Records})
		}
	}
	c.metadata = b.Encode()
}

// named returns the part of Next that a commit names.
func (c *Contribution) named() state.Positions {
	p := c.Next
	if len(c.Task.Lost) > 0 {
		p.Changelogs = slices.DeleteFunc(slices.Clone(p.Changelogs), func(cl state.Changelog) bool { return !c.Task.Lasts(state.IDOf(cl.Store)) })
	}
	return p
}

// digest sets the position of a store that is restored from an input: where that input is, and what
// was taken of it in all.
func (c *Contribution) digest(i int, table Table) {
	at, _ := c.Base.Changelog(table.Store)
	for _, e := range c.Journal {
		if e.Input == table.Input && e.Record != nil && !e.IsControl() {
			at.StreamTime = AddToDigest(at.StreamTime, e.Record.Offset)
		}
	}
	if c.hasOtherForms(i) {
		at.StreamTime |= otherForm
	}
	at.Applied = c.Next.Inputs[table.Input].Offset
	at.Scanned = at.Applied
	c.Next.SetChangelog(at)
}

// Refer replaces metadata that is too large by a reference to the record that holds it.
func (c *Contribution) Refer(partition int32, offset int64) {
	c.metadata = Reference{Round: c.Next.Round, Partition: partition, Offset: offset}.Encode()
}

// Metadata is what the round's commit carries for this task.
func (c *Contribution) Metadata() string { return c.metadata }

// Offsets returns what the round commits for this task, the metadata in the first one.
func (c *Contribution) Offsets() []broker.Offset {
	c.offsets[0].Metadata = c.metadata
	return c.offsets
}

// StreamTime is the task's stream time at the end of the round, state.NoTime when no record ever
// moved it.
func (c *Contribution) StreamTime() int64 {
	latest := state.NoTime
	for i := range c.Next.Inputs {
		latest = max(latest, c.Next.Inputs[i].StreamTime)
	}
	return latest
}

// Apply writes the round to the store. It runs on the goroutine of the round's producer, behind the
// commit: the next round is computed meanwhile.
func (c *Contribution) Apply() error {
	if c.Layer == nil {
		return nil
	}
	return c.Task.State.Apply(c.Layer, c.Base, c.Next)
}

// Expire has the store remove the rows that have expired. It follows Apply, on the same goroutine.
func (c *Contribution) Expire() error {
	if c.Layer == nil {
		return nil
	}
	return c.Task.State.Expire(c.Layer, c.Next)
}

// Retire ends a committed contribution: its positions are the committed ones now. A task that
// missed the round keeps no layer: it works no more, and what the round wrote is in the changelogs.
func (c *Contribution) Retire() {
	c.Task.Committed, c.Task.Metadata = c.Next, c.metadata
	c.Task.named = true
	c.Task.Parked = c.parked
	maps.DeleteFunc(c.Task.refused, func(p place, _ string) bool { return p.offset < c.Next.Inputs[p.input].Offset })
	switch {
	case c.Layer == nil:
	case c.Missed != nil:
		c.Task.State.Drop()
	default:
		c.Task.State.Retire(c.Layer)
	}
}

// Reuse keeps the journal's memory for a later contribution of the task. It is for a contribution
// that is committed and whose journal is not read any more.
func (c *Contribution) Reuse() {
	c.Task.spare.put(c.Journal)
	c.Journal = nil
}

// PutBack ends an aborted contribution: the working positions return to where it began and its
// journal is what comes next. The state's layers are dropped by the caller, all of them at once.
func (c *Contribution) PutBack() {
	t := c.Task
	copy(t.inputs, c.before)
	t.parked = c.parkedBefore
	if t.Graph != nil {
		t.Graph.Rewind(t.parked)
	}
	t.PutBack(c.Journal)
}
