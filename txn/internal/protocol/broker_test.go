package protocol

import (
	"fmt"
	"strings"
)

// The broker of the model: what a transactional Kafka cluster guarantees, and no more. Requests
// have no effect until they are delivered; the driver decides when that is and whether the worker
// hears of it.

type txnStatus uint8

const (
	txnOpen txnStatus = iota
	txnCommitted
	txnAborted
)

// transaction is one producer epoch of transaction.version 2: a frame of an older one is fenced.
type transaction struct {
	round   uint64
	status  txnStatus
	touched []*partition
	outputs []record
	offsets []offsetCommit
}

// offsetCommit is a record of the offsets topic. at is its log offset there: of two commits for a
// task the one with the higher log offset wins, whatever the order of their markers.
type offsetCommit struct {
	task, next int
	round      uint64
	at         int
}

// record is what a round produces: an output (seq is the journal entry), or a changelog record (seq
// is the position after it). digest is the state that belongs to it.
type record struct {
	to        *partition
	changelog bool
	task, seq int
	digest    uint64
}

type logItem struct {
	txn    *transaction
	rec    record
	marker bool
}

type partition struct {
	name  string
	items []logItem
}

// producer is one transactional id: the client's side (begun, round, dead, wire) and the broker's
// (txn, late).
type producer struct {
	begun bool
	round uint64
	// dead: an answer is missing or the broker fenced the epoch; nothing but a settle brings it
	// back.
	dead bool
	// wire holds records that were produced and are not yet in a log.
	wire []record
	txn  *transaction
	// late is the transaction whose commit request is still under way although the worker gave up
	// waiting for it.
	late *transaction
}

type broker struct {
	producers [2]producer
	outputs   []*partition
	changelog []*partition // by task
	committed []offsetCommit
	at        int
	// visible is the next entry that a committed transaction has to carry, by task.
	visible []int
	violate func(format string, args ...any)
}

func newBroker(tasks, outputs int, violate func(string, ...any)) *broker {
	b := &broker{committed: make([]offsetCommit, tasks), visible: make([]int, tasks), violate: violate}
	for i := range outputs {
		b.outputs = append(b.outputs, &partition{name: fmt.Sprintf("out-%d", i)})
	}
	for i := range tasks {
		b.committed[i].task = i
		b.changelog = append(b.changelog, &partition{name: fmt.Sprintf("changelog-%d", i)})
	}
	return b
}

func (b *broker) producer(round uint64) *producer { return &b.producers[round%2] }

// deliver appends the first n records of a producer's wire. The first one opens the transaction at
// the broker.
func (b *broker) deliver(p *producer, n int) {
	n = min(n, len(p.wire))
	arriving := p.wire[:n]
	p.wire = p.wire[n:]
	if p.dead && p.txn == nil {
		return // fenced
	}
	for _, rec := range arriving {
		if p.txn == nil {
			p.txn = &transaction{round: p.round}
		}
		b.appendTo(p.txn, rec)
	}
}

func (b *broker) appendTo(t *transaction, rec record) {
	known := false
	for _, part := range t.touched {
		known = known || part == rec.to
	}
	if !known {
		t.touched = append(t.touched, rec.to)
	}
	if !rec.changelog {
		t.outputs = append(t.outputs, rec)
	}
	rec.to.items = append(rec.to.items, logItem{txn: t, rec: rec})
}

// addOffset makes an offset commit pending in a transaction.
func (b *broker) addOffset(t *transaction, task, next int) {
	b.at++
	t.offsets = append(t.offsets, offsetCommit{task: task, next: next, round: t.round, at: b.at})
}

// end writes the markers. What a committed transaction makes visible must follow on what was
// visible: this is where a record that is lost or contributed twice shows.
func (b *broker) end(t *transaction, status txnStatus) {
	if t == nil || t.status != txnOpen {
		return
	}
	t.status = status
	for _, part := range t.touched {
		part.items = append(part.items, logItem{txn: t, marker: true})
	}
	if status != txnCommitted {
		return
	}
	for _, rec := range t.outputs {
		if rec.seq != b.visible[rec.task] {
			b.violate("round %s makes entry %d of task %d visible, the next one is %d",
				roundName(t.round), rec.seq, rec.task, b.visible[rec.task])
		}
		b.visible[rec.task] = rec.seq + 1
	}
	for _, o := range t.offsets {
		if o.at > b.committed[o.task].at {
			b.committed[o.task] = o
		}
	}
}

// endOpen ends what a producer has open at the broker; without a record that is nothing, and the
// request a silent no-op.
func (b *broker) endOpen(p *producer, status txnStatus) {
	b.end(p.txn, status)
	p.txn, p.late = nil, nil
}

// deliverLate lets a delayed commit request arrive. It is fenced unless its transaction is the one
// that is open.
func (b *broker) deliverLate(p *producer) {
	if p.late != nil && p.late == p.txn {
		b.endOpen(p, txnCommitted)
	}
	p.late = nil
}

// settle replaces a producer: a delayed commit request arrives now or never, what is open then is
// aborted, the rest is fenced.
func (b *broker) settle(p *producer) {
	b.deliverLate(p)
	b.endOpen(p, txnAborted)
	*p = producer{}
}

// expire is the broker's own abort of a transaction that took too long.
func (b *broker) expire(p *producer) {
	b.endOpen(p, txnAborted)
	p.wire, p.dead = nil, true
}

// stable reports whether no offset commit of the task is pending: only then does a stable fetch
// answer.
func (b *broker) stable(task int) bool {
	for i := range b.producers {
		if t := b.producers[i].txn; t != nil {
			for _, o := range t.offsets {
				if o.task == task {
					return false
				}
			}
		}
	}
	return true
}

// restored reads a task's changelog as a read_committed consumer.
func (b *broker) restored(task int) (next int, digest uint64) {
	for _, it := range b.changelog[task].items {
		if !it.marker && it.txn.status == txnCommitted {
			next, digest = it.rec.seq, it.rec.digest
		}
	}
	return next, digest
}

// read returns the entries of a task that a read_committed consumer of the outputs gets, in log
// order.
func (b *broker) read(task int) []int {
	var seqs []int
	for _, part := range b.outputs {
		for _, it := range part.items {
			if !it.marker && it.txn.status == txnCommitted && it.rec.task == task {
				seqs = append(seqs, it.rec.seq)
			}
		}
	}
	return seqs
}

// draw renders a log: "10 rec(1) C(1) 5 rec(2) (2 open)". The number in parentheses is the round.
func (p *partition) draw() string {
	var out []string
	var open []*transaction
	for i := 0; i < len(p.items); {
		it := p.items[i]
		if it.marker {
			mark := "C"
			if it.txn.status == txnAborted {
				mark = "A"
			}
			out = append(out, fmt.Sprintf("%s(%s)", mark, roundName(it.txn.round)))
			i++
			continue
		}
		n := 0
		for i < len(p.items) && !p.items[i].marker && p.items[i].txn == it.txn {
			n++
			i++
		}
		out = append(out, fmt.Sprintf("%d rec(%s)", n, roundName(it.txn.round)))
		if it.txn.status == txnOpen && (len(open) == 0 || open[len(open)-1] != it.txn) {
			open = append(open, it.txn)
		}
	}
	for _, t := range open {
		out = append(out, fmt.Sprintf("(%s open)", roundName(t.round)))
	}
	return strings.Join(out, " ")
}

// otherOwner numbers the rounds of another member, far from ours.
const otherOwner uint64 = 1 << 40

func roundName(n uint64) string {
	if n >= otherOwner {
		return "other"
	}
	return fmt.Sprint(n)
}
