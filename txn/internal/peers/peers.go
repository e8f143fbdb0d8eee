package peers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Bounds that are no settings.
const (
	// FenceTimeout bounds a call of Config.Fence.
	FenceTimeout = 30 * time.Second

	// opinionMax is how long a round of evidence waits for answers.
	opinionMax = 500 * time.Millisecond
	// roundAge is how long a round's evidence is good.
	roundAge = time.Second
	// handshakesMax is how many accepted connections may be in their handshake.
	handshakesMax = 64
	// dialPauseMax is the longest pause between two dials of a peer.
	dialPauseMax = 5 * time.Second
	// unneededAfter is when a connection with an instance that is not watched is closed. The other side may have an older plan.
	unneededAfter = 10 * time.Second
	// logPause is the least time between two log lines of the same kind of refusal.
	logPause = time.Minute
)

// Identity is who a process is.
type Identity struct {
	Application, Cluster, Instance string
	// Incarnation is a random number of this process, not zero.
	Incarnation uint64
}

// Config is how an instance watches its peers.
type Config struct {
	Self Identity
	// Listener accepts peers. It belongs to the package as soon as New is called. Nil: there are no peers.
	Listener net.Listener
	// Address is what others dial to reach the listener.
	Address string
	// Dial makes a connection. Default is TCP.
	Dial     func(ctx context.Context, address string) (net.Conn, error)
	Security Security
	// Heartbeat is the pause between two heartbeats, by default 200 ms, and Silence the time after which a peer that is not heard is a suspect,
	// by default 2 s and at least five heartbeats.
	Heartbeat, Silence time.Duration
	Logger             *slog.Logger
	// Fence ends the transactions of a suspect and removes its member. An error means that this may not have succeeded; it is called again.
	Fence func(context.Context, Suspect) (Verdict, error)

	// hold is called by every goroutine that comes back from a wait; a test freezes the process with it.
	hold func()
	// withoutOpinions and withoutRestarts leave a rule out, for negative controls.
	withoutOpinions, withoutRestarts bool
}

// Member is an instance of the group's plan.
type Member struct {
	Instance string
	// Address is where it listens for peers; empty if it does not.
	Address string
}

// Suspect is an incarnation of an instance that is taken for dead.
type Suspect struct {
	Instance    string
	Incarnation uint64
	MemberID    string
	// TransactionalIDs are all that this incarnation has told.
	TransactionalIDs []string
	// Why says what the evidence is.
	Why string
}

// Verdict is what a fencing found.
type Verdict int

const (
	// Fenced: the transactional ids and the member of the suspect are fenced.
	Fenced Verdict = iota
	// Alive: the suspect was found to be at work.
	Alive
)

// Peers watches the other instances.
type Peers struct {
	cfg      Config
	off      bool
	kick     chan struct{} // something has changed
	work     chan fencing
	routines sync.WaitGroup

	mu       sync.Mutex
	memberID string
	ids      []string
	peers    map[string]*peer
	ring     ring
	running  context.Context // nil unless Run is at work
	stopping bool
	entered  time.Time            // when the mutex was last taken
	gap      time.Time            // the end of the last time in which the process did not run
	heard    time.Time            // from any peer
	fencing  *suspicion           // the one at work
	fencings []time.Time          // begun in the last minute
	refused  int                  // connections
	logged   map[string]time.Time // by kind of refusal
}

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

	suspicion  *suspicion
	suspicions int
	stopped    uint64 // the incarnation that said goodbye
	fenced     uint64 // the incarnation that was fenced and not heard since
	fencedAt   time.Time
	vain       []time.Time // when the incarnation was found alive after a fencing
}

// New checks the configuration.
func New(cfg Config) (*Peers, error) {
	p := &Peers{
		cfg: cfg, off: cfg.Listener == nil, kick: make(chan struct{}, 1), work: make(chan fencing, 1),
		peers: map[string]*peer{}, ring: newRing(cfg.Self.Instance), logged: map[string]time.Time{},
	}
	if p.off {
		return p, nil
	}
	set(&p.cfg.Heartbeat, 200*time.Millisecond)
	set(&p.cfg.Silence, 10*p.cfg.Heartbeat)
	if p.cfg.Logger == nil {
		p.cfg.Logger = slog.Default()
	}
	if p.cfg.Dial == nil {
		p.cfg.Dial = func(ctx context.Context, address string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", address)
		}
	}
	if err := p.cfg.check(); err != nil {
		return nil, errors.Join(fmt.Errorf("peers: %w", err), cfg.Listener.Close())
	}
	return p, nil
}

func set(field *time.Duration, value time.Duration) {
	if *field == 0 {
		*field = value
	}
}

func (c Config) check() error {
	switch {
	case c.Self.Instance == "" || c.Self.Incarnation == 0:
		return errors.New("an instance needs a name and an incarnation")
	case c.Fence == nil:
		return errors.New("there is no function that fences")
	case c.Heartbeat <= 0 || c.Silence < 5*c.Heartbeat:
		return fmt.Errorf("the silence bound of %s is less than five heartbeats of %s", c.Silence, c.Heartbeat)
	case c.Security.none() && !isLoopback(c.Listener.Addr()):
		return fmt.Errorf("%s is no loopback address: give TLS or a secret", c.Listener.Addr())
	}
	return c.Security.check()
}

// Run watches until the context ends, and returns when all of its goroutines have ended. It is called once.
func (p *Peers) Run(ctx context.Context) {
	if p.off {
		<-ctx.Done()
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer p.routines.Wait()
	defer p.cfg.Listener.Close()
	defer cancel()
	p.mu.Lock()
	p.running, p.entered = ctx, time.Now()
	p.mu.Unlock()
	p.routines.Go(func() { p.accept(ctx) })
	p.routines.Go(func() { p.fence(ctx) })
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
		if m.Address != q.planned {
			q.planned, q.address, q.dialAt = m.Address, m.Address, now
		}
	}
	p.ring = newRing(names...)
	for name, q := range p.peers {
		q.watched = p.ring.watches(p.cfg.Self.Instance, name)
		// What is known of an instance that has left is kept for as long as its fencings in vain count.
		if !slices.Contains(names, name) && q.link == nil && !q.dialling && now.Sub(q.since) > vainFor {
			delete(p.peers, name)
		}
	}
}

// peer returns the record of an instance, a new one if there is none.
func (p *Peers) peer(name string, now time.Time) *peer {
	q := p.peers[name]
	if q == nil {
		q = &peer{name: name, since: now, pause: p.cfg.Heartbeat, why: "not dialled yet"}
		p.peers[name] = q
	}
	return q
}

// SetSelf tells the group member id and the transactional ids of this instance. It fails if they do not fit into a frame.
func (p *Peers) SetSelf(memberID string, transactionalIDs []string) error {
	if p.off {
		return nil
	}
	p.enter()
	defer p.leave()
	hello := p.helloLocked()
	hello.memberID, hello.ids = memberID, transactionalIDs
	if _, err := seal(hello.body(), &macKey{}); err != nil {
		return fmt.Errorf("peers: %w", err)
	}
	if len(transactionalIDs) > idsMax {
		return fmt.Errorf("peers: %d transactional ids are more than %d", len(transactionalIDs), idsMax)
	}
	if memberID == p.memberID && slices.Equal(transactionalIDs, p.ids) {
		return nil
	}
	p.memberID, p.ids = memberID, slices.Clone(transactionalIDs)
	p.broadcast(frame{kind: kindUpdate, memberID: memberID, ids: p.ids})
	return nil
}

// Goodbye tells all peers that this instance stops, and waits until they have heard it. From then on it suspects and dials nobody. Run goes
// on until its context ends.
func (p *Peers) Goodbye(ctx context.Context) error {
	if p.off {
		return nil
	}
	now := p.enter()
	p.stopping = true
	var links []*link
	for _, q := range p.peers {
		p.forget(q)
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
		if q.link != nil {
			q.link.heard = now
		}
		if s := q.suspicion; s != nil {
			s.silent, s.enough, s.asked = now, time.Time{}, time.Time{}
		}
	}
}

// hear notes that a peer was heard. Silences that were measured while nobody was heard say nothing about the others.
func (p *Peers) hear(now time.Time) {
	if p.cutOff(now) {
		p.beginAgain(now)
	}
	p.heard = now
}

// cutOff says that nobody was heard for the silence bound.
func (p *Peers) cutOff(now time.Time) bool { return now.Sub(p.heard) >= p.cfg.Silence }

// beat sends what is sent with every heartbeat.
func (p *Peers) beat() {
	p.enter()
	defer p.mu.Unlock()
	p.broadcast(frame{kind: kindHeartbeat})
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
				// A peer that hears this side must not take the end of the connection for the end of the process.
				l.dismiss(codeSilent, "it does not hear this side", p.cfg.Silence)
				p.lose(q, now, errSilent)
			case !q.watched && now.Sub(l.made) >= unneededAfter:
				l.dismiss(codeDuplicate, "the two do not watch each other", p.cfg.Silence)
				q.disconnect(now, "not watched")
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

func (p *Peers) startDial(q *peer, now time.Time) {
	q.dialling, q.dialBegan, q.dialAt = true, now, now.Add(q.pause)
	q.pause = min(2*q.pause, dialPauseMax)
	address, ctx := q.address, p.running
	p.routines.Go(func() { p.dial(ctx, q.name, address, now) })
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
		s.dialling = false
		s.refused = errors.Is(err, syscall.ECONNREFUSED)
	}
}

// hello returns the hello of this instance.
func (p *Peers) hello() frame {
	p.enter()
	defer p.mu.Unlock()
	return p.helloLocked()
}

func (p *Peers) helloLocked() frame {
	id := p.cfg.Self
	return frame{
		kind: kindHello, application: id.Application, cluster: id.Cluster, instance: id.Instance, incarnation: id.Incarnation,
		address: p.cfg.Address, memberID: p.memberID, ids: p.ids, nonce: p.cfg.Security.nonce(),
	}
}

// join makes a link that of its peer, or returns why not.
func (p *Peers) join(l *link) error {
	err := p.joinLocked(l)
	var refused *refusal
	if errors.As(err, &refused) {
		code := byte(codeRefused)
		if refused.kind == kindDuplicate {
			code = codeDuplicate
		}
		_ = l.raw.SetDeadline(time.Now().Add(opinionMax)) // it fails only if the connection is closed
		if send(l.conn, frame{kind: kindGoodbye, code: code, reason: cut(refused.reason)}.body(), l.out) == nil {
			_, _ = io.Copy(io.Discard, io.LimitReader(l.conn, frameMax)) // until the peer closes
		}
	}
	return err
}

// kindDuplicate is the refusal that is part of normal work.
const kindDuplicate = "duplicate"

func (p *Peers) joinLocked(l *link) error {
	now := p.enter()
	defer p.leave()
	h := l.hello
	if p.stopping {
		return &refusal{kind: "stopping", reason: fmt.Sprintf("instance %q stops", p.cfg.Self.Instance)}
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
	q.memberID = f.memberID
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
	case kindQuestion:
		p.asked(q, f, now)
	case kindReport:
		p.reported(q, f, now)
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
	for _, other := range p.peers {
		if s := other.suspicion; s != nil {
			delete(s.waiting, q.name) // no answer comes any more
		}
	}
	if q.watched && !p.stopping && p.running.Err() == nil {
		p.suspect(q, isClosed(err))
	}
}

// note counts and logs a failed handshake, each kind once a minute.
func (p *Peers) note(err error, address string) {
	var r *refusal
	if !errors.As(err, &r) {
		if err == nil || isClosed(err) || errors.Is(err, net.ErrClosed) || errors.Is(err, context.Canceled) || errors.Is(err, syscall.ECONNREFUSED) {
			return // nobody answers, or somebody hangs up before a hello: status says it
		}
		r = &refusal{kind: "connection", reason: err.Error()}
	}
	if r.kind == kindDuplicate {
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
