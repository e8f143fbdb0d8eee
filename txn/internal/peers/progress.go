package peers

import (
	"context"
	"slices"
	"time"
)

// look is a call of Config.Progress. Peers.mu guards it.
type look struct {
	cancel   context.CancelFunc
	ended    time.Time // zero while it is at work
	progress bool
	err      error
}

// pair says that there is one other member only.
func (p *Peers) pair() bool { return len(p.ring) == 2 }

// doubt prepares what is judged when the silence of the only other member has reached the bound.
// The member is told, because it may hear this instance and has to show that it lives. The brokers
// are asked.
func (p *Peers) doubt(q *peer) {
	if q.look != nil || !q.watched || p.stopping {
		return
	}
	q.link.send(frame{kind: kindQuestion, instance: q.name, incarnation: q.incarnation})
	p.startLook(q, q.suspect())
}

// suspect returns what is known of the incarnation that is, or was, connected.
func (q *peer) suspect() Suspect {
	return Suspect{
		Instance: q.name, Incarnation: q.incarnation, MemberID: q.memberID, TransactionalIDs: slices.Clone(q.ids), Why: q.why,
	}
}

func (p *Peers) startLook(q *peer, s Suspect) {
	ctx, cancel := context.WithTimeout(p.running, FenceTimeout)
	l := &look{cancel: cancel}
	q.look = l
	p.routines.Go(func() {
		defer cancel()
		progress, err := p.cfg.Progress(ctx, s)
		now := p.enter()
		defer p.leave()
		l.ended, l.progress, l.err = now, progress, err
	})
}

// dropLook forgets what the brokers know.
func (q *peer) dropLook() {
	if q.look != nil {
		q.look.cancel()
		q.look = nil
	}
}

// askBrokers returns the empty string if the brokers have seen no progress of a suspect, and else
// what the suspicion waits for.
func (p *Peers) askBrokers(s *suspicion, now time.Time) (again time.Time, status string) {
	const asking = "asking the brokers whether it makes progress"
	q := s.peer
	switch l := q.look; {
	case now.Before(s.retry):
		return s.retry, "the pause after it made progress, or after a failure"
	case l == nil || !l.ended.IsZero() && now.Sub(l.ended) >= roundAge:
		p.startLook(q, s.suspect)
		return time.Time{}, asking
	case l.ended.IsZero():
		return time.Time{}, asking
	case l.err != nil:
		q.dropLook()
		if p.failed(s, l.err, now); s.over {
			return time.Time{}, s.status
		}
		return s.retry, cut(l.err.Error())
	case l.progress:
		p.cfg.Logger.Info("a silent peer is at work: the connection between the two is at fault", "instance", q.name, "incarnation", s.suspect.Incarnation)
		q.dropLook()
		s.retry = now.Add(vainPause)
		return s.retry, "it makes progress at the brokers"
	}
	return time.Time{}, ""
}

// showLife has Config.Live called if the only other member may not hear this instance.
func (p *Peers) showLife(now time.Time) {
	for _, q := range p.peers {
		if !p.pair() || !q.watched || q.incarnation == 0 || q.stopped == q.incarnation || p.stopping {
			continue
		}
		if q.link == nil || now.Sub(q.link.heard) >= p.cfg.Silence/2 || now.Before(q.unheardUntil) {
			select {
			case p.unheard <- struct{}{}:
			default: // a call is at work
			}
		}
	}
}

// live makes the calls of Config.Live.
func (p *Peers) live(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.unheard:
			p.cfg.Live(ctx)
		}
	}
}
