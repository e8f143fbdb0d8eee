package virtual

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/e2e/proxy"
)

// link is one connection: the client's end, and the one to the broker behind it.
type link struct {
	n      *Network
	host   *Host
	broker string // address
	client *conn  // what the client has
	near   net.Conn
	far    net.Conn
	rng    *rand.Rand    // guarded by Network.mu
	done   chan struct{} // closed by end

	mu      sync.Mutex
	pending map[int32]*proxy.Frame // requests without a reply, by correlation id
	hungUp  bool                   // the client has sent its last request
	ended   bool
}

func newLink(h *Host, broker string, far net.Conn, rng *rand.Rand) *link {
	client, near := net.Pipe()
	l := &link{
		n: h.n, host: h, broker: broker, near: near, far: far, rng: rng, done: make(chan struct{}),
		pending: map[int32]*proxy.Frame{},
	}
	l.client = &conn{client}
	return l
}

// parcel is a frame that is under way.
type parcel struct {
	frame   *proxy.Frame
	arrives time.Time
	cut     bool
}

// underWay bounds the frames that are under way in one direction: a sender waits when there are
// more.
const underWay = 1024

// run carries frames until both directions have ended.
func (l *link) run() {
	requests, replies := make(chan parcel, underWay), make(chan parcel, underWay)
	var pumps sync.WaitGroup
	pumps.Go(func() {
		defer close(requests)
		l.collect(requests, func() (*proxy.Frame, error) {
			f, err := proxy.ReadRequest(l.near)
			if err == nil && f.Answered() {
				l.expect(f)
			}
			return f, err
		})
	})
	pumps.Go(func() {
		l.deliver(requests, l.far)
		l.hangUp()
	})
	pumps.Go(func() {
		defer close(replies)
		l.collect(replies, func() (*proxy.Frame, error) { return proxy.ReadReply(l.far, l.settle) })
	})
	pumps.Go(func() {
		l.deliver(replies, l.near)
		l.end()
	})
	pumps.Wait()
	l.end()
}

// collect reads frames and gives each its time of arrival, in order.
func (l *link) collect(to chan<- parcel, read func() (*proxy.Frame, error)) {
	var last time.Time
	for {
		f, err := read()
		if err != nil {
			return
		}
		latency, cut := l.n.fate(l.host, l.rng)
		arrives := time.Now().Add(latency)
		if arrives.Before(last) {
			arrives = last
		}
		last = arrives
		select {
		case to <- parcel{f, arrives, cut}:
		case <-l.done:
			return
		}
	}
}

// deliver hands over frames when they arrive.
func (l *link) deliver(from <-chan parcel, to net.Conn) {
	for p := range from {
		if !until(p.arrives, l.done) || !l.n.passable(l.host, l.broker, l.done) {
			return
		}
		d := l.host.rules.Decide(p.frame)
		if !d.Decides() {
			d = l.n.rules.Decide(p.frame)
		}
		switch {
		case p.cut || d.Cuts():
			l.log(p.frame, "lost, connection cut "+d.String())
			l.end()
			return
		case d.Drops():
			l.log(p.frame, "dropped "+d.String())
			if p.frame.Direction == proxy.ToBroker {
				l.settle(p.frame.Correlation)
			}
			continue
		case !d.Wait(l.done) || !l.n.passable(l.host, l.broker, l.done):
			return
		}
		l.log(p.frame, d.String())
		if _, err := to.Write(p.frame.Bytes()); err != nil {
			if p.frame.Direction == proxy.ToBroker {
				l.end() // the broker is gone
				return
			}
			continue // the client is gone: what it has sent is still to reach the broker
		}
		d.Delivered()
	}
}

// quiet are the requests that a trace has only when something happens to them: they come all the
// time.
var quiet = map[int16]bool{
	int16(kmsg.Fetch): true, int16(kmsg.Heartbeat): true, int16(kmsg.Metadata): true, int16(kmsg.ApiVersions): true,
	int16(kmsg.ListOffsets): true, int16(kmsg.DescribeConfigs): true,
}

func (l *link) log(f *proxy.Frame, what string) {
	if what == "" && quiet[f.Key] {
		return
	}
	l.n.trace.add(l.host.name, passed{f, l.n.name(l.broker), what})
}

// passed is the line of a frame in a trace.
type passed struct {
	frame        *proxy.Frame
	broker, what string
}

func (p passed) String() string {
	arrow := "->"
	if p.frame.Direction == proxy.ToClient {
		arrow = "<-"
	}
	return arrow + " " + p.broker + " " + describe(p.frame) + " " + p.what
}

// until waits for a moment. It returns false if done is closed before.
func until(at time.Time, done <-chan struct{}) bool {
	wait := time.Until(at)
	if wait <= 0 {
		select {
		case <-done:
			return false
		default:
			return true
		}
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-done:
		return false
	}
}

func (l *link) expect(f *proxy.Frame) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending[f.Correlation] = f
}

// settle takes the request with a correlation id from the outstanding ones.
func (l *link) settle(correlation int32) *proxy.Frame {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.pending[correlation]
	delete(l.pending, correlation)
	if l.hungUp && len(l.pending) == 0 {
		_ = l.far.Close() // the last request of a client that is gone is answered
	}
	return f
}

// hangUp closes the connection to the broker once it has answered everything.
func (l *link) hangUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hungUp = true
	if len(l.pending) == 0 {
		_ = l.far.Close() // nothing is expected of the broker any more
	}
}

// kill ends the client's side. The seed decides whether what it has sent arrives. The caller holds
// Network.mu.
func (l *link) kill() {
	if l.rng.IntN(2) == 0 {
		l.end()
		return
	}
	_ = l.near.Close() // no more requests are read, and no reply is delivered
}

// end ends both sides. What is under way is lost. It does not wait, and may be called with
// Network.mu held.
func (l *link) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	l.ended = true
	close(l.done)
	_ = l.near.Close() // nothing is expected of either side any more
	_ = l.far.Close()
}

// conn is the client's end of a link. Its errors are those of a TCP connection.
type conn struct {
	net.Conn
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	return n, c.failure("read", err)
}

func (c *conn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	return n, c.failure("write", err)
}

// failure makes the end of the pipe a reset connection, unless the client has closed it itself.
func (c *conn) failure(op string, err error) error {
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	if errors.Is(err, io.EOF) || op == "write" && errors.Is(err, io.ErrClosedPipe) {
		return &net.OpError{Op: op, Net: "tcp", Err: os.NewSyscallError(op, syscall.ECONNRESET)}
	}
	return err
}
