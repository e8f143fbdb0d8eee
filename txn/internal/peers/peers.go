package peers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// Peers watches the other instances.
type Peers struct {
	cfg      Config
	off      bool
	kick     chan struct{} // something has changed
	unheard  chan struct{} // the only other member may not hear this instance
	routines sync.WaitGroup
	streams  *streams

	mu       sync.Mutex
	memberID string
	ids      []string
	peers    map[string]*peer
	ring     ring
	running  context.Context // nil unless Run is at work
	stopping bool
	entered  time.Time                // when the mutex was last taken
	gap      time.Time                // the end of the last time in which the process did not run
	heard    time.Time                // from any peer
	fencing  map[*suspicion]time.Time // the calls of Config.Fence that are at work, and when they began
	fencings []time.Time              // begun in the last minute
	refused  int                      // connections
	logged   map[string]time.Time     // by kind of refusal
}

// Run watches until the context ends, and returns when all of its goroutines have ended. It is
// called once.
func (p *Peers) Run(ctx context.Context) {
	if p.off {
		<-ctx.Done()
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer p.routines.Wait()
	defer func() { _ = p.cfg.Listener.Close() }() // it ends accept; there is nothing else to do about an error
	defer cancel()
	p.mu.Lock()
	p.running, p.entered = ctx, time.Now()
	p.mu.Unlock()
	p.routines.Go(func() { p.accept(ctx) })
	if p.cfg.Live != nil {
		p.routines.Go(func() { p.live(ctx) })
	}
	tick := time.NewTicker(p.cfg.Heartbeat)
	defer tick.Stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			p.beat()
		case <-timer.C:
		case <-p.kick:
		}
		now := p.enter()
		if next := p.step(now); !next.IsZero() {
			timer.Reset(next.Sub(now))
		}
		p.mu.Unlock()
	}
}

// SetMembers tells the members of a new plan. It may name this instance or not.
func (p *Peers) SetMembers(members []Member) {
	if p.off {
		return
	}
	now := p.enter()
	defer p.leave()
	names := []string{p.cfg.Self.Instance}
	for _, m := range members {
		names = append(names, m.Instance)
		if m.Instance == p.cfg.Self.Instance {
			continue
		}
		q := p.peer(m.Instance, now)
		if m.Address != "" && m.Address != q.planned { // a plan of an older build has none
			q.planned, q.address, q.dialAt = m.Address, m.Address, now
		}
	}
	p.ring = newRing(names...)
	for name, q := range p.peers {
		q.watched = p.ring.watches(p.cfg.Self.Instance, name)
	}
	p.dropStrangers(now, strangersMax)
}

// SetSelf tells the group member id and the transactional ids of this instance. If there are more
// ids than peers keep, the rest is not told, and the error says so. It tells nothing if an id fits
// into no frame.
func (p *Peers) SetSelf(memberID string, transactionalIDs []string) error {
	if p.off {
		return nil
	}
	p.enter()
	defer p.leave()
	ids := transactionalIDs[:min(len(transactionalIDs), idsMax)]
	hello := p.helloLocked(Security{})
	hello.nonce, hello.memberID = make([]byte, nonceSize), memberID
	for _, part := range split(ids) {
		hello.ids = part
		if _, err := seal(hello.body(), &macKey{}); err != nil {
			return fmt.Errorf("peers: %w", err)
		}
	}
	if memberID != p.memberID || !slices.Equal(ids, p.ids) {
		p.memberID, p.ids = memberID, slices.Clone(ids)
		for _, f := range p.updates() {
			p.broadcast(f)
		}
	}
	if n := len(transactionalIDs); n > idsMax {
		return fmt.Errorf("peers: of %d transactional ids %d are told: the transactions of the others end by their timeout", n, idsMax)
	}
	return nil
}

// split returns ids in parts that fit into a frame each.
func split(ids []string) (parts [][]string) {
	begin, size := 0, 0
	for i, id := range ids {
		if size += len(id); size > idBytesMax && i > begin {
			parts = append(parts, ids[begin:i])
			begin, size = i, len(id)
		}
	}
	if begin < len(ids) {
		parts = append(parts, ids[begin:])
	}
	return parts
}

// updates are the frames that tell the member id and the transactional ids of this instance.
func (p *Peers) updates() (out []frame) {
	for _, part := range split(p.ids) {
		out = append(out, frame{kind: kindUpdate, memberID: p.memberID, ids: part})
	}
	if len(out) == 0 {
		out = append(out, frame{kind: kindUpdate, memberID: p.memberID})
	}
	return out
}

// Over tells the peers that this instance has done its part of a plan of the group: it has given up
// what moves to others, or has left the group. So they need not wait until the group tells them to
// join again. Peers pass it on once ([Config].Over), as an instance is connected with its neighbours in
// the ring only. It does not wait.
func (p *Peers) Over(plan uint64) {
	if p.off {
		return
	}
	p.enter()
	defer p.leave()
	p.broadcast(frame{kind: kindOver, plan: plan})
}

// Goodbye tells all peers that this instance stops, and waits until they have heard it. From then
// on it neither suspects nor dials a peer. Run goes on until its context ends.
func (p *Peers) Goodbye(ctx context.Context) error {
	if p.off {
		return nil
	}
	now := p.enter()
	p.stopping = true
	var links []*link
	for _, q := range p.peers {
		p.dropSuspicion(q)
		if l := q.link; l != nil {
			links = append(links, l)
			l.dismiss(codeStopping, "it stops", p.cfg.Silence)
			q.disconnect(now, "this instance stops")
		}
	}
	p.leave()
	for _, l := range links {
		select {
		case <-l.done:
		case <-ctx.Done():
			return fmt.Errorf("peers: not all have heard the goodbye: %w", ctx.Err())
		}
	}
	return nil
}

// enter locks the state and returns the time. It notices when the process has not run for a while.
func (p *Peers) enter() time.Time {
	if p.cfg.hold != nil {
		p.cfg.hold()
	}
	p.mu.Lock()
	now := time.Now()
	if p.running != nil && now.Sub(p.entered) > 2*p.cfg.Heartbeat {
		p.gap = now
		p.beginAgain(now)
	}
	p.entered = now
	return now
}

// leave unlocks the state and has Run look at what has changed.
func (p *Peers) leave() {
	p.mu.Unlock()
	select {
	case p.kick <- struct{}{}:
	default:
	}
}

// beginAgain makes all silences begin now.
func (p *Peers) beginAgain(now time.Time) {
	p.heard = now
	for _, q := range p.peers {
		q.dropLook()
		if q.link != nil {
			q.link.heard = now
		}
		if s := q.suspicion; s != nil {
			s.silent, s.enough, s.asked = now, time.Time{}, time.Time{}
		}
	}
}

// hear notes that a peer was heard. Silences that were measured while no peer was heard say nothing
// about the others.
func (p *Peers) hear(now time.Time) {
	if p.cutOff(now) {
		p.beginAgain(now)
	}
	p.heard = now
}

// cutOff says that no peer was heard for the silence bound.
func (p *Peers) cutOff(now time.Time) bool { return now.Sub(p.heard) >= p.cfg.Silence }

// beat sends what is sent with every heartbeat.
func (p *Peers) beat() {
	now := p.enter()
	defer p.mu.Unlock()
	p.broadcast(frame{kind: kindHeartbeat})
	p.showLife(now)
	for _, q := range p.peers {
		if s := q.suspicion; s != nil && (s.claims || s.cancel != nil) {
			p.claim(s)
		}
	}
}

func (p *Peers) broadcast(f frame) {
	for _, q := range p.peers {
		if q.link != nil {
			q.link.send(f)
		}
	}
}

// step does what is due and returns when the next is.
func (p *Peers) step(now time.Time) time.Time {
	var next time.Time
	due := func(at time.Time) {
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.peers)) {
		q := p.peers[name]
		if l := q.link; l != nil {
			switch {
			case now.Sub(l.heard) >= p.cfg.Silence:
				// A peer that hears this side must not take the end of the connection for the end
				// of the process.
				l.dismiss(codeSilent, "it does not hear this side", p.cfg.Silence)
				p.lose(q, now, errSilent)
			case !q.watched && now.Sub(l.made) >= unneededAfter:
				l.dismiss(codeDuplicate, "the two do not watch each other", p.cfg.Silence)
				q.disconnect(now, "not watched")
			case p.pair() && now.Sub(l.heard) < p.cfg.Silence/2:
				due(l.heard.Add(p.cfg.Silence / 2))
			case p.pair():
				p.doubt(q)
				fallthrough
			default:
				due(l.heard.Add(p.cfg.Silence))
			}
		}
		if q.suspicion != nil && !p.stopping {
			if at := p.consider(q, now); !at.IsZero() {
				due(at)
			}
		}
		if q.watched && q.link == nil && q.address != "" && !q.dialling && !p.stopping {
			if now.Before(q.dialAt) {
				due(q.dialAt)
			} else {
				p.startDial(q, now)
			}
		}
	}
	return next
}

// hello returns the hello of this instance for a connection.
func (p *Peers) hello(l *link) frame {
	p.enter()
	defer p.mu.Unlock()
	f := p.helloLocked(l.security)
	f.to = l.to
	if l.kind == kindStream { // it says who asks, and nothing that a fencing needs
		f.kind, f.address, f.memberID, f.ids = kindStream, "", "", nil
	}
	return f
}

func (p *Peers) helloLocked(s Security) frame {
	id := p.cfg.Self
	var ids []string // the others follow
	if parts := split(p.ids); len(parts) > 0 {
		ids = parts[0]
	}
	return frame{
		kind: kindHello, application: id.Application, cluster: id.Cluster, instance: id.Instance, incarnation: id.Incarnation,
		address: p.cfg.Address, memberID: p.memberID, ids: ids, nonce: s.nonce(),
	}
}
