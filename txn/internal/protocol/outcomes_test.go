package protocol

// What the answers to offsets, commit, abort, question and apply do at the broker and in the store.

func (m *model) offsets(o op, r *round, a reply) error {
	p := m.broker.producer(r.n)
	contributing, lost := 0, o.refuse
	for i, l := range r.layers {
		if l.next > 0 {
			contributing++
			lost = lost || m.tasks[i].lost
		}
	}
	impossible := lost || p.dead || p.txn == nil
	if a.kind == OffsetsAccepted {
		if impossible {
			return notNow("the offsets of round %d cannot be accepted", r.n)
		}
		m.sendOffsets(r, contributing)
		r.accepted = true
		return nil
	}
	if !impossible {
		m.sendOffsets(r, min(a.reached, contributing-1))
	}
	for i := range m.tasks {
		if m.tasks[i].lost {
			m.tasks[i] = task{lost: true} // now the worker knows
		}
	}
	r.failed = true
	return nil
}

func (m *model) commit(r *round, a reply) error {
	p := m.broker.producer(r.n)
	if a.kind == Committed {
		if p.dead || p.txn == nil {
			return notNow("the commit of round %d cannot succeed", r.n)
		}
		m.broker.endOpen(p, txnCommitted)
		p.begun = false
		r.committed = true
		return nil
	}
	if p.txn == nil && a.truth != truthAborted {
		return notNow("the transaction of round %d is aborted", r.n)
	}
	switch a.truth {
	case truthCommitted:
		m.broker.endOpen(p, txnCommitted)
	case truthAborted:
		m.broker.endOpen(p, txnAborted)
	case truthLate:
		p.late = p.txn
	case truthOpen:
	default:
		return notNow("what is the truth about the commit of round %d?", r.n)
	}
	p.dead, r.failed, r.doubt = true, true, true
	return nil
}

func (m *model) abort(r *round, a reply) error {
	p := m.broker.producer(r.n)
	if a.kind == Aborted {
		// A producer that the broker fenced gets no success. After a lost commit it does: a silent
		// no-op, whatever became of it.
		if p.dead && !r.ended {
			return notNow("the producer of round %d is fenced", r.n)
		}
		m.broker.endOpen(p, txnAborted)
		*p = producer{}
		r.aborted = true
		return nil
	}
	switch a.truth {
	case truthAborted:
		m.broker.endOpen(p, txnAborted)
	case truthOpen:
	default:
		return notNow("what is the truth about the abort of round %d?", r.n)
	}
	p.dead, r.failed = true, true
	return nil
}

// ask compares the stable offsets of the round's tasks with its number and with what they carried
// before.
func (m *model) ask(r *round) (found EventKind, stable bool) {
	var ours, previous, other int
	for i, l := range r.layers {
		if l.next == 0 {
			continue
		}
		if !m.broker.stable(i) {
			return FoundOther, false
		}
		switch m.broker.committed[i].round {
		case r.n:
			ours++
		case m.store[i].round:
			previous++
		default:
			other++
		}
	}
	switch {
	case other > 0:
		return FoundOther, true
	case previous == 0:
		return FoundOurs, true
	case ours == 0:
		return FoundPrevious, true
	default:
		return FoundMixed, true
	}
}

// apply writes a round's layers to the store, which must be where the round began.
func (m *model) apply(r *round) {
	began := make([]bool, len(m.tasks))
	for _, e := range r.journal {
		if !began[e.task] {
			began[e.task] = true
			at := m.store[e.task].next
			m.gate(ruleInOrder, at == e.seq,
				"round %d begins at %d of task %d, the store is at %d", r.n, e.seq, e.task, at)
		}
	}
	for i, l := range r.layers {
		if l.next > 0 {
			m.store[i] = l
		}
	}
	r.applied = true
	m.applied = r.n
}
