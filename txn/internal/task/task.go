package task

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/broker"
)

// Changelog is where a store's writes go.
type Changelog struct {
	Store  string
	Topic  string
	Layout state.Layout
}

// Table is a store that is restored from an input, and has no changelog. Its position is that of
// the input, and has in the place of a stream time the digest of the records of the input that the
// store has taken: see AddToDigest.
type Table struct {
	Store string
	// Input is the index of the input in the task's sorted inputs.
	Input int
	// Written says of a key whether it has the bytes that its codec writes.
	Written func(key []byte) bool
}

// Spec is what a task is made of. Everything but the graph and the state is immutable.
type Spec struct {
	ID graph.TaskID
	// Inputs are the working positions to start from, sorted by topic.
	Inputs []state.Input
	// Changelogs are sorted by store.
	Changelogs []Changelog
	// Tables are the stores without one.
	Tables []Table
	// Lost are the stores with topology.Store.LostOnRestart, which have nothing but rows.
	Lost  []state.StoreID
	Graph *topology.Graph
	// State is nil for a task without stores.
	State *state.Task
	// Committed are the positions of the last commit.
	Committed state.Positions
	// Metadata is the text of the last commit in the first input partition, as the broker has it.
	Metadata string
	// Epoch is the ownership epoch and Member the member id under which the task was opened.
	Epoch  uint64
	Member string
	// Delays are, by topic, those of delayed retry topics among the inputs.
	Delays map[string]time.Duration
	// Retry is the record that was tried before, as the last commit says.
	Retry CommittedRetry
	// Mode is that of the application; commits carry it.
	Mode topology.Mode
	// OrderWaitMax bounds the wait for an input that lags while others have records; 0 is no wait.
	// See [OrderWaitDefault].
	OrderWaitMax time.Duration
	// Held counts what the queues of all tasks hold until they are closed, as Waiting does for one
	// input; nil counts nothing.
	Held *atomic.Int64
}

// Task is one open task. Enqueue, Read, SetEnd, Waiting, Release and InDoubtSince may be called
// from any goroutine; everything else belongs to the worker's.
type Task struct {
	Spec
	queue  *queue
	inputs []state.Input // working positions
	epochs []int32       // leader epoch of the last record per input
	retry  retry
	// named says that a round of this incarnation has committed an offset for every input. Until
	// then the group may have none for an input that never moved, and would resolve its start
	// again.
	named bool
	// dropped says that records were dropped since TookDropped was asked.
	dropped bool
	// refused are the records whose output the cluster will never take, with the reason, until they
	// are committed as dead letters.
	refused map[place]string
	// spare are the journals of rounds that are over.
	spare spare
	// headers are those of the inputs that the graph was given.
	headers headers
	// timers are punctuations that are due, in order.
	timers []Entry
	// yielded says that the last release has let a record go first.
	yielded bool
	// parked says how many records wait at the end of the last round that was sealed, Parked the
	// same of the last one that was committed.
	parked  []graph.Parked
	Parked  []graph.Parked
	stopped error
	// doubt is when a commit of the task was sent that is not resolved, nil for none. Written twice
	// a round, read by queries.
	doubt atomic.Pointer[time.Time]
}

// retry is the record that failed and is to be tried again. An abort can put older records before
// it, so it says which one it is.
type retry struct {
	at           place
	attempts     int
	firstFailure time.Time
	wakeAt       time.Time
	// long says that the wait is long enough to stop fetching meanwhile.
	long bool
}

// longRetry is the backoff from which on a waiting task's inputs are not fetched: below it, what is
// fetched is of use soon.
const longRetry = time.Second

func (r *retry) is(e Entry) bool {
	return r.attempts > 0 && r.at == e.place()
}

// committed is what a commit says of the record that is to be tried again; a punctuation is not
// played again after a restart.
func (r *retry) committed(inputs []state.Input) CommittedRetry {
	if r.attempts == 0 || r.at.input < 0 {
		return CommittedRetry{}
	}
	return CommittedRetry{
		Topic: HashName(inputs[r.at.input].Topic), Offset: r.at.offset, Attempts: r.attempts,
		FirstFailure: r.firstFailure.UnixMilli(),
	}
}

// resumed is the record that was tried before; it is tried again at once.
func resumed(b CommittedRetry, inputs []state.Input) retry {
	for i := range inputs {
		if b.Attempts > 0 && HashName(inputs[i].Topic) == b.Topic && b.Offset >= inputs[i].Offset {
			return retry{at: place{input: i, offset: b.Offset}, attempts: b.Attempts, firstFailure: time.UnixMilli(b.FirstFailure)}
		}
	}
	return retry{}
}

// New returns a task that starts at the spec's positions.
func New(s Spec) *Task {
	t := &Task{Spec: s, queue: newQueue(s.Inputs, s.OrderWaitMax)}
	t.queue.in.held = s.Held
	for i := range s.Inputs {
		if s.Graph != nil && s.Graph.HasEventTime(s.Inputs[i].Topic) {
			t.queue.inputs[i].eventTime = t.eventTime
		}
	}
	t.inputs = append([]state.Input(nil), s.Inputs...)
	t.retry = resumed(s.Retry, t.inputs)
	if s.Graph != nil {
		t.parked = s.Graph.Parked()
		t.Parked = t.parked
	}
	for i := range t.inputs {
		t.queue.inputs[i].delay = s.Delays[t.inputs[i].Topic]
	}
	t.epochs = make([]int32, len(s.Inputs))
	for i := range t.epochs {
		t.epochs[i] = -1
	}
	return t
}

// HasTable reports whether a store is restored from an input.
func (t *Task) HasTable(store state.StoreID) bool {
	for _, table := range t.Tables {
		if state.IDOf(table.Store) == store {
			return true
		}
	}
	return false
}

// Lasts reports whether the writes to a store outlive the task: those of the stores in Lost do not.
func (t *Task) Lasts(store state.StoreID) bool { return !slices.Contains(t.Lost, store) }

// Input returns the index of a topic among the task's inputs.
func (t *Task) Input(topic string) (int, bool) {
	for i := range t.Spec.Inputs {
		if t.Spec.Inputs[i].Topic == topic {
			return i, true
		}
	}
	return 0, false
}

// Enqueue hands records of one input over and returns how many bytes of that input now wait. It may
// be called from any goroutine; ok is false once the task is closed.
func (t *Task) Enqueue(input int, records []*broker.Record) (waiting int64, ok bool) {
	return t.queue.enqueue(input, records)
}

// Pull takes over what was enqueued.
func (t *Task) Pull() { t.queue.pull() }

// Next takes the next entry to process: what is to be run again, then punctuations that are due,
// then records. Records below the working position are dropped: they were processed before.
func (t *Task) Next(now time.Time) (e Entry, ok bool) {
	if len(t.timers) > 0 && len(t.queue.again) == 0 && !t.yields() {
		return t.nextTimer(), true
	}
	for {
		e, fresh, ok := t.queue.next(now)
		if !ok && len(t.timers) > 0 {
			return t.nextTimer(), true
		}
		if !ok {
			return Entry{}, false
		}
		if !fresh || e.Record.Offset >= t.inputs[e.Input].Offset {
			return e, true
		}
		t.queue.consumed(e.Input, recordBytes(e.Record))
		t.dropped = true
	}
}

func (t *Task) nextTimer() Entry {
	e := t.timers[0]
	t.timers = t.timers[1:]
	e.Punctuation.StreamTime = t.streamTime() // not before: what ran again meanwhile has moved it
	return e
}

// TookDropped reports whether Next has dropped records since the last call: their input may have
// room again.
func (t *Task) TookDropped() bool {
	dropped := t.dropped
	t.dropped = false
	return dropped
}

// Release gives back the bytes of an input's records that are committed and will not be needed
// again.
func (t *Task) Release(input int, bytes int64) { t.queue.consumed(input, bytes) }

// Waiting returns how many bytes of an input are held: queued, or processed and not committed. It
// may be called from any goroutine.
func (t *Task) Waiting(input int) int64 { return t.queue.waiting(input) }

// PutBack makes the entries the next ones, in their order.
func (t *Task) PutBack(entries []Entry) { t.queue.putBack(entries) }

// streamTime is the largest timestamp that the task has seen in any input.
func (t *Task) streamTime() int64 {
	latest := state.NoTime
	for i := range t.inputs {
		latest = max(latest, t.inputs[i].StreamTime)
	}
	return latest
}

// Advance moves the working position past an entry, and the stream time of its input up to
// eventTime, which is state.NoTime for what was not accepted: a record that failed must not expire
// anything.
func (t *Task) Advance(e Entry, eventTime int64) {
	if t.retry.is(e) {
		t.retry = retry{}
	}
	if e.Record == nil {
		return
	}
	in := &t.inputs[e.Input]
	in.Offset = e.Record.Offset + 1
	t.epochs[e.Input] = e.Record.LeaderEpoch
	in.StreamTime = max(in.StreamTime, eventTime)
}

// Postpone puts a record back until a time; the next try is one attempt further. It reports whether
// the wait is long, see Waited.
func (t *Task) Postpone(e Entry, now time.Time, backoff time.Duration) (long bool) {
	if e.Punctuation != nil {
		again := *e.Punctuation
		again.Attempt++
		e.Punctuation = &again
	}
	t.queue.putBack([]Entry{e})
	if !t.retry.is(e) {
		t.retry = retry{at: e.place(), firstFailure: now}
	}
	t.retry.attempts++
	t.retry.wakeAt = now.Add(backoff)
	t.retry.long = backoff >= longRetry
	return t.retry.long
}

// Waited reports, once, that a long wait is over.
func (t *Task) Waited() bool {
	long := t.retry.long
	t.retry.long = false
	return long
}

// WakeAt is when a postponed entry may be tried again, zero when there is none. Nothing waits for
// it that an abort has put before it.
func (t *Task) WakeAt() time.Time {
	if n := len(t.queue.again); n == 0 || !t.retry.is(t.queue.again[n-1]) {
		return time.Time{}
	}
	return t.retry.wakeAt
}

// Attempts is how often the entry that is tried again was tried.
func (t *Task) Attempts() int { return t.retry.attempts }

// FailingSince is when the entry that is tried again failed first.
func (t *Task) FailingSince() time.Time { return t.retry.firstFailure }

// Halt ends the task's work, with the reason, between two records. It keeps its offsets.
func (t *Task) Halt(why error) { t.stopped, t.retry = why, retry{} }

// Stopped returns why the task does not work any more, nil while it does.
func (t *Task) Stopped() error { return t.stopped }

// SetDoubt notes that a commit of the task was sent at that time, and is in doubt until it is
// answered or resolved; nil ends the doubt.
func (t *Task) SetDoubt(since *time.Time) { t.doubt.Store(since) }

// InDoubtSince returns when the commit in doubt was sent; ok is false if no commit is in doubt. It
// may be called from any goroutine.
func (t *Task) InDoubtSince() (since time.Time, ok bool) {
	if at := t.doubt.Load(); at != nil {
		return *at, true
	}
	return time.Time{}, false
}

// WorkingInputs returns a copy of the working positions.
func (t *Task) WorkingInputs() []state.Input { return append([]state.Input(nil), t.inputs...) }

// Backlog reports whether there is something to process now. Records that wait for a lagging input
// are not: what was done before them commits meanwhile.
func (t *Task) Backlog(now time.Time) bool {
	if len(t.queue.again) > 0 || len(t.timers) > 0 {
		return true
	}
	waits := !t.WaitsUntil().IsZero()
	for i := range t.queue.inputs {
		f := &t.queue.inputs[i]
		if f.delay == 0 && waits {
			continue // what was delayed does not wait for others
		}
		if f.len() > 0 && !now.Before(f.dueAt()) {
			return true
		}
	}
	return false
}

// DropQueue drops what is queued, which frees its memory. Nothing more can be enqueued. It is the part
// of Close that does not wait for the disk.
func (t *Task) DropQueue() { t.queue.close() }

// Close drops everything uncommitted and closes the state; what was committed is flushed to disk.
func (t *Task) Close() error {
	t.DropQueue()
	if t.State == nil {
		return nil
	}
	t.State.Drop()
	if err := t.State.Close(); err != nil {
		return fmt.Errorf("closing the state of task %s: %w", t.ID, err)
	}
	return nil
}
