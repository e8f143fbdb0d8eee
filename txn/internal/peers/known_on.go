//go:build onceward_failpoints

package peers

import "slices"

// Known returns what a fencing of an instance would be told now; false if it has never been connected.
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
	return Suspect{
		Instance: q.name, Incarnation: q.incarnation, MemberID: q.memberID, TransactionalIDs: slices.Clone(q.ids), Why: "a test asks for it",
	}, true
}
