package peers

import (
	"maps"
	"slices"
	"time"
)

// Status is what an instance sees of the others.
type Status struct {
	Peers []PeerStatus
	// CutOff says that no peer was heard for the silence bound: this instance fences nobody, unless
	// it is one of two.
	CutOff bool
	// Refused counts connections that were not made although somebody answered.
	Refused int
}

// PeerStatus is one other instance.
type PeerStatus struct {
	Instance, Address string
	// Watched says that the two watch each other.
	Watched, Connected bool
	// Since is when Connected last changed, Heard when the instance was last heard; zero if never.
	Since, Heard time.Time
	// Why says why it is not connected.
	Why string
	// Suspicion says how far the suspicion of the instance is; empty without one. Suspicions counts
	// them.
	Suspicion  string
	Suspicions int
	// FencedInVain counts fencings of the incarnation within the last hour after which it was
	// heard. At three the instance is left to the session timeout.
	FencedInVain int
}

// Status returns what is known now.
func (p *Peers) Status() Status {
	if p.off {
		return Status{}
	}
	now := p.enter()
	defer p.mu.Unlock()
	out := Status{Refused: p.refused, CutOff: len(p.ring) > 1 && p.cutOff(now)}
	for _, name := range slices.Sorted(maps.Keys(p.peers)) {
		q := p.peers[name]
		s := PeerStatus{
			Instance: name, Address: q.address, Watched: q.watched, Connected: q.link != nil, Since: q.since, Heard: q.heard, Why: q.why,
			Suspicions: q.suspicions, FencedInVain: q.inVain(now),
		}
		if q.link != nil {
			s.Heard = q.link.heard
		}
		if q.suspicion != nil {
			s.Suspicion = q.suspicion.status
		}
		out.Peers = append(out.Peers, s)
	}
	return out
}
