//go:build onceward_failpoints

package peers

// Known returns what a fencing of an instance would be told now; false if it has never been
// connected.
func (p *Peers) Known(instance string) (Suspect, bool) {
	if p.off {
		return Suspect{}, false
	}
	p.enter()
	defer p.mu.Unlock()
	q := p.peers[instance]
	if q == nil || q.incarnation == 0 {
		return Suspect{}, false
	}
	s := q.suspect()
	s.Why = "a test asks for it"
	return s, true
}
