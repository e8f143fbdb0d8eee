package peers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"syscall"
	"time"
)

// peer is what is known of another instance. Peers.mu guards it.
type peer struct {
	name    string
	planned string // its address in the plan
	watched bool
	address string // to dial

	incarnation uint64 // of the last hello, as are the next two
	memberID    string
	ids         []string

	link  *link
	since time.Time // connected or not
	heard time.Time // the incarnation, over an earlier link
	why   string    // it is not connected

	dialling  bool
	dialBegan time.Time     // the last one
	dialAt    time.Time     // the next one
	pause     time.Duration // between the next two

	look         *look     // whether it makes progress at the brokers
	unheardUntil time.Time // it may not hear this instance

	suspicion  *suspicion
	suspicions int
	stopped    uint64 // the incarnation that said goodbye
	fenced     uint64 // the incarnation that was fenced and not heard since
	fencedAt   time.Time
	vain       []time.Time // when the incarnation was found alive after a fencing
}

// peer returns the record of an instance, a new one if there is none.
func (p *Peers) peer(name string, now time.Time) *peer {
	q := p.peers[name]
	if q == nil {
		q = &peer{name: name, since: now, pause: p.cfg.Heartbeat, why: "it has told no address: it runs without peers, or is of an older build"}
		p.peers[name] = q
	}
	return q
}

// admits reports whether there is room for an instance that is not known yet.
func (p *Peers) admits(name string, now time.Time) bool {
	return slices.Contains(p.ring, name) || p.dropStrangers(now, strangersMax-1) < strangersMax
}

// dropStrangers removes instances that are not in the plan and have no connection, as long as more
// than so many are known. Instances whose fencings in vain still count stay. Those that left first
// are removed first. It returns how many are left.
func (p *Peers) dropStrangers(now time.Time, most int) (left int) {
	var idle []*peer
	for name, q := range p.peers {
		if slices.Contains(p.ring, name) {
			continue
		}
		left++
		if q.link == nil && !q.dialling && (q.suspicion == nil || q.suspicion.cancel == nil) {
			idle = append(idle, q)
		}
	}
	slices.SortFunc(idle, func(a, b *peer) int { return a.since.Compare(b.since) })
	for _, q := range idle {
		if left > most || now.Sub(q.since) > vainFor {
			p.dropSuspicion(q)
			delete(p.peers, q.name)
			left--
		}
	}
	return left
}

// startDial dials a peer. The pauses between dials grow until a heartbeat comes.
func (p *Peers) startDial(q *peer, now time.Time) {
	q.dialling, q.dialBegan, q.dialAt = true, now, now.Add(q.pause)
	q.pause = min(2*q.pause, dialPauseMax)
	address, ctx, bound := q.address, p.running, p.cfg.Silence
	if q.suspicion != nil && !q.suspicion.over {
		bound = opinionMax // each round makes a dial of its own
	}
	p.routines.Go(func() { p.dial(ctx, q.name, address, now, bound) })
}

// dialled notes how a dial went.
func (p *Peers) dialled(instance string, began time.Time, err error) {
	p.enter()
	defer p.leave()
	q := p.peers[instance]
	if q == nil {
		return
	}
	q.dialling = false
	if err != nil && q.link == nil {
		q.why = cut(err.Error())
	}
	if s := q.suspicion; s != nil && s.dialling && !began.Before(s.asked) {
		if now := time.Now(); s.closed && isClosed(err) {
			// The process is about to end: its listener took the connection and was closed then.
			// The next dial is refused.
			q.dialAt = now.Add(max(redialFirst, now.Sub(s.asked)))
			return
		}
		s.dialling = false
		s.refused = errors.Is(err, syscall.ECONNREFUSED)
	}
}

// join makes a link that of its peer. It tells the peer if that cannot be, and returns why.
func (p *Peers) join(l *link) error {
	err := p.joinLocked(l)
	var refused *refusal
	if errors.As(err, &refused) {
		code := byte(codeRefused)
		switch refused.kind {
		case kindDuplicate:
			code = codeDuplicate
		case kindStopping:
			code = codeStopping
		}
		_ = l.raw.SetDeadline(time.Now().Add(opinionMax)) // it fails only if the connection is closed
		if send(l.conn, frame{kind: kindGoodbye, code: code, reason: cut(refused.reason)}.body(), l.out) == nil {
			_, _ = io.Copy(io.Discard, io.LimitReader(l.conn, frameMax)) // until the peer closes
		}
	}
	return err
}

// The refusals that are part of normal work.
const (
	kindDuplicate = "duplicate"
	kindStopping  = "stopping"
)

func (p *Peers) joinLocked(l *link) error {
	now := p.enter()
	defer p.leave()
	h := l.hello
	if p.stopping {
		return &refusal{kind: kindStopping, reason: fmt.Sprintf("instance %q stops", p.cfg.Self.Instance)}
	}
	if p.peers[h.instance] == nil && !p.admits(h.instance, now) {
		return &refusal{kind: "busy", reason: fmt.Sprintf("there are connections with %d instances that are not in the plan", strangersMax)}
	}
	q := p.peer(h.instance, now)
	same := q.incarnation == h.incarnation
	if old := q.link; old != nil {
		switch {
		case !same && now.Sub(old.heard) <= 2*p.cfg.Heartbeat:
			return &refusal{kind: "identity", reason: fmt.Sprintf("another process is connected as instance %q", h.instance)}
		case same && p.better(old, l):
			return &refusal{kind: kindDuplicate, reason: "there is another connection"}
		}
		old.dismiss(codeDuplicate, "there is another connection", p.cfg.Silence)
	} else {
		q.since = now
	}
	p.hear(now)
	l.heard, l.made = now, now
	q.link, q.heard, q.why = l, now, ""
	if h.address != "" {
		q.address = h.address
	}
	if !same {
		p.restarted(q, h.incarnation)
	}
	q.tell(h)
	for _, f := range p.updates() { // they may have changed since the hello, which has not all
		l.send(f)
	}
	p.alive(q, now)
	return nil
}

// better says whether a link stays although there is a newer one with the same incarnation.
func (p *Peers) better(old, l *link) bool {
	// The dialler with the smaller name wins.
	mine := p.cfg.Self.Instance < l.hello.instance
	return old.dialled != l.dialled && old.dialled == mine
}

// tell takes over what a hello or an update says.
func (q *peer) tell(f frame) {
	if f.memberID != "" {
		q.memberID = f.memberID
	}
	for _, id := range f.ids {
		if !slices.Contains(q.ids, id) && len(q.ids) < idsMax {
			q.ids = append(q.ids, id)
		}
	}
}

// disconnect notes that the peer has no link any more.
func (q *peer) disconnect(now time.Time, why string) {
	q.heard = q.link.heard
	q.link, q.since, q.why = nil, now, cut(why)
}

// received handles a frame.
func (p *Peers) received(l *link, f frame) {
	now := p.enter()
	defer p.leave()
	q := p.peers[l.hello.instance]
	if f.kind == kindGoodbye {
		l.fail(fmt.Errorf("goodbye: %s", f.reason))
	}
	if q == nil || q.link != l {
		return
	}
	p.hear(now)
	l.heard = now
	p.alive(q, now)
	switch f.kind {
	case kindHeartbeat:
		q.pause = p.cfg.Heartbeat // the connection is of use
	case kindUpdate:
		q.tell(f)
	case kindGoodbye:
		if f.code == codeSilent {
			p.lose(q, now, errUnheard)
			return
		}
		q.disconnect(now, "goodbye: "+f.reason)
		if f.code == codeStopping {
			q.stopped = q.incarnation
		}
	case kindOver:
		if p.cfg.Over != nil && p.cfg.Over(f.plan) {
			p.broadcast(f)
		}
	case kindQuestion:
		p.asked(q, f, now)
	case kindReport:
		p.reported(q, f, now)
	default: // of a newer minor version
	}
}

// ended notes the end of a link.
func (p *Peers) ended(l *link) {
	now := p.enter()
	defer p.leave()
	if q := p.peers[l.hello.instance]; q != nil && q.link == l {
		p.lose(q, now, l.err)
	}
}

// lose begins a suspicion, if the instance is watched.
func (p *Peers) lose(q *peer, now time.Time, err error) {
	q.disconnect(now, err.Error())
	if q.watched && !p.stopping && p.running.Err() == nil {
		p.suspect(q, isClosed(err))
	}
}

// note counts and logs a failed handshake, each kind once a minute.
func (p *Peers) note(err error, address string) {
	var r *refusal
	if !errors.As(err, &r) {
		if err == nil || isClosed(err) || errors.Is(err, net.ErrClosed) || errors.Is(err, context.Canceled) || errors.Is(err, syscall.ECONNREFUSED) {
			return // no process answers, or one hangs up before a hello: status says it
		}
		r = &refusal{kind: "connection", reason: err.Error()}
	}
	if r.kind == kindDuplicate || r.kind == kindStopping {
		return
	}
	now := p.enter()
	defer p.mu.Unlock()
	p.refused++
	if last := p.logged[r.kind]; last.IsZero() || now.Sub(last) >= logPause {
		p.logged[r.kind] = now
		p.cfg.Logger.Warn("no connection with a peer", "address", address, "reason", cut(r.Error()), "failures", p.refused)
	}
}
