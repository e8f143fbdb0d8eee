package peers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// turnTime is how long each watcher lets the one before it begin, and how long a report of a
	// fencing is good.
	turnTime = time.Second
	// A fencing begins at most every fencingPause, and fencingsMax times in fencingsFor.
	fencingPause = time.Second
	fencingsMax  = 10
	fencingsFor  = time.Minute
	// failuresMax is how often the fencing of a suspect may fail, and failurePauseMax the longest
	// pause after a failure. Pauses that go on doubling would outlast an election of Kafka (9 s) by
	// as long again.
	failuresMax     = 8
	failurePauseMax = 2 * time.Second
	// An incarnation that was fenced in vain vainMax times within vainFor is not fenced any more.
	vainMax = 3
	vainFor = time.Hour
	// vainPause is the pause after a suspect was found to be at work.
	vainPause = 5 * time.Second
)

// suspicion is that an incarnation is dead. Peers.mu guards it. It ends with a hello, or is over
// and stays, for the status.
type suspicion struct {
	peer    *peer
	suspect Suspect
	closed  bool      // the connection was closed, else it was silent
	silent  time.Time // when the silence began

	// The evidence of the round that began at asked.
	asked    time.Time
	dialling bool
	refused  bool             // the dial
	waiting  map[string]bool  // asked, and no answer yet
	opinions map[string]state // stateHeard, stateLost or stateRestarted

	enough    time.Time // since when the evidence is enough without a break
	claimed   time.Time // when a peer last reported that it is fencing
	claimedBy string
	claims    bool // this instance reports that it is fencing
	failures  int
	retry     time.Time          // not before
	cancel    context.CancelFunc // while the fencing is at work
	over      bool
	status    string
}

// suspect begins a suspicion of the incarnation that was connected.
func (p *Peers) suspect(q *peer, closed bool) {
	q.suspicions++
	q.suspicion = &suspicion{
		peer: q, closed: closed, silent: q.heard, opinions: map[string]state{}, waiting: map[string]bool{}, suspect: q.suspect(),
	}
	p.cfg.Logger.Info("a peer is suspected", "instance", q.name, "incarnation", q.incarnation, "why", q.why)
}

// dropSuspicion ends a suspicion without a trace, and a fencing that is at work.
func (p *Peers) dropSuspicion(q *peer) {
	q.dropLook()
	if s := q.suspicion; s != nil && s.cancel != nil {
		s.cancel()
	}
	q.suspicion = nil
}

// end leaves a suspicion as it is.
func (s *suspicion) end(status string) { s.over, s.claims, s.status = true, false, status }

// alive notes that the peer's incarnation was heard.
func (p *Peers) alive(q *peer, now time.Time) {
	q.dropLook()
	if s := q.suspicion; s != nil && s.suspect.Incarnation == q.incarnation {
		p.cfg.Logger.Info("a suspected peer is alive", "instance", q.name, "incarnation", q.incarnation, "was", s.status)
		p.dropSuspicion(q)
	}
	if q.fenced != 0 && q.fenced == q.incarnation {
		q.fenced = 0
		p.inVain(q, now)
	}
}

// restarted notes that the instance has a new incarnation. The old incarnation does not matter any
// more.
func (p *Peers) restarted(q *peer, incarnation uint64) {
	if !p.cfg.withoutRestarts {
		p.dropSuspicion(q)
	}
	// Its member and its ids are the instance's, until the new process tells its own: it may die
	// before.
	q.incarnation, q.vain, q.fenced = incarnation, nil, 0
}

// inVain counts a fencing of an incarnation that lives.
func (p *Peers) inVain(q *peer, now time.Time) {
	q.vain = append(q.vain, now)
	n := q.inVain(now)
	p.cfg.Logger.Warn("a peer was fenced in vain: it is alive", "instance", q.name, "incarnation", q.incarnation, "times", n)
	if n >= vainMax {
		p.cfg.Logger.Warn("a peer is left to the session timeout: it was fenced in vain too often", "instance", q.name,
			"incarnation", q.incarnation, "times", n)
	}
}

// inVain returns how often the incarnation was fenced in vain lately.
func (q *peer) inVain(now time.Time) int {
	q.vain = slices.DeleteFunc(q.vain, func(at time.Time) bool { return now.Sub(at) >= vainFor })
	return len(q.vain)
}

// consider does what is due for a suspicion, and returns when to look again; the zero time if only
// an event can change it.
func (p *Peers) consider(q *peer, now time.Time) time.Time {
	s := q.suspicion
	switch {
	case s.over || s.cancel != nil:
		return time.Time{}
	case !q.watched:
		p.dropSuspicion(q)
		return time.Time{}
	}
	claimed := s.claims
	s.claims = false
	again, status := p.judge(s, claimed, now)
	if s.over {
		p.cfg.Logger.Warn("a suspicion is over", "instance", q.name, "incarnation", s.suspect.Incarnation, "why", status)
	}
	if s.claims && !claimed {
		p.claim(s)
	}
	s.status = status
	// Evidence is collected again as long as the suspicion lasts.
	if round := s.asked.Add(roundAge); !s.asked.IsZero() && (again.IsZero() || again.After(round)) {
		again = round
	}
	return again
}

// judge follows the order of the package documentation. It returns when to look again at the
// latest, and what the suspicion waits for.
func (p *Peers) judge(s *suspicion, claimed bool, now time.Time) (again time.Time, status string) {
	if at := p.gap.Add(2 * p.cfg.Heartbeat); now.Before(at) {
		return at, "this process did not run for a while"
	}
	if at := s.silent.Add(p.cfg.Silence); !s.closed && now.Before(at) {
		return at, "silent for less than the bound"
	}
	if s.peer.inVain(now) >= vainMax && s.peer.incarnation == s.suspect.Incarnation {
		s.over = true
		return time.Time{}, "left to the session timeout: fenced in vain too often"
	}
	if s.asked.IsZero() || now.Sub(s.asked) >= roundAge {
		p.ask(s, now)
	}
	lost := 0
	for name, opinion := range s.opinions {
		switch opinion {
		case stateRestarted:
			if !p.cfg.withoutRestarts {
				s.over = true
				return time.Time{}, fmt.Sprintf("restarted, says %q", name)
			}
		case stateHeard:
			s.enough = time.Time{}
			return time.Time{}, fmt.Sprintf("alive for %q", name)
		case stateLost:
			lost++
		default: // is no opinion
		}
	}
	// A dial of a host that has vanished gets no answer. After a silence of the bound it is not
	// waited for where there is a second opinion.
	dialling := s.dialling && (s.closed || lost == 0 && !p.pair())
	if at := s.asked.Add(opinionMax); now.Before(at) && (dialling || len(s.waiting) > 0) {
		return at, "collecting evidence"
	}
	if again, status := p.weigh(s, lost, now); status != "" {
		s.enough = time.Time{}
		return again, status
	}
	if s.enough.IsZero() {
		s.enough = now
	}
	if again, status := p.turn(s, claimed, now); status != "" {
		return again, status
	}
	return p.begin(s, now)
}

// ask begins a round.
func (p *Peers) ask(s *suspicion, now time.Time) {
	q := s.peer
	s.asked, s.refused = now, false
	clear(s.opinions)
	clear(s.waiting)
	if s.dialling = q.address != "" && q.link == nil; s.dialling {
		q.dialAt = q.dialBegan.Add(p.cfg.Heartbeat) // long ago, unless the connection flaps
	}
	if p.cfg.withoutOpinions {
		return
	}
	for name, other := range p.peers {
		if other.link != nil && p.ring.watches(name, q.name) {
			s.waiting[name] = true
			other.link.send(frame{kind: kindQuestion, instance: q.name, incarnation: s.suspect.Incarnation})
		}
	}
}

// weigh returns why the evidence of the round is not enough, and the empty string if it is.
func (p *Peers) weigh(s *suspicion, lost int, now time.Time) (again time.Time, status string) {
	pair := p.pair()
	gone := s.closed || s.refused
	switch {
	case pair && !s.refused: // the brokers know more than this instance
		return p.askBrokers(s, now)
	case p.cutOff(now) && !pair:
		return time.Time{}, "this instance hears no other one: it may be the one that is cut off"
	case lost > 0 || s.refused:
		return time.Time{}, ""
	case s.closed && !pair && !p.connected():
		return time.Time{}, "this instance has lost all others: it may be the one that is cut off"
	case gone:
		return time.Time{}, ""
	}
	if at := s.silent.Add(2 * p.cfg.Silence); now.Before(at) {
		return at, "silent, and no other watcher has an opinion"
	}
	return time.Time{}, ""
}

func (p *Peers) connected() bool {
	for _, q := range p.peers {
		if q.link != nil {
			return true
		}
	}
	return false
}

// turn returns whose turn it is, and the empty string if it is this instance's.
func (p *Peers) turn(s *suspicion, claimed bool, now time.Time) (again time.Time, status string) {
	watchers := p.ring.watchers(s.suspect.Instance)
	own := slices.Index(watchers, p.cfg.Self.Instance)
	if at := s.claimed.Add(turnTime); now.Before(at) && !(claimed && slices.Index(watchers, s.claimedBy) > own) {
		return at, fmt.Sprintf("%q is fencing it", s.claimedBy)
	}
	var before []string
	for _, name := range watchers[:max(own, 0)] {
		// A watcher that this instance does not watch, because the ring is large, may well have
		// lost the suspect too.
		q := p.peers[name]
		if s.opinions[name] == stateLost && q != nil && q.link != nil || !p.ring.watches(p.cfg.Self.Instance, name) {
			before = append(before, name)
		}
	}
	// If a peer was fencing and has not finished, the turns begin again.
	from := s.enough
	if lapsed := s.claimed.Add(turnTime); lapsed.After(from) {
		from = lapsed
	}
	if at := from.Add(time.Duration(len(before)) * turnTime); now.Before(at) {
		return at, "it is the turn of " + strings.Join(before, ", ")
	}
	return time.Time{}, ""
}

// begin starts the fencing, unless that has to wait.
func (p *Peers) begin(s *suspicion, now time.Time) (again time.Time, status string) {
	at := p.allowed(now)
	if s.retry.After(at) {
		at = s.retry
	}
	// Others wait for this instance, but not long, and not again after a failure.
	s.claims = s.failures == 0 && at.Sub(now) <= turnTime
	switch busy := p.busyUntil(); {
	case now.Before(busy):
		return busy, "another fencing is at work"
	case now.Before(at):
		return at, "the limits of fencings, or the pause after a failure"
	}
	ctx, cancel := context.WithTimeout(p.running, FenceTimeout)
	s.cancel, s.claims = cancel, true
	p.fencing[s] = now
	p.fencings = append(p.fencings, now)
	p.routines.Go(func() {
		p.fenced(s, p.cfg.Fence(ctx, s.suspect))
	})
	p.cfg.Logger.Warn("a peer is fenced", "instance", s.suspect.Instance, "incarnation", s.suspect.Incarnation, "why", s.suspect.Why)
	return time.Time{}, "fencing"
}

// busyUntil returns until when calls of Config.Fence that are at work hold up the next one.
func (p *Peers) busyUntil() (until time.Time) {
	for _, began := range p.fencing {
		if at := began.Add(fencePatience); at.After(until) {
			until = at
		}
	}
	return until
}

// allowed returns when the limits allow the next fencing.
func (p *Peers) allowed(now time.Time) time.Time {
	p.fencings = slices.DeleteFunc(p.fencings, func(at time.Time) bool { return now.Sub(at) >= fencingsFor })
	n := len(p.fencings)
	switch {
	case n >= fencingsMax:
		return p.fencings[n-fencingsMax].Add(fencingsFor)
	case n > 0:
		return p.fencings[n-1].Add(fencingPause)
	}
	return now
}

// claim reports to all peers that this instance fences, or is about to.
func (p *Peers) claim(s *suspicion) {
	p.broadcast(frame{kind: kindReport, instance: s.suspect.Instance, incarnation: s.suspect.Incarnation, state: stateFencing,
		by: p.cfg.Self.Instance})
}

// fenced notes how a fencing has ended.
func (p *Peers) fenced(s *suspicion, err error) {
	now := p.enter()
	defer p.leave()
	s.cancel()
	delete(p.fencing, s)
	s.cancel, s.claims = nil, false
	q, log := s.peer, p.cfg.Logger.With("instance", s.suspect.Instance, "incarnation", s.suspect.Incarnation)
	switch {
	case err == nil && q.incarnation == s.suspect.Incarnation && q.suspicion != s && q.link != nil:
		p.inVain(q, now) // it came back in the meantime
	case err == nil:
		log.Info("a peer was fenced", "why", s.suspect.Why)
		s.end("fenced")
		if q.incarnation == s.suspect.Incarnation {
			q.fenced, q.fencedAt = q.incarnation, now
		}
		p.broadcast(frame{kind: kindReport, instance: s.suspect.Instance, incarnation: s.suspect.Incarnation, state: stateFenced})
	case q.suspicion != s: // it does not matter any more
	default:
		p.failed(s, err, now)
	}
}

// failed notes that the brokers did not do, or say, what they were asked for.
func (p *Peers) failed(s *suspicion, err error, now time.Time) {
	log := p.cfg.Logger.With("instance", s.suspect.Instance, "incarnation", s.suspect.Incarnation)
	log.Warn("fencing a peer has failed", "error", err, "times", s.failures+1)
	s.asked, s.retry = time.Time{}, now.Add(min(time.Second<<s.failures, failurePauseMax))
	if s.failures++; s.failures >= failuresMax {
		log.Warn("a peer is left to the session timeout: fencing it has failed too often")
		s.end("left to the session timeout: fencing has failed: " + cut(err.Error()))
	}
}

// asked answers a question, which says that the peer has lost the incarnation.
func (p *Peers) asked(from *peer, f frame, now time.Time) {
	if f.instance == p.cfg.Self.Instance { // by a member that does not hear this instance
		from.unheardUntil = now.Add(p.cfg.Silence)
		return
	}
	from.link.send(p.report(f.instance, f.incarnation, now))
	if q := p.peers[f.instance]; q != nil && q.suspicion != nil && q.suspicion.suspect.Incarnation == f.incarnation {
		q.suspicion.opinions[from.name] = stateLost
		delete(q.suspicion.waiting, from.name)
	}
}

// report returns what is known of an incarnation.
func (p *Peers) report(instance string, incarnation uint64, now time.Time) frame {
	f := frame{kind: kindReport, instance: instance, incarnation: incarnation}
	q := p.peers[instance]
	switch {
	case q == nil:
	case q.stopped == incarnation:
		f.state = stateStopped
	case q.link != nil && q.incarnation == incarnation:
		f.state, f.age = stateHeard, now.Sub(q.link.heard)
	case q.link != nil && now.Sub(q.link.heard) <= 2*p.cfg.Heartbeat:
		f.state = stateRestarted
	case q.incarnation != incarnation:
	case q.fenced == incarnation:
		f.state, f.age = stateFenced, now.Sub(q.fencedAt)
	case q.suspicion != nil && (q.suspicion.claims || q.suspicion.cancel != nil):
		f.state, f.by = stateFencing, p.cfg.Self.Instance
	case q.suspicion != nil && now.Before(q.suspicion.claimed.Add(turnTime)):
		f.state, f.by, f.age = stateFencing, q.suspicion.claimedBy, now.Sub(q.suspicion.claimed)
	default:
		f.state = stateLost
	}
	return f
}

// reported takes over what a peer knows of an incarnation.
func (p *Peers) reported(from *peer, f frame, now time.Time) {
	q := p.peers[f.instance]
	if q == nil || q.incarnation != f.incarnation {
		return
	}
	s, heard := q.suspicion, q.heard
	if q.link != nil {
		heard = q.link.heard
	}
	// An answer may tell of a fencing after which the incarnation was heard here: it came back.
	if at := now.Add(-f.age); f.state == stateFenced && at.After(heard) {
		if q.fenced != f.incarnation && p.cfg.Fenced != nil {
			p.cfg.Fenced(f.instance)
		}
		q.fenced, q.fencedAt = f.incarnation, at
		if s != nil {
			s.end(fmt.Sprintf("fenced by %q", from.name))
		}
		return
	}
	if s == nil || s.over {
		return
	}
	delete(s.waiting, from.name)
	switch f.state {
	case stateStopped:
		q.stopped = f.incarnation
		p.dropSuspicion(q)
	case stateHeard:
		s.opinions[from.name] = stateLost
		if f.age <= 2*p.cfg.Heartbeat {
			s.opinions[from.name] = stateHeard
		}
	case stateRestarted:
		s.opinions[from.name] = stateRestarted
	case stateLost, stateFenced:
		s.opinions[from.name] = stateLost
	case stateFencing:
		s.opinions[from.name] = stateLost
		if at := now.Add(-f.age); f.by != p.cfg.Self.Instance && at.After(s.claimed) {
			s.claimed, s.claimedBy = at, f.by
		}
	default:
		delete(s.opinions, from.name)
	}
}
