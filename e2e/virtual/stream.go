package virtual

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// Listen returns a listener of the host for streams from other hosts, at an address that no broker
// has. Faults of either host, the weather and [Network.Block] from one host's name to the other's
// concern the streams. Nothing but bytes is known of what they carry, so that rules do not. The
// caller closes the listener.
func (h *Host) Listen(address string) (net.Listener, error) {
	n := h.n
	n.mu.Lock()
	defer n.mu.Unlock()
	if h.killed || n.closed || n.listeners[address] != nil || n.names[address] != "" {
		return nil, &net.OpError{Op: "listen", Net: "tcp", Err: os.NewSyscallError("bind", syscall.EADDRINUSE)}
	}
	l := &listener{host: h, address: address, streams: make(chan net.Conn), closed: make(chan struct{})}
	n.listeners[address] = l
	return l, nil
}

// listener hands over the streams that other hosts have dialled.
type listener struct {
	host    *Host
	address string
	streams chan net.Conn
	once    sync.Once
	closed  chan struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.streams:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() {
		close(l.closed)
		n := l.host.n
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.listeners, l.address)
	})
	return nil
}

func (l *listener) Addr() net.Addr { return address(l.address) }

// address is one of a virtual network.
type address string

func (address) Network() string  { return "tcp" }
func (a address) String() string { return string(a) }

// dialHost makes a stream to a listener of another host.
func (h *Host) dialHost(ctx context.Context, to *listener) (net.Conn, error) {
	n := h.n
	n.mu.Lock()
	rng := n.generator(h.name, to.address)
	wait := n.latency(h, rng)
	n.mu.Unlock()
	if err := sleep(ctx, wait); err != nil {
		return nil, dialError(err)
	}
	if !n.passable(h, to.host.name, ctx.Done()) || !n.passable(to.host, h.name, ctx.Done()) {
		return nil, dialError(os.ErrDeadlineExceeded)
	}
	s, near, far := newStream(h, to, rng)
	n.mu.Lock()
	if n.closed || h.gone() || to.host.gone() {
		n.mu.Unlock()
		s.cut()
		return nil, errRefused
	}
	n.streams[s] = true
	n.mu.Unlock()
	n.work.Go(func() {
		s.run()
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.streams, s)
	})
	select {
	case to.streams <- far:
		return near, nil
	case <-to.closed:
		s.cut()
		return nil, errRefused
	case <-ctx.Done():
		s.cut()
		return nil, dialError(os.ErrDeadlineExceeded)
	}
}

// gone says whether the host neither makes nor takes connections; the caller holds Network.mu.
func (h *Host) gone() bool { return h.down || h.killed }

// stream is a connection between two hosts.
type stream struct {
	n      *Network
	hosts  [2]*Host    // the one that dialled, the one that listened
	inside [2]net.Conn // the ends that the network has
	rng    *rand.Rand  // guarded by Network.mu
	done   chan struct{}
	once   sync.Once
}

func newStream(from *Host, to *listener, rng *rand.Rand) (s *stream, near, far net.Conn) {
	s = &stream{n: from.n, hosts: [2]*Host{from, to.host}, rng: rng, done: make(chan struct{})}
	outside := [2]net.Conn{}
	for i := range outside {
		outside[i], s.inside[i] = net.Pipe()
	}
	return s, &streamEnd{outside[0], s, dialler, address(to.address)}, &streamEnd{outside[1], s, address(to.address), dialler}
}

// dialler is the address of every end that has dialled: this network runs on one machine.
const dialler = address("127.0.0.1:1")

// cut resets the stream. It does not wait, and may be called with Network.mu held.
func (s *stream) cut() {
	s.once.Do(func() {
		close(s.done)
		for _, c := range s.inside {
			_ = c.Close() // both sides see a reset
		}
	})
}

// run carries bytes until both directions have ended.
func (s *stream) run() {
	var directions sync.WaitGroup
	for from := range s.inside {
		directions.Go(func() { s.carry(from, 1-from) })
	}
	directions.Wait()
	for _, c := range s.inside {
		_ = c.Close() // no reset
	}
}

// piece is what one read has given, with the time of its arrival.
type piece struct {
	bytes   []byte
	arrives time.Time
}

// carry moves bytes from one end to the other. What was sent before an end was closed still
// arrives.
func (s *stream) carry(from, to int) {
	pieces := make(chan piece, underWay)
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(pieces)
		var last time.Time
		for {
			buffer := make([]byte, 16<<10)
			n, err := s.inside[from].Read(buffer)
			if n > 0 {
				latency, cut := s.n.fate(s.hosts[from], s.rng)
				if cut {
					s.cut()
					return
				}
				if at := time.Now().Add(latency); at.After(last) {
					last = at
				}
				select {
				case pieces <- piece{buffer[:n], last}:
				case <-s.done:
					return
				}
			}
			if err != nil {
				return
			}
		}
	})
	defer reading.Wait()
	for p := range pieces {
		if !until(p.arrives, s.done) || !s.n.passable(s.hosts[from], s.hosts[to].name, s.done) || !s.n.passable(s.hosts[to], "", s.done) {
			return
		}
		if _, err := s.inside[to].Write(p.bytes); err != nil {
			s.cut() // the other side has closed its end: what arrives there is answered with a reset
			return
		}
	}
	_ = s.inside[to].Close() // the other side reads an end
}

// streamEnd is what a host has of a stream.
type streamEnd struct {
	net.Conn
	s             *stream
	local, remote net.Addr
}

func (e *streamEnd) LocalAddr() net.Addr  { return e.local }
func (e *streamEnd) RemoteAddr() net.Addr { return e.remote }

func (e *streamEnd) Read(b []byte) (int, error) {
	n, err := e.Conn.Read(b)
	return n, e.failure("read", err)
}

func (e *streamEnd) Write(b []byte) (int, error) {
	n, err := e.Conn.Write(b)
	return n, e.failure("write", err)
}

// SetDeadline, SetReadDeadline and SetWriteDeadline do not fail on a connection that the other side
// has ended, as with TCP.
func (e *streamEnd) SetDeadline(t time.Time) error { return unlessClosed(e.Conn.SetDeadline(t)) }

// SetReadDeadline is as SetDeadline.
func (e *streamEnd) SetReadDeadline(t time.Time) error {
	return unlessClosed(e.Conn.SetReadDeadline(t))
}

// SetWriteDeadline is as SetDeadline.
func (e *streamEnd) SetWriteDeadline(t time.Time) error {
	return unlessClosed(e.Conn.SetWriteDeadline(t))
}

func unlessClosed(err error) error {
	if errors.Is(err, io.ErrClosedPipe) {
		return nil
	}
	return err
}

// failure tells a reset from an end that the other side has closed in order.
func (e *streamEnd) failure(op string, err error) error {
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	select {
	case <-e.s.done:
		return &net.OpError{Op: op, Net: "tcp", Err: os.NewSyscallError(op, syscall.ECONNRESET)}
	default:
	}
	if op == "write" && errors.Is(err, io.ErrClosedPipe) {
		return &net.OpError{Op: op, Net: "tcp", Err: os.NewSyscallError(op, syscall.EPIPE)}
	}
	return err
}
