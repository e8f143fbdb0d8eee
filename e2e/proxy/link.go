package proxy

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"sync"
)

// link is a client's connection and the one to the broker that belongs to it.
type link struct {
	p              *Proxy
	client, broker *net.TCPConn
	done           chan struct{} // closed by end

	mu      sync.Mutex
	pending map[int32]*Frame // requests without a reply, by correlation id
	hungUp  bool             // the client has sent its last request
	ended   bool
}

func newLink(p *Proxy, client, broker *net.TCPConn) *link {
	return &link{p: p, client: client, broker: broker, done: make(chan struct{}), pending: map[int32]*Frame{}}
}

// run returns when both directions have ended.
func (l *link) run() {
	var pumps sync.WaitGroup
	pumps.Go(l.requests)
	pumps.Go(l.replies)
	select {
	case <-l.p.ctx.Done():
		l.end()
	case <-l.done:
	}
	pumps.Wait()
}

// end closes both sides. What is held is lost.
func (l *link) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	l.ended = true
	close(l.done)
	_ = l.client.Close() // nothing is expected of either side any more
	_ = l.broker.Close()
}

// reset is end with resets instead of orderly ends.
func (l *link) reset() {
	_ = l.client.SetLinger(0) // fails on a connection that is closed, which is as good
	_ = l.broker.SetLinger(0)
	l.end()
}

// requests carries frames from the client to the broker.
func (l *link) requests() {
	r := bufio.NewReader(l.client)
	for {
		raw, err := readFrame(r)
		if err != nil {
			l.misread(err)
			l.hangUp()
			return
		}
		f, err := parseRequest(raw)
		if err != nil {
			l.misread(err)
			l.end()
			return
		}
		if f.Answered() {
			l.expect(f)
		}
		if !l.carry(f, l.broker) {
			return
		}
	}
}

// replies carries frames from the broker to the client.
func (l *link) replies() {
	defer l.end()
	r := bufio.NewReader(l.broker)
	for {
		raw, err := readFrame(r)
		if err != nil {
			l.misread(err)
			return
		}
		request, last := l.settle(correlation(raw))
		if request == nil {
			l.misread(fmt.Errorf("%w: a reply to correlation id %d, which is not outstanding", errMalformed, correlation(raw)))
			return
		}
		f := parseReply(raw, request)
		if err := l.p.rewrite(f); err != nil {
			l.misread(err)
			return
		}
		if !l.carry(f, l.client) || last {
			return
		}
	}
}

// misread keeps an error that is about the stream's content or about ourselves; connections may
// break at any time.
func (l *link) misread(err error) {
	if errors.Is(err, errMalformed) || errors.Is(err, errListen) && l.p.ctx.Err() == nil {
		l.p.failed(fmt.Errorf("proxy: %s to %s: %w", l.client.RemoteAddr(), l.broker.RemoteAddr(), err))
	}
}

// expect notes a request before it is sent.
func (l *link) expect(f *Frame) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending[f.Correlation] = f
}

// settle takes the request that a reply answers, and says whether it is the last one of a client
// that has hung up.
func (l *link) settle(correlation int32) (request *Frame, last bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	request = l.pending[correlation]
	delete(l.pending, correlation)
	return request, l.hungUp && len(l.pending) == 0
}

// hangUp ends the link when the broker has answered everything: what was late is still to have its
// effect.
func (l *link) hangUp() {
	l.mu.Lock()
	l.hungUp = true
	idle := len(l.pending) == 0
	l.mu.Unlock()
	if idle {
		l.end()
	}
}

// carry does what the rules say and writes the frame to its receiver. It returns false when its
// direction is over.
func (l *link) carry(f *Frame, to net.Conn) bool {
	decision := l.p.rules.Decide(f)
	switch {
	case decision.Drops():
		if f.Direction == ToBroker {
			l.settle(f.Correlation)
		}
		return true
	case decision.Cuts():
		l.end()
		return false
	case !decision.Wait(l.done):
		return false
	}
	if !l.wait(l.p.passage(f.Direction)) {
		return false
	}
	if _, err := to.Write(f.Bytes()); err != nil {
		// A broker that is gone ends the link. A client that is gone does not: its requests are
		// still to reach the broker, and the other direction will find its end.
		if f.Direction == ToBroker {
			l.end()
			return false
		}
		return true
	}
	decision.Delivered()
	return true
}

// wait returns false if the link ends first.
func (l *link) wait(c <-chan struct{}) bool {
	select {
	case <-l.done:
		return false
	default:
	}
	select {
	case <-c:
		return true
	case <-l.done:
		return false
	}
}
