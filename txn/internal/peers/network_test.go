package peers

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// network connects the instances of a test in memory. Data that may not pass wait, as TCP sends
// them again when it can.
type network struct {
	latency time.Duration
	// change may replace what is written; nil drops it.
	change func(from, to string, data []byte) []byte

	mu        sync.Mutex
	port      int
	owners    map[string]string // of addresses, also of those that are gone
	listeners map[string]*listener
	conns     map[*conn]bool
	blocked   map[[2]string]bool // from, to
	dials     map[string]int
}

func newNetwork() *network {
	return &network{
		latency: time.Millisecond, owners: map[string]string{}, listeners: map[string]*listener{}, conns: map[*conn]bool{},
		blocked: map[[2]string]bool{}, dials: map[string]int{},
	}
}

// block stops or lets pass what goes from one instance to another.
func (n *network) block(from, to string, stop bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.blocked[[2]string{from, to}] = stop
	for c := range n.conns {
		c.in.stir()
	}
}

// cut stops or lets pass both directions.
func (n *network) cut(a, b string, stop bool) {
	n.block(a, b, stop)
	n.block(b, a, stop)
}

// reset ends the connections of an instance with those that match.
func (n *network) reset(name string, with func(other string) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.conns {
		if c.owner == name && with(c.peer) || c.peer == name && with(c.owner) {
			c.in.fail(&net.OpError{Op: "read", Net: "memory", Err: os.NewSyscallError("read", syscall.ECONNRESET)})
			delete(n.conns, c)
		}
	}
}

// kill ends the process of an instance: connections are reset, and dials refused.
func (n *network) kill(name string) {
	n.mu.Lock()
	for address, l := range n.listeners {
		if l.owner == name {
			delete(n.listeners, address)
		}
	}
	n.mu.Unlock()
	n.reset(name, func(string) bool { return true })
}

type address string

func (a address) Network() string { return "memory" }
func (a address) String() string  { return string(a) }

type listener struct {
	net      *network
	owner    string
	addr     address
	accepted chan *conn
	closed   chan struct{}
	once     sync.Once
}

func (n *network) listen(owner, host string) *listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.port++
	l := &listener{
		net: n, owner: owner, addr: address(fmt.Sprintf("%s:%d", host, n.port)), accepted: make(chan *conn, 100), closed: make(chan struct{}),
	}
	n.owners[string(l.addr)], n.listeners[string(l.addr)] = owner, l
	return l
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accepted:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() {
		close(l.closed)
		l.net.mu.Lock()
		defer l.net.mu.Unlock()
		if l.net.listeners[string(l.addr)] == l {
			delete(l.net.listeners, string(l.addr))
		}
	})
	return nil
}

func (l *listener) Addr() net.Addr { return l.addr }

// dialer returns the Dial of an instance.
func (n *network) dialer(owner string) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, to string) (net.Conn, error) {
		n.mu.Lock()
		n.dials[owner]++
		n.mu.Unlock()
		select {
		case <-time.After(2 * n.latency):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		n.mu.Lock()
		other, l := n.owners[to], n.listeners[to]
		if n.blocked[[2]string{owner, other}] || n.blocked[[2]string{other, owner}] {
			n.mu.Unlock()
			<-ctx.Done()
			return nil, ctx.Err()
		}
		defer n.mu.Unlock()
		if l == nil {
			return nil, &net.OpError{Op: "dial", Net: "memory", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
		}
		there, back := newPipe(owner, other), newPipe(other, owner)
		c := &conn{net: n, owner: owner, peer: other, in: back, out: there, local: "127.0.0.1:1", remote: l.addr}
		s := &conn{net: n, owner: other, peer: owner, in: there, out: back, local: l.addr, remote: "127.0.0.1:1"}
		n.conns[c], n.conns[s] = true, true
		l.accepted <- s
		return c, nil
	}
}

// pipe is one direction of a connection. network.mu guards it.
type pipe struct {
	from, to string
	chunks   []chunk
	err      error
	deadline time.Time
	changed  chan struct{}
}

type chunk struct {
	at   time.Time
	data []byte // nil: the end
}

func newPipe(from, to string) *pipe {
	return &pipe{from: from, to: to, changed: make(chan struct{}, 1)}
}

func (s *pipe) stir() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

func (s *pipe) fail(err error) {
	if s.err == nil {
		s.err = err
	}
	s.stir()
}

type conn struct {
	net           *network
	owner, peer   string
	in, out       *pipe
	local, remote address
}

func (c *conn) Read(b []byte) (int, error) {
	for {
		n, wait, err := c.take(b)
		if n > 0 || err != nil {
			return n, err
		}
		timer := time.NewTimer(wait)
		select {
		case <-c.in.changed:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// take returns what can be read now, or how long to wait.
func (c *conn) take(b []byte) (int, time.Duration, error) {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	s, now, wait := c.in, time.Now(), 24*time.Hour
	if s.err != nil {
		return 0, 0, s.err
	}
	if !s.deadline.IsZero() {
		if !now.Before(s.deadline) {
			return 0, 0, os.ErrDeadlineExceeded
		}
		wait = s.deadline.Sub(now)
	}
	if len(s.chunks) == 0 || c.net.blocked[[2]string{s.from, s.to}] {
		return 0, wait, nil
	}
	head := &s.chunks[0]
	if now.Before(head.at) {
		return 0, min(wait, head.at.Sub(now)), nil
	}
	if head.data == nil {
		return 0, 0, io.EOF
	}
	n := copy(b, head.data)
	if head.data = head.data[n:]; len(head.data) == 0 {
		s.chunks = s.chunks[1:]
	}
	return n, 0, nil
}

func (c *conn) Write(b []byte) (int, error) {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	if c.in.err != nil {
		return 0, c.in.err
	}
	data := append([]byte{}, b...)
	if c.net.change != nil {
		data = c.net.change(c.owner, c.peer, data)
	}
	if len(data) > 0 {
		c.out.chunks = append(c.out.chunks, chunk{time.Now().Add(c.net.latency), data})
		c.out.stir()
	}
	return len(b), nil
}

func (c *conn) Close() error {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	if c.in.err == nil {
		c.out.chunks = append(c.out.chunks, chunk{at: time.Now().Add(c.net.latency)})
		c.out.stir()
	}
	c.in.fail(net.ErrClosed)
	delete(c.net.conns, c)
	return nil
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	c.in.deadline = t
	c.in.stir()
	return nil
}

func (c *conn) SetDeadline(t time.Time) error    { return c.SetReadDeadline(t) }
func (c *conn) SetWriteDeadline(time.Time) error { return nil }
func (c *conn) LocalAddr() net.Addr              { return c.local }
func (c *conn) RemoteAddr() net.Addr             { return c.remote }
