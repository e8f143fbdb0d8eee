package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
)

// Proxy stands in front of a cluster. Get one from [Start], and close it.
type Proxy struct {
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	seeds  []string
	wg     sync.WaitGroup // listeners and connections
	rules  Rules

	mu        sync.Mutex
	listeners map[string]*net.TCPListener // by the broker's address, host:port
	links     map[*link]struct{}
	open      [2]chan struct{} // by direction; closed while frames may pass
	failures  []error
	closed    bool
}

// Start listens on loopback, with one port for each of the addresses, host:port each. Further
// brokers get their listeners when they are first seen in a reply.
func Start(brokers ...string) (*Proxy, error) {
	if len(brokers) == 0 {
		return nil, errors.New("proxy: start: there is no broker to stand in front of")
	}
	p := &Proxy{listeners: map[string]*net.TCPListener{}, links: map[*link]struct{}{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	for d := range p.open {
		p.open[d] = make(chan struct{})
		close(p.open[d])
	}
	for _, b := range brokers {
		l, err := p.listen(b)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("proxy: start: %w", err), p.Close())
		}
		p.seeds = append(p.seeds, l.Addr().String())
	}
	return p, nil
}

// Brokers returns the addresses for clients to start from, in the order given to Start.
func (p *Proxy) Brokers() []string { return slices.Clone(p.seeds) }

// Add installs a rule behind those that are there.
func (p *Proxy) Add(m Match, a Action) *Rule { return p.rules.Add(m, a) }

// Partition stops every frame of the given directions, or of both if none is given, as a network
// does that swallows packets: connections stay, new ones are accepted, and nothing arrives. What
// was stopped goes on after [Proxy.Heal], as TCP sends it again.
func (p *Proxy) Partition(directions ...Direction) {
	if len(directions) == 0 {
		directions = []Direction{ToBroker, ToClient}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range directions {
		if isClosed(p.open[d]) {
			p.open[d] = make(chan struct{})
		}
	}
}

// Heal ends every partition.
func (p *Proxy) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, open := range p.open {
		if !isClosed(open) {
			close(open)
		}
	}
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// ResetAll ends every connection with a reset, on both sides; what was held on them is lost. It
// returns how many there were.
func (p *Proxy) ResetAll() int {
	p.mu.Lock()
	links := make([]*link, 0, len(p.links))
	for l := range p.links {
		links = append(links, l)
	}
	p.mu.Unlock()
	for _, l := range links {
		l.reset()
	}
	return len(links)
}

// Close ends all connections and listeners and waits for them. It returns what was not understood
// on the way, and an [ErrUnmatched] for every rule that never matched. A second call does nothing.
func (p *Proxy) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	p.cancel()
	for _, l := range p.listeners {
		_ = l.Close() // a listener that is closed already is as good
	}
	p.mu.Unlock()
	p.wg.Wait()
	errs := p.failures
	for _, r := range p.rules.All() {
		if r.Counts().Matched == 0 {
			errs = append(errs, fmt.Errorf("proxy: rule %q: %w", r, ErrUnmatched))
		}
	}
	return errors.Join(errs...)
}

// listen returns the listener of a broker and makes it if there is none.
func (p *Proxy) listen(broker string) (*net.TCPListener, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.listeners[broker]; l != nil {
		return l, nil
	}
	if p.closed {
		return nil, net.ErrClosed
	}
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, err
	}
	p.listeners[broker] = l
	p.wg.Go(func() { p.accept(l, broker) })
	return l, nil
}

// accept takes connections to a broker until the listener is closed.
func (p *Proxy) accept(l *net.TCPListener, broker string) {
	for {
		client, err := l.AcceptTCP()
		if err != nil {
			if p.ctx.Err() == nil {
				p.failed(fmt.Errorf("proxy: accept for %s: %w", broker, err))
			}
			return
		}
		p.wg.Go(func() { p.connect(client, broker) })
	}
}

// connect carries one connection until its end.
func (p *Proxy) connect(client *net.TCPConn, broker string) {
	var d net.Dialer
	conn, err := d.DialContext(p.ctx, "tcp", broker)
	if err != nil {
		_ = client.Close() // the broker is down, and the client finds it so
		return
	}
	l := newLink(p, client, conn.(*net.TCPConn))
	p.mu.Lock()
	p.links[l] = struct{}{}
	p.mu.Unlock()
	l.run()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

// advertised returns the address of ours that stands for a broker's.
func (p *Proxy) advertised(host string, port int32) (string, int32, error) {
	l, err := p.listen(net.JoinHostPort(host, strconv.Itoa(int(port))))
	if err != nil {
		return "", 0, err
	}
	a := l.Addr().(*net.TCPAddr)
	return a.IP.String(), int32(a.Port), nil
}

// passage is closed while frames of the direction may pass.
func (p *Proxy) passage(d Direction) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open[d]
}

func (p *Proxy) failed(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failures = append(p.failures, err)
}
