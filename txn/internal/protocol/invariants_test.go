package protocol

import "fmt"

// between checks what must hold whenever the machine waits for the next event.
func (m *model) between() {
	if m.state.Front == Broken {
		if m.stopped == "" {
			m.violate("the machine is broken and gave no reason")
		}
		return
	}
	m.checkSameRounds()
	m.checkProgress()
	got, want := m.state.CanCompute(), m.canCompute()
	m.gate(ruleCompute, got == want, "CanCompute says %v, by the rules it is %v", got, want)
}

// checkSameRounds: the machine and the model name the same rounds.
func (m *model) checkSameRounds() {
	f, b, s := m.front(), m.back(), m.state
	same := func(ok bool, format string, args ...any) { m.gate(ruleSameRounds, ok, format, args...) }
	same((f == nil) == (s.Front == None), "one of the two has no front round")
	same(f == nil || f.n == s.FrontRound, "the front round is %d", s.FrontRound)
	same((b == nil) == (s.Back != Open && s.Back != Streaming), "one of the two has no back round")
	same(b == nil || b.n == s.BackRound, "the back round is %d", s.BackRound)
	same(s.Quiet() == (len(m.live) == 0), "Quiet says %v with %d rounds", s.Quiet(), len(m.live))
	same(!s.WantStream || s.Front == Flushing && s.Back == Open, "a Full is remembered too long")
	same(!s.CommitDue || s.Front != None, "a Due is remembered too long")
}

// checkProgress: what is held back is held back by something that will be answered.
func (m *model) checkProgress() {
	for _, r := range m.live {
		moves := !r.sealed && !r.rerun || m.waiting(r.n) || m.waitsForNewer(r)
		m.gate(ruleProgress, moves, "nothing of round %d is outstanding", r.n)
		m.gate(ruleProgress, !r.due || m.front() != nil,
			"round %d is due, nothing is in flight, it is not sealed", r.n)
		m.gate(ruleProgress, !r.full || !m.mayProduce(r), "round %d is full, may produce, and does not", r.n)
	}
}

// waiting reports whether an effect of the round is outstanding.
func (m *model) waiting(n uint64) bool {
	for _, o := range m.ops {
		if o.round == n {
			return true
		}
	}
	return false
}

// waitsForNewer: a failed round waits for the abort of the one on top of it.
func (m *model) waitsForNewer(r *round) bool {
	for _, o := range m.live {
		if r.failed && o.n > r.n && o.rerun && m.waiting(o.n) {
			return true
		}
	}
	return false
}

func (m *model) mayProduce(r *round) bool {
	for _, o := range m.live {
		if o.n < r.n && !o.flushed {
			return false
		}
	}
	return true
}

// canCompute: no round is failing or on its way out.
func (m *model) canCompute() bool {
	for _, r := range m.live {
		if r.rerun || r.failed && !r.committed {
			return false
		}
	}
	return true
}

// verdict judges a worker that has nothing left to do: what consumers read, the committed offsets,
// the changelogs and the store agree, and every entry of the input is in them exactly once and in
// order.
func (m *model) verdict() error {
	if m.err != nil {
		return m.err
	}
	var digest uint64
	for seq := range m.input {
		digest = digestOf(digest, seq)
	}
	for i := range m.tasks {
		read := m.broker.read(i)
		for k, seq := range read {
			if seq != k {
				return fmt.Errorf("task %d: entry %d is read at place %d", i, seq, k)
			}
		}
		if len(read) != m.input {
			return fmt.Errorf("task %d: %d of %d entries are read", i, len(read), m.input)
		}
		if c := m.broker.committed[i]; c.next != m.input {
			return fmt.Errorf("task %d: offset %d of %d is committed", i, c.next, m.input)
		}
		if next, d := m.broker.restored(i); next != m.input || d != digest {
			return fmt.Errorf("task %d: the changelog holds position %d and another state", i, next)
		}
		if s := m.store[i]; s.next != m.input || s.digest != digest {
			return fmt.Errorf("task %d: the store holds position %d and another state", i, s.next)
		}
	}
	if !m.state.Quiet() || len(m.live) != 0 || len(m.ops) != 0 {
		return fmt.Errorf("[%s]: %d rounds and %d operations are left", m.state, len(m.live), len(m.ops))
	}
	for i := range m.broker.producers {
		if p := m.broker.producers[i]; p.txn != nil || p.begun {
			return fmt.Errorf("round %d is still open at the broker", p.round)
		}
	}
	return nil
}
