package protocol

import (
	"errors"
	"fmt"
	"slices"
)

// What a driver can do to the model. An action that is not possible now returns errNotNow and
// changes nothing: the driver asked for something that the world does not offer. A broken rule is
// no such error, it stays in model.err.
var errNotNow = errors.New("not possible now")

func notNow(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errNotNow, fmt.Sprintf(format, args...))
}

// join computes the next n entries of a task.
func (m *model) join(i, n int) error {
	switch {
	case m.stopped != "":
		return notNow("the worker has stopped")
	case !m.state.CanCompute():
		return notNow("nothing may be computed in [%s]", m.state)
	case !m.tasks[i].owned:
		return notNow("task %d is not owned", i)
	case len(m.tasks[i].queue) < n:
		return notNow("task %d has %d entries", i, len(m.tasks[i].queue))
	}
	for range n {
		seq := m.tasks[i].queue[0]
		m.tasks[i].queue = m.tasks[i].queue[1:]
		base := m.view(i)
		m.gate(ruleBase, seq == base.next,
			"entry %d of task %d is computed upon position %d", seq, i, base.next)
		r := m.back()
		if r == nil {
			r = &round{n: m.state.BackRound, layers: make([]layer, len(m.tasks))}
			m.live = append(m.live, r)
		}
		e := entry{task: i, seq: seq, digest: digestOf(base.digest, seq)}
		r.journal = append(r.journal, e)
		r.layers[i] = layer{next: seq + 1, digest: e.digest, round: r.n}
		m.event(Event{Kind: Joined})
	}
	return nil
}

// fill reports that the back round passed the streaming threshold.
func (m *model) fill() error {
	r := m.back()
	if m.stopped != "" || r == nil || r.sent == len(r.journal) {
		return notNow("there is nothing to stream")
	}
	r.full = true
	m.event(Event{Kind: Full})
	return nil
}

func (m *model) dueNow() error {
	r := m.back()
	if m.stopped != "" || r == nil {
		return notNow("there is nothing to commit")
	}
	r.due = true
	m.event(Event{Kind: Due})
	return nil
}

// drop gives a task up. The machine hears of it if the back round has work of that task.
func (m *model) drop(i int) error {
	if m.stopped != "" || !m.tasks[i].owned {
		return notNow("task %d is not owned", i)
	}
	m.tasks[i] = task{lost: m.tasks[i].lost}
	if r := m.back(); r != nil && r.layers[i].next > 0 {
		m.event(Event{Kind: Dropped})
		if m.find(r.n) == r && !r.rerun && m.stopped == "" {
			m.gate(ruleGivenUp, false, "round %d goes on with a task that was given up", r.n)
		}
	}
	return nil
}

// assign takes a task again: when both rounds that may hold work of it are applied or dropped.
func (m *model) assign(i int) error {
	if m.stopped != "" || m.tasks[i].owned || !m.broker.stable(i) {
		return notNow("task %d cannot be opened", i)
	}
	for _, r := range m.live {
		if r.layers[i].next > 0 {
			return notNow("round %d holds work of task %d", r.n, i)
		}
	}
	m.open(i)
	return nil
}

// takeOver is what happens behind the worker's back: another member is the owner of all tasks now,
// and processed and committed n records of each. It waits like everybody for pending offsets.
func (m *model) takeOver(n int) error {
	for i := range m.tasks {
		if !m.broker.stable(i) {
			return notNow("the offset of task %d is pending", i)
		}
	}
	for i := range m.tasks {
		m.tasks[i].lost = true
		next, digest := m.broker.restored(i)
		to := min(next+n, m.input)
		if to == next {
			continue
		}
		m.broker.at++
		t := &transaction{round: otherOwner + uint64(m.broker.at)}
		for ; next < to; next++ {
			digest = digestOf(digest, next)
			out := m.broker.outputs[i%len(m.broker.outputs)]
			m.broker.appendTo(t, record{to: out, task: i, seq: next, digest: digest})
		}
		log := m.broker.changelog[i]
		m.broker.appendTo(t, record{to: log, changelog: true, task: i, seq: next, digest: digest})
		m.broker.addOffset(t, i, next)
		m.broker.end(t, txnCommitted)
	}
	return nil
}

// expire is the broker's transaction timeout.
func (m *model) expire(n uint64) error {
	p := m.broker.producer(n)
	if p.txn == nil || p.round != n {
		return notNow("round %d has no transaction at the broker", n)
	}
	m.broker.expire(p)
	return nil
}

// deliver lets n records of a round arrive in their logs.
func (m *model) deliver(round uint64, n int) error {
	p := m.broker.producer(round)
	if p.round != round || len(p.wire) == 0 {
		return notNow("nothing of round %d is under way", round)
	}
	m.broker.deliver(p, n)
	return nil
}

// restart is a new life of the process: every producer is initialised, and every task opened from
// the log.
func (m *model) restart() {
	for i := range m.broker.producers {
		m.broker.settle(&m.broker.producers[i])
	}
	m.live, m.ops, m.stopped = nil, nil, ""
	m.used = max(m.used, m.state.BackRound, m.state.FrontRound)
	m.state = New(m.used + 1)
	for i := range m.tasks {
		m.open(i)
	}
}

// truth is what really became of a request that was not answered.
type truth string

const (
	truthCommitted truth = "committed"
	truthAborted   truth = "aborted"
	// truthOpen: the request never arrives.
	truthOpen truth = "open"
	// truthLate: the commit is still under way and arrives at the latest just before the producer
	// is settled.
	truthLate truth = "late"
)

// answers lists the events that can answer an effect. Stream, Retire, Rerun, Reopen and Fail are
// not answered.
var answers = map[EffectKind][]EventKind{
	Flush:       {Flushed, FlushFailed, ProducerLost},
	SendOffsets: {OffsetsAccepted, OffsetsRefused, ProducerLost},
	End:         {Committed, CommitUnknown},
	Abort:       {Aborted, AbortUnknown},
	Settle:      {Settled},
	Ask:         {FoundOurs, FoundPrevious, FoundOther, FoundMixed},
	Apply:       {Applied, ApplyFailed},
}

// reply is an answer to an outstanding effect. reached is how many of the request's parts (records,
// offsets) arrived although the answer says otherwise.
type reply struct {
	kind    EventKind
	round   uint64
	truth   truth
	reached int
}

// answer answers the outstanding effect of a round.
func (m *model) answer(a reply) error {
	i := slices.IndexFunc(m.ops, func(o op) bool { return o.round == a.round })
	if i < 0 || !slices.Contains(answers[m.ops[i].kind], a.kind) {
		return notNow("no effect of round %d waits for %s", a.round, a.kind)
	}
	o, r := m.ops[i], m.find(a.round)
	if r == nil {
		return notNow("round %d is gone", a.round)
	}
	if err := m.happen(o, r, a); err != nil {
		return err
	}
	m.ops = slices.Delete(m.ops, i, i+1)
	m.mayStop = a.kind == ApplyFailed || a.kind == FoundOther || a.kind == FoundMixed
	if r.rerun && r.aborted {
		m.remove(r)
	}
	m.event(Event{Kind: a.kind, Round: a.round})
	m.mayStop = false
	return nil
}

// happen carries a request out at the broker as far as the answer and the truth say, and notes what
// the worker knows of it.
func (m *model) happen(o op, r *round, a reply) error {
	p := m.broker.producer(r.n)
	switch a.kind {
	case Flushed:
		if p.dead {
			return notNow("the producer of round %d is fenced", r.n)
		}
		m.broker.deliver(p, len(p.wire))
		r.flushed = true
	case FlushFailed:
		m.broker.deliver(p, a.reached)
		r.failed = true
	case ProducerLost:
		return m.loseProducer(o, r, a)
	case OffsetsAccepted, OffsetsRefused:
		return m.offsets(o, r, a)
	case Committed, CommitUnknown:
		return m.commit(r, a)
	case Aborted, AbortUnknown:
		return m.abort(r, a)
	case Settled:
		m.broker.settle(p)
		r.settled = r.doubt
		r.aborted = r.aborted || !r.doubt
	case FoundOurs, FoundPrevious, FoundOther, FoundMixed:
		found, stable := m.ask(r)
		if !stable || found != a.kind {
			return notNow("the log says %s of round %d (stable: %v)", found, r.n, stable)
		}
		r.committed, r.aborted = found == FoundOurs, found == FoundPrevious
	case Applied:
		m.apply(r)
	}
	return nil
}

func (m *model) loseProducer(o op, r *round, a reply) error {
	p := m.broker.producer(r.n)
	switch {
	case o.kind == Flush:
		m.broker.deliver(p, a.reached)
	case p.txn != nil && !p.dead:
		m.sendOffsets(r, a.reached)
	}
	if a.truth == truthAborted {
		m.broker.expire(p)
	}
	p.dead, r.failed = true, true
	return nil
}

// sendOffsets makes the offsets of the first n of a round's tasks pending.
func (m *model) sendOffsets(r *round, n int) {
	for i, l := range r.layers {
		if l.next == 0 {
			continue
		}
		if n--; n < 0 || m.tasks[i].lost {
			return
		}
		m.broker.addOffset(m.broker.producer(r.n).txn, i, l.next)
	}
}
