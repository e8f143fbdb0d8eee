package protocol

import (
	"fmt"
	"slices"
)

// stepFunc is the machine under test: [Step], or a broken variant of it as a negative control.
type stepFunc func(State, Event) (State, []Effect)

// task is the worker's side of one input partition. Its records are numbered from 0.
type task struct {
	// queue holds the entries that wait: those of journals that run again, then new ones.
	queue []int
	// owned is what the worker believes; lost says that the group has another owner and the worker
	// has not noticed.
	owned, lost bool
}

// layer is a position in a task's input and the state that belongs to it. round is the one that
// wrote it.
type layer struct {
	next   int
	digest uint64
	round  uint64
}

// entry is one record of a round's journal; digest is the state after it.
type entry struct {
	task, seq int
	digest    uint64
}

// round is the model's own account of a round. It follows from the effects and the answers, never
// from the machine's State.
type round struct {
	n       uint64
	journal []entry
	layers  []layer // by task; next is 0 where the round has no work
	sent    int     // entries handed to the producer

	due, full bool // the worker reported it and no effect came of it yet

	began, sealed, flushed, accepted, ended bool
	// failed: some answer was not the good one. doubt: that answer was the commit's. settled: the
	// producer was replaced since.
	failed, doubt, settled      bool
	committed, aborted, applied bool // as the worker knows
	rerun                       bool
}

// op is an effect that waits for its answer.
type op struct {
	kind  EffectKind
	round uint64
	// refuse: ownership did not hold when the offsets were about to be sent.
	refuse bool
}

// model is one worker with its broker and its store. The driver calls its actions
// (actions_test.go); it carries out the effects and checks the rules of the protocol at every step.
// The first violation stays in err.
type model struct {
	step  stepFunc
	state State
	// only names the rules that are checked; nil means all of them. With none of them only what a
	// user could see counts: logs, offsets, store.
	only   []rule
	input  int // records per task
	broker *broker
	store  []layer // by task
	tasks  []task
	live   []*round // rising numbers
	ops    []op
	// used is the highest round number that ever began a transaction, applied the last one in the
	// store.
	used, applied uint64
	// stopped is why the worker stopped. mayStop: the event at hand is one that stops it rightly.
	stopped string
	mayStop bool
	steps   int
	observe func(before State, e Event, after State, effects []Effect)
	err     error
}

func newModel(step stepFunc, tasks, input int, first uint64) *model {
	m := &model{step: step, input: input, state: New(first)}
	m.store, m.tasks = make([]layer, tasks), make([]task, tasks)
	m.broker = newBroker(tasks, min(tasks, 2), m.violate)
	for i := range m.tasks {
		m.open(i)
	}
	return m
}

// open takes a task over from what the log says.
func (m *model) open(i int) {
	next, digest := m.broker.restored(i)
	c := m.broker.committed[i]
	if c.next != next {
		m.violate("task %d: offset %d is committed and the changelog is at %d", i, c.next, next)
	}
	m.store[i] = layer{next: next, digest: digest, round: c.round}
	m.tasks[i] = task{owned: true}
	for seq := next; seq < m.input; seq++ {
		m.tasks[i].queue = append(m.tasks[i].queue, seq)
	}
}

func (m *model) violate(format string, args ...any) {
	if m.err == nil {
		m.err = fmt.Errorf("step %d, [%s]: %s", m.steps, m.state, fmt.Sprintf(format, args...))
	}
}

// gate checks a rule.
func (m *model) gate(r rule, ok bool, format string, args ...any) {
	if !ok && (m.only == nil || slices.Contains(m.only, r)) {
		m.violate("%s: %s", r, fmt.Sprintf(format, args...))
	}
}

func (m *model) find(n uint64) *round {
	for _, r := range m.live {
		if r.n == n {
			return r
		}
	}
	return nil
}

// back returns the round that records join, or nil.
func (m *model) back() *round {
	for _, r := range m.live {
		if !r.sealed && !r.rerun {
			return r
		}
	}
	return nil
}

// front returns the sealed round, or nil.
func (m *model) front() *round {
	for _, r := range m.live {
		if r.sealed {
			return r
		}
	}
	return nil
}

func (m *model) remove(r *round) {
	m.live = slices.DeleteFunc(m.live, func(o *round) bool { return o == r })
}

// view is what a record of the task is computed upon: the newest layer of it.
func (m *model) view(task int) layer {
	for _, r := range slices.Backward(m.live) {
		if !r.rerun && r.layers[task].next > 0 {
			return r.layers[task]
		}
	}
	return m.store[task]
}

// digestOf folds an entry into a task's state: another order, a gap or a repetition gives another
// digest.
func digestOf(before uint64, seq int) uint64 { return before*0x9E3779B97F4A7C15 + uint64(seq) + 1 }

// event gives the machine one event, carries out what it answers, and checks what must hold between
// two events.
func (m *model) event(e Event) []Effect {
	before := m.state
	after, effects := m.step(before, e)
	m.state = after
	m.steps++
	for _, f := range effects {
		m.perform(f)
	}
	if m.observe != nil {
		m.observe(before, e, after, effects)
	}
	m.between()
	return effects
}

func (m *model) perform(f Effect) {
	if f.Kind == Fail || f.Kind == Reopen {
		m.stopped = f.String()
		if !m.mayStop {
			m.violate("the machine stopped: %s", m.stopped)
		}
		return
	}
	r := m.find(f.Round)
	if r == nil {
		m.violate("effect %s: there is no such round", f)
		return
	}
	switch f.Kind {
	case Stream:
		m.stream(r)
	case Flush:
		m.seal(r)
	case Rerun:
		m.rerun(r)
	case Retire:
		m.gate(ruleRetireApplied, r.applied, "round %d is retired and not in the store", r.n)
		m.remove(r)
	default:
		m.request(r, f.Kind)
	}
}

// wait makes an effect outstanding. The effects of one round are carried out one after the other.
func (m *model) wait(o op) {
	for _, p := range m.ops {
		m.gate(ruleOneAtATime, p.round != o.round,
			"%s of round %d while its %s is not answered", o.kind, o.round, p.kind)
	}
	m.ops = append(m.ops, o)
}

// produce hands the round's records to its producer, with the changelog if it is the last time.
func (m *model) produce(r *round, last bool) {
	m.gate(ruleGivenUp, !r.rerun, "round %d produces after it was dropped", r.n)
	for _, o := range m.live {
		if o.n < r.n {
			m.gate(ruleFlushedFirst, o.flushed,
				"round %d produces before the flush of round %d returned clean", r.n, o.n)
			m.gate(ruleFlushedFirst, !o.failed || o.committed,
				"round %d produces although round %d failed", r.n, o.n)
		}
	}
	p := m.broker.producer(r.n)
	if !r.began {
		m.gate(ruleOneTransaction, !p.begun && p.txn == nil,
			"round %d begins while its producer's round %d is open", r.n, p.round)
		m.gate(ruleOneTransaction, !p.dead, "round %d begins on a producer that was not settled", r.n)
		m.gate(ruleNumbersRise, r.n > m.used, "round %d begins after round %d", r.n, m.used)
		r.began, p.begun, p.round = true, true, r.n
		m.used = max(m.used, r.n)
	}
	for ; r.sent < len(r.journal); r.sent++ {
		e := r.journal[r.sent]
		to := m.broker.outputs[e.task%len(m.broker.outputs)]
		p.wire = append(p.wire, record{to: to, task: e.task, seq: e.seq, digest: e.digest})
	}
	for task, l := range r.layers {
		if last && l.next > 0 {
			to := m.broker.changelog[task]
			rec := record{to: to, changelog: true, task: task, seq: l.next, digest: l.digest}
			p.wire = append(p.wire, rec)
		}
	}
}

func (m *model) stream(r *round) {
	m.gate(ruleOneFront, !r.sealed, "round %d streams after it was sealed", r.n)
	r.full = false
	m.produce(r, false)
}

func (m *model) seal(r *round) {
	if f := m.front(); f != nil {
		m.gate(ruleOneFront, false, "round %d is sealed while round %d is in flight", r.n, f.n)
	}
	m.gate(ruleOneFront, len(r.journal) > 0, "round %d is sealed without work", r.n)
	m.gate(ruleOneFront, r.due, "round %d is sealed and was not due", r.n)
	r.sealed, r.due, r.full = true, false, false
	m.produce(r, true)
	m.wait(op{kind: Flush, round: r.n})
}

// request checks an effect that goes to the broker or the store against the rules, and makes it
// outstanding.
func (m *model) request(r *round, kind EffectKind) {
	o := op{kind: kind, round: r.n}
	switch kind {
	case SendOffsets:
		m.gate(ruleCleanFlush, r.flushed && !r.failed,
			"the offsets of round %d are sent and its flush did not return clean", r.n)
		m.gateOlder(r, kind)
		for _, e := range r.journal {
			o.refuse = o.refuse || !m.tasks[e.task].owned || m.tasks[e.task].lost
		}
	case End:
		m.gate(ruleAcceptedFirst, r.accepted && !r.failed,
			"the commit of round %d is sent and its offsets are not accepted", r.n)
		m.gate(ruleAcceptedFirst, !r.ended, "the commit of round %d is sent twice", r.n)
		m.gateOlder(r, kind)
		r.ended = true
	case Abort:
		m.gate(ruleNoAbortAfter, !r.ended,
			"an abort of round %d after its commit was sent: the answer proves nothing", r.n)
		m.gate(ruleNoNeed, r.failed || r.rerun, "round %d is aborted without need", r.n)
		m.gateNewer(r, kind)
	case Settle:
		m.gate(ruleNoNeed, r.failed, "the producer of round %d is settled without need", r.n)
		m.gateNewer(r, kind)
	case Ask:
		m.gate(ruleSettledFirst, r.doubt, "the log is asked for round %d, which is not in doubt", r.n)
		m.gate(ruleSettledFirst, r.settled,
			"the log is asked for round %d before its producer was settled", r.n)
		m.gateNewer(r, kind)
	case Apply:
		m.gate(ruleCommittedOnly, r.committed, "round %d is applied and not known to be committed", r.n)
		m.gate(ruleInOrder, !r.applied && r.n > m.applied,
			"round %d is applied after round %d", r.n, m.applied)
		m.gateOlder(r, kind)
	}
	m.wait(o)
}

// gateOlder: nothing older than r is in flight any more.
func (m *model) gateOlder(r *round, kind EffectKind) {
	for _, o := range m.live {
		m.gate(ruleOlderApplied, o.n >= r.n, "%s of round %d while round %d is not applied", kind, r.n, o.n)
	}
}

// gateNewer: what was computed upon r is dropped and its transaction is over.
func (m *model) gateNewer(r *round, kind EffectKind) {
	for _, o := range m.live {
		m.gate(ruleTopFirst, o.n <= r.n,
			"%s of round %d before round %d on top of it is aborted", kind, r.n, o.n)
	}
}

// rerun drops a round's layers and puts its journal back before everything that waits.
func (m *model) rerun(r *round) {
	m.gate(ruleRerunAborted, !r.rerun, "round %d runs again twice", r.n)
	m.gate(ruleRerunAborted, !r.committed, "round %d runs again and is committed", r.n)
	m.gate(ruleRerunAborted, !r.sealed || r.aborted,
		"round %d runs again and is not known to be aborted", r.n)
	m.gateRerunOrder(r)
	again := make([][]int, len(m.tasks))
	for _, e := range r.journal {
		if m.tasks[e.task].owned {
			again[e.task] = append(again[e.task], e.seq)
		}
	}
	for i := range m.tasks {
		q := append(again[i], m.tasks[i].queue...)
		for k := 1; k < len(q); k++ {
			m.gate(ruleRerunOrder, q[k] == q[k-1]+1,
				"task %d: entry %d follows %d after round %d was put back", i, q[k], q[k-1], r.n)
		}
		m.tasks[i].queue = q
	}
	r.rerun, r.due, r.full = true, false, false
	if !r.began || r.aborted || r.sealed { // of a sealed one the gate above has judged
		m.remove(r)
	}
}

func (m *model) gateRerunOrder(r *round) {
	for _, o := range m.live {
		m.gate(ruleRerunOrder, o.n <= r.n || o.rerun,
			"round %d is put back before round %d on top of it", r.n, o.n)
	}
}
