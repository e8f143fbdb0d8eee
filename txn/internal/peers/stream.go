package peers

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"
)

// ErrUnreachable says that no stream can be opened to an instance now.
var ErrUnreachable = errors.New("the instance cannot be reached")

// Open opens a stream to another instance: a connection for what the runtime has to say to it. The
// handshake and the protection are those of the connections between peers. The other side accepts
// it from [Peers.Streams]. An error wraps ErrUnreachable. The stream is reset when Run ends.
func (p *Peers) Open(ctx context.Context, instance string) (net.Conn, error) {
	fail := func(err error) (net.Conn, error) { return nil, fmt.Errorf("%w: %w", ErrUnreachable, err) }
	if p.off {
		return fail(errors.New("this instance has no peers"))
	}
	p.enter()
	running, address := p.running, ""
	if q := p.peers[instance]; q != nil {
		address = q.address
	}
	p.mu.Unlock()
	switch {
	case running == nil || running.Err() != nil:
		return fail(errors.New("this instance begins or stops"))
	case address == "":
		return fail(errors.New("it has told no address: it runs without peers, or is not in the plan"))
	}
	conn, l, err := p.connect(ctx, instance, address, kindStream, p.cfg.Silence)
	if err != nil {
		if conn != nil {
			hangUp(conn)
		}
		return fail(err)
	}
	return newStream(l, context.AfterFunc(running, func() { hangUp(conn) })), nil
}

// Streams returns the listener of the streams that other instances open. The caller closes those
// that it accepts. Streams that come while no call of Accept waits are reset after the silence
// bound.
func (p *Peers) Streams() net.Listener { return p.streams }

// streams hands accepted streams over.
type streams struct {
	accepted chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

func newStreams() *streams {
	return &streams{accepted: make(chan net.Conn), closed: make(chan struct{})}
}

// hand passes a stream on, and returns when it has ended.
func (s *streams) hand(ctx context.Context, c *stream, patience time.Duration) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case s.accepted <- c:
	case <-timer.C:
		return
	case <-s.closed:
		return
	case <-ctx.Done():
		return
	}
	select {
	case <-c.done:
	case <-ctx.Done():
	}
}

// Accept is part of net.Listener.
func (s *streams) Accept() (net.Conn, error) {
	select {
	case c := <-s.accepted:
		return c, nil
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

// Close is part of net.Listener.
func (s *streams) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

// Addr is part of net.Listener. Streams come through the listener of the peers.
func (*streams) Addr() net.Addr { return streamAddr{} }

type streamAddr struct{}

func (streamAddr) Network() string { return "peers" }
func (streamAddr) String() string  { return "streams" }

// dataMax bounds the bytes of a frame of a stream.
const dataMax = 32 << 10

// stream is a connection after its handshake. With a secret the bytes go in frames with a MAC, and
// without one as they are.
type stream struct {
	net.Conn
	raw     net.Conn
	in, out *macKey
	release func() bool // nil: nothing has to be released
	done    chan struct{}
	once    sync.Once

	// received is what was read of frames that are not complete: a read ends at a deadline and goes
	// on later. rest is what is left of the last complete one.
	received, rest []byte
	sending        sync.Mutex
}

func newStream(l *link, release func() bool) *stream {
	return &stream{Conn: l.conn, raw: l.raw, in: l.in, out: l.out, release: release, done: make(chan struct{})}
}

// Read is part of net.Conn.
func (s *stream) Read(b []byte) (int, error) {
	if s.in == nil {
		return s.Conn.Read(b)
	}
	for len(s.rest) == 0 {
		whole, err := s.unseal()
		if err != nil {
			return 0, err
		}
		if whole {
			continue
		}
		s.received = slices.Grow(s.received, dataMax)
		at := len(s.received)
		n, err := s.Conn.Read(s.received[at : at+dataMax])
		if s.received = s.received[:at+n]; n == 0 && err != nil {
			return 0, err
		}
	}
	n := copy(b, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// unseal takes the next frame out of what was received, if it is complete.
func (s *stream) unseal() (whole bool, err error) {
	if len(s.received) < 4 {
		return false, nil
	}
	size := 4 + int64(binary.BigEndian.Uint32(s.received))
	if size <= 4+frameMax && int64(len(s.received)) < size {
		return false, nil
	}
	f, _, err := receive(bytes.NewReader(s.received), s.in)
	if err == nil && f.kind != kindData {
		err = fmt.Errorf("%w: a frame of type %d in a stream", errFrame, f.kind)
	}
	if err != nil {
		return false, err
	}
	s.rest = f.data
	s.received = s.received[:copy(s.received, s.received[size:])] // its memory serves the next read
	return true, nil
}

// Write is part of net.Conn.
func (s *stream) Write(b []byte) (n int, err error) {
	if s.out == nil {
		return s.Conn.Write(b)
	}
	s.sending.Lock()
	defer s.sending.Unlock()
	for len(b) > 0 {
		part := b[:min(len(b), dataMax)]
		if err := send(s.Conn, frame{kind: kindData, data: part}.body(), s.out); err != nil {
			return n, err
		}
		n, b = n+len(part), b[len(part):]
	}
	return n, nil
}

// Close is part of net.Conn. It does not wait for the other side.
func (s *stream) Close() error {
	s.once.Do(func() {
		close(s.done)
		if s.release != nil {
			s.release()
		}
		hangUp(s.raw)
	})
	return nil
}
