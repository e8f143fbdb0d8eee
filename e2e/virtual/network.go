package virtual

import (
	"context"
	"hash/fnv"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/onceward/onceward/e2e/proxy"
)

// Weather is what the network does to every frame.
type Weather struct {
	// LatencyMax is the longest time that a frame is under way, beside 0.2 ms that every frame
	// takes. Each frame gets a share of it.
	LatencyMax time.Duration
	// CutShare is the share of frames that are lost together with their connection.
	CutShare float64
}

// Network connects hosts with brokers. Get one from [NewNetwork].
type Network struct {
	seed  uint64
	pipes kfake.VirtualNetwork
	rules proxy.Rules
	trace *Trace
	work  sync.WaitGroup // links

	mu      sync.Mutex
	weather Weather
	hosts   map[string]*Host
	down    map[string]bool    // brokers' addresses that refuse connections
	blocked map[[2]string]bool // host and broker's address
	links   map[*link]bool     // those that have not ended
	streams map[*stream]bool   // likewise
	// listeners are those of hosts, by address.
	listeners map[string]*listener
	dialed    map[[2]string]uint64 // connections so far, by host and broker's address
	names     map[string]string    // brokers' addresses to names in the trace
	changed   chan struct{}        // closed and replaced when something above lets more through
	closed    bool
}

// NewNetwork returns a network that ends with the test. All its random decisions come from the
// seed.
func NewNetwork(t testing.TB, seed uint64) *Network {
	n := &Network{
		seed: seed, trace: NewTrace(), hosts: map[string]*Host{}, down: map[string]bool{}, blocked: map[[2]string]bool{},
		links: map[*link]bool{}, streams: map[*stream]bool{}, listeners: map[string]*listener{}, dialed: map[[2]string]uint64{},
		names: map[string]string{}, changed: make(chan struct{}),
	}
	t.Cleanup(n.close)
	return n
}

// Trace returns what has happened.
func (n *Network) Trace() *Trace { return n.trace }

// Add installs a rule for frames behind those that are there. The hosts that it is about can be
// told by the client id, or by match.Where.
func (n *Network) Add(match proxy.Match, action proxy.Action) *proxy.Rule {
	n.trace.Logf("network", "rule %s: %s", match, action)
	return n.rules.Add(match, action)
}

// SetWeather changes what happens to every frame from now on.
func (n *Network) SetWeather(w Weather) {
	n.trace.Logf("network", "latency up to %s, %.2f %% of the frames cut", w.LatencyMax, w.CutShare*100)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.weather = w
}

// Host returns the host of that name. It begins to exist with the first call.
func (n *Network) Host(name string) *Host {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.hosts[name]
	if h == nil {
		h = &Host{n: n, name: name}
		n.hosts[name] = h
	}
	return h
}

// Block separates a host from a broker: nothing arrives, and nothing fails at once. With the name
// of another host instead of the broker's address, nothing arrives from the first one at the second
// one. Unblock ends it.
func (n *Network) Block(host, broker string) { n.block(host, broker, true) }

// Unblock ends what Block has begun.
func (n *Network) Unblock(host, broker string) { n.block(host, broker, false) }

func (n *Network) block(host, broker string, blocked bool) {
	n.trace.Logf(host, "blocked from %s: %t", broker, blocked)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.blocked[[2]string{host, broker}] = blocked
	n.tell()
}

// setDown makes a broker refuse connections, or accept them again.
func (n *Network) setDown(broker string, down bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down[broker] = down
	n.tell()
	if !down {
		return
	}
	for l := range n.links {
		if l.broker == broker {
			l.end()
		}
	}
}

// tell wakes what waits for the network to let more through; the caller holds mu.
func (n *Network) tell() {
	close(n.changed)
	n.changed = make(chan struct{})
}

// passable waits until frames between a host and a broker arrive. It returns false if done is
// closed before.
func (n *Network) passable(h *Host, broker string, done <-chan struct{}) bool {
	for {
		n.mu.Lock()
		ok, changed := !h.stalled && !n.blocked[[2]string{h.name, broker}], n.changed
		n.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-changed:
		case <-done:
			return false
		}
	}
}

// name returns what a broker is called in the trace.
func (n *Network) name(broker string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if name := n.names[broker]; name != "" {
		return name
	}
	return broker
}

// generator returns the generator of the next connection between a host and a broker; the caller
// holds mu.
func (n *Network) generator(host, broker string) *rand.Rand {
	key := [2]string{host, broker}
	n.dialed[key]++
	h := fnv.New64a()
	_, _ = h.Write([]byte(host + "\x00" + broker + "\x00" + strconv.FormatUint(n.dialed[key], 10))) // never fails
	return rand.New(rand.NewPCG(n.seed, h.Sum64()))
}

// close ends every connection and waits for its goroutines.
func (n *Network) close() {
	n.mu.Lock()
	n.closed = true
	for l := range n.links {
		l.end()
	}
	for s := range n.streams {
		s.cut()
	}
	n.mu.Unlock()
	n.work.Wait()
}

// Host is where a client runs.
type Host struct {
	n     *Network
	name  string
	rules proxy.Rules
	// guarded by Network.mu
	stalled, down, killed, steady bool
}

// Steady excludes the host from the weather and returns it: an observer that loses its own
// connections observes less.
func (h *Host) Steady() *Host {
	h.n.mu.Lock()
	defer h.n.mu.Unlock()
	h.steady = true
	return h
}

// dialTimeout is how long a connection may take to be made: the default of franz-go's own dialer.
const dialTimeout = 10 * time.Second

// Dial makes a connection to a broker, or a stream to a [Host.Listen] address. Its signature is
// that of kgo.Dialer and of txn.Config.Dialer.
func (h *Host) Dial(ctx context.Context, _, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	n := h.n
	n.mu.Lock()
	to, refused := n.listeners[address], n.closed || h.gone() || n.down[address]
	if to != nil && !refused {
		n.mu.Unlock()
		return h.dialHost(ctx, to)
	}
	rng := n.generator(h.name, address)
	wait := n.latency(h, rng)
	n.mu.Unlock()
	if err := sleep(ctx, wait); err != nil {
		return nil, dialError(err)
	}
	if refused {
		return nil, errRefused
	}
	if !n.passable(h, address, ctx.Done()) {
		return nil, dialError(os.ErrDeadlineExceeded)
	}
	broker, err := n.pipes.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, errRefused
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed || h.gone() || n.down[address] {
		_ = broker.Close() // nothing was sent on it
		return nil, errRefused
	}
	l := newLink(h, address, broker, rng)
	n.links[l] = true
	n.work.Go(func() {
		l.run()
		n.mu.Lock()
		delete(n.links, l)
		n.mu.Unlock()
	})
	return l.client, nil
}

// wire is how long every frame is under way at least. Without it a client that asks again and again
// for what is not there yet would keep virtual time from passing.
const wire = 200 * time.Microsecond

// latency draws the time that a frame of the host is under way; the caller holds mu.
func (n *Network) latency(h *Host, rng *rand.Rand) time.Duration {
	if h.steady || n.weather.LatencyMax <= 0 {
		return wire
	}
	return wire + time.Duration(rng.Int64N(int64(n.weather.LatencyMax)))
}

// fate draws what the weather does to a frame of the host.
func (n *Network) fate(h *Host, rng *rand.Rand) (latency time.Duration, cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.latency(h, rng), !h.steady && n.weather.CutShare > 0 && rng.Float64() < n.weather.CutShare
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

var errRefused = dialError(os.NewSyscallError("connect", syscall.ECONNREFUSED))

func dialError(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }

// Add installs a rule for frames of this host, behind the rules that are there.
func (h *Host) Add(match proxy.Match, action proxy.Action) *proxy.Rule {
	h.n.trace.Logf(h.name, "rule %s: %s", match, action)
	return h.rules.Add(match, action)
}

// Cut resets the connections that the host has.
func (h *Host) Cut() {
	h.n.trace.Logf(h.name, "connections cut")
	h.n.mu.Lock()
	defer h.n.mu.Unlock()
	h.reset()
}

// reset ends the host's connections; the caller holds mu.
func (h *Host) reset() {
	for l := range h.n.links {
		if l.host == h {
			l.end()
		}
	}
	h.resetStreams()
}

// resetStreams ends the host's streams; the caller holds mu.
func (h *Host) resetStreams() {
	for s := range h.n.streams {
		if s.hosts[0] == h || s.hosts[1] == h {
			s.cut()
		}
	}
}

// Stall lets nothing arrive in either direction, and nothing fails: that is what a stopped process
// and a network that swallows packets have in common. What was sent arrives after [Host.Resume].
func (h *Host) Stall() { h.stall(true) }

// Resume ends what Stall has begun.
func (h *Host) Resume() { h.stall(false) }

func (h *Host) stall(stalled bool) {
	h.n.trace.Logf(h.name, "stalled: %t", stalled)
	h.n.mu.Lock()
	defer h.n.mu.Unlock()
	h.stalled = stalled
	h.n.tell()
}

// Down resets the host's connections and refuses new ones.
func (h *Host) Down() {
	h.n.trace.Logf(h.name, "network down")
	h.n.mu.Lock()
	defer h.n.mu.Unlock()
	h.down = true
	h.reset()
}

// Up ends what Down has begun.
func (h *Host) Up() {
	h.n.trace.Logf(h.name, "network up")
	h.n.mu.Lock()
	defer h.n.mu.Unlock()
	h.down = false
	h.n.tell()
}

// Kill is the end of a process as its brokers see it: its connections end and no new one is made.
// What it has sent arrives, or is lost, as the seed decides for each connection.
func (h *Host) Kill() {
	h.n.trace.Logf(h.name, "killed")
	h.n.mu.Lock()
	defer h.n.mu.Unlock()
	h.killed, h.stalled = true, false
	h.n.tell()
	for l := range h.n.links {
		if l.host == h {
			l.kill()
		}
	}
	h.resetStreams()
}
