package peers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/onceward/onceward/txn/internal/loopback"
)

// Bounds that are no settings.
const (
	// FenceTimeout bounds a call of Config.Fence.
	FenceTimeout = 30 * time.Second
	// fencePatience is how long a call of Config.Fence holds up the next one. A transaction whose
	// markers cannot be written must not keep other instances from being fenced.
	fencePatience = 2 * time.Second

	// opinionMax is how long a round of evidence waits for answers.
	opinionMax = 500 * time.Millisecond
	// redialFirst is the pause before another dial of a suspect whose listener was closed under the
	// first one. The pauses double.
	redialFirst = 10 * time.Millisecond
	// roundAge is how long a round's evidence is good.
	roundAge = time.Second
	// handshakesMax is how many accepted connections may be in their handshake.
	handshakesMax = 64
	// strangersMax is how many instances are remembered that are not in the plan: they have left,
	// or wait for a plan that has them.
	strangersMax = 64
	// dialPauseMax is the longest pause between two dials of a peer.
	dialPauseMax = 5 * time.Second
	// unneededAfter is when a connection with an instance that is not watched is closed. The other
	// side may have an older plan.
	unneededAfter = 10 * time.Second
	// logPause is the least time between two log lines of the same kind of refusal.
	logPause = time.Minute
)

// Identity names a process.
type Identity struct {
	Application, Cluster, Instance string
	// Incarnation is a random number of this process, not zero.
	Incarnation uint64
}

// Config is how an instance watches its peers.
type Config struct {
	Self Identity
	// Listener accepts peers. It belongs to the package as soon as New is called. Nil: there are no
	// peers.
	Listener net.Listener
	// Address is what others dial to reach the listener.
	Address string
	// Dial makes a connection. Default is TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Security is called for each connection, so that changed files count from the next one on. It
	// may read files. Nil: neither TLS nor a secret.
	Security func() Security
	// Heartbeat is the pause between two heartbeats, by default 200 ms, and Silence the time after
	// which a peer that is not heard is a suspect, by default 2 s and at least five heartbeats.
	Heartbeat, Silence time.Duration
	Logger             *slog.Logger
	// Fence ends the transactions of a suspect and removes its member. An error means that this may
	// not have succeeded; it is called again. Calls for other suspects may be at work meanwhile.
	Fence func(context.Context, Suspect) error
	// Progress looks for about half the silence bound whether the brokers see a suspect make
	// progress. It fails if this process does not reach them. It is called where only the brokers
	// can know, on a goroutine of its own; its context ends when the suspect is heard.
	Progress func(context.Context, Suspect) (bool, error)
	// Live shows the brokers that this instance lives, by what Progress of the others sees. It is
	// called again and again while the only other member may not hear this instance, by one
	// goroutine. Nil: nothing is called.
	Live func(context.Context)
	// Fenced is called when a peer reports that it has fenced an instance, once for each
	// incarnation. It must not wait, nor call this package. Nil: nothing is called.
	Fenced func(instance string)
	// Over is called when a peer says that a part of a plan of the group is done (see [Peers.Over]). If
	// it returns true, the peers of this instance are told too: they may have no connection with the
	// instance that said it. It has to return true once for a plan at most. It must not wait, nor call
	// this package. Nil: nothing is called, and nothing is passed on.
	Over func(plan uint64) (first bool)

	// hold is called by every goroutine that comes back from a wait; a test freezes the process
	// with it.
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

// New checks the configuration.
func New(cfg Config) (*Peers, error) {
	p := &Peers{
		cfg: cfg, off: cfg.Listener == nil, kick: make(chan struct{}, 1), fencing: map[*suspicion]time.Time{}, unheard: make(chan struct{}, 1),
		peers: map[string]*peer{}, ring: newRing(cfg.Self.Instance), logged: map[string]time.Time{}, streams: newStreams(),
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
	if p.cfg.Security == nil {
		p.cfg.Security = func() Security { return Security{} }
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
	security := c.Security()
	switch {
	case c.Self.Instance == "" || c.Self.Incarnation == 0:
		return errors.New("an instance needs a name and an incarnation")
	case c.Fence == nil || c.Progress == nil:
		return errors.New("there is no function that fences, or none that asks the brokers")
	case c.Heartbeat <= 0 || c.Silence < 5*c.Heartbeat:
		return fmt.Errorf("the silence bound of %s is less than five heartbeats of %s", c.Silence, c.Heartbeat)
	case security.none() && !loopback.Address(c.Listener.Addr().String()):
		return fmt.Errorf("%s is no loopback address: give TLS or a secret", c.Listener.Addr())
	}
	return security.Check()
}
