package protocol

// good is the best answer that an effect can get as things are.
func (m *model) good(o op) reply {
	a := reply{kind: answers[o.kind][0], round: o.round, truth: truthAborted}
	p, r := m.broker.producer(o.round), m.find(o.round)
	if r == nil {
		return a
	}
	switch o.kind {
	case Flush:
		if p.dead {
			a.kind = ProducerLost
		}
	case SendOffsets:
		lost := o.refuse || p.dead || p.txn == nil
		for i, l := range r.layers {
			lost = lost || l.next > 0 && m.tasks[i].lost
		}
		if lost {
			a.kind = OffsetsRefused
		}
	case End:
		if p.dead || p.txn == nil {
			a.kind = CommitUnknown
		}
	case Abort:
		if p.dead && !r.ended {
			a.kind = AbortUnknown
		}
	case Ask:
		a.kind, _ = m.ask(r)
	}
	return a
}

// drain lets everything go well until nothing is left to do: tasks come back, every answer is the
// best one.
func (m *model) drain() {
	for range 40 * m.input {
		if m.stopped != "" && m.err == nil {
			m.restart()
		}
		// What is not possible now is tried again in the next round of the loop.
		for i := range m.tasks {
			if m.tasks[i].lost {
				_ = m.drop(i)
			}
			_ = m.assign(i)
			_ = m.join(i, min(len(m.tasks[i].queue), 5))
		}
		_ = m.dueNow()
		if len(m.ops) > 0 {
			if o := m.ops[0]; m.answer(m.good(o)) != nil {
				_ = m.expire(o.round) // who waits for an open transaction waits for its timeout
			}
		}
		done := len(m.live) == 0 && m.stopped == ""
		for i := range m.tasks {
			done = done && m.tasks[i].owned && !m.tasks[i].lost && len(m.tasks[i].queue) == 0
		}
		if m.err != nil || done {
			return
		}
	}
}
