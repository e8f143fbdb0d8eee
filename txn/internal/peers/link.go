package peers

import (
	"context"
	"crypto/hmac"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/onceward/onceward/txn/internal/backoff"
	"github.com/onceward/onceward/txn/internal/loopback"
)

// queueMax is how many frames wait for a slow connection, about thirteen seconds of heartbeats.
const queueMax = 64

// link is a connection whose handshake has succeeded.
type link struct {
	conn, raw net.Conn // conn is raw, or TLS over it
	security  Security // as of its beginning
	dialled   bool
	kind      kind   // kindHello or kindStream; the dialler chooses
	to        string // the instance that was dialled; empty for an accepted connection
	hello     frame  // the peer's
	in, out   *macKey
	queue     chan []byte // bodies of frames
	done      chan struct{}
	once      sync.Once
	err       error // why it ended, once done is closed

	// Peers.mu guards what follows.
	heard time.Time
	made  time.Time
}

// Why a link is lost that neither side has closed.
var (
	errSilent  = errors.New("nothing was heard for the silence bound")
	errUnheard = errors.New("the peer does not hear this instance")
)

// fail ends the link. The first error stays. Closing raw does not wait, unlike the end of a TLS
// connection.
func (l *link) fail(err error) {
	l.once.Do(func() {
		l.err = err
		hangUp(l.raw)
		close(l.done)
	})
}

// send queues a frame.
func (l *link) send(f frame) {
	select {
	case l.queue <- f.body():
	default:
		l.fail(errors.New("the peer takes no frames: the queue is full"))
	}
}

// dismiss asks the peer to close the connection, which it does unless it is gone.
func (l *link) dismiss(code byte, reason string, patience time.Duration) {
	l.send(frame{kind: kindGoodbye, code: code, reason: reason})
	_ = l.raw.SetReadDeadline(time.Now().Add(patience)) // it fails only if the connection is closed
}

// write sends what is queued until the link ends.
func (l *link) write(patience time.Duration) {
	for {
		select {
		case body := <-l.queue:
			_ = l.raw.SetWriteDeadline(time.Now().Add(patience)) // it fails only if the connection is closed
			if err := send(l.conn, body, l.out); err != nil {
				l.fail(err)
				return
			}
		case <-l.done:
			return
		}
	}
}

func send(w io.Writer, body []byte, key *macKey) error {
	data, err := seal(body, key)
	if err == nil {
		_, err = w.Write(data)
	}
	return err
}

// receive returns the next frame and its body.
func receive(r io.Reader, key *macKey) (frame, []byte, error) {
	body, err := read(r, key)
	if err != nil {
		return frame{}, nil, err
	}
	f, err := decode(body)
	return f, body, err
}

// isClosed says whether an error shows that the peer's side closed the connection, as the end of
// its process does. Timeouts and unreachable networks do not show it.
func isClosed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// refusal is why a connection was not made although a process answered.
type refusal struct {
	kind, reason string // kind is one of few words, for the logs
	byPeer       bool
}

func (r *refusal) Error() string {
	if r.byPeer {
		return "the peer refuses: " + r.reason
	}
	return "refused: " + r.reason
}

// handshake exchanges hellos and proofs. The instance and the address are those which were dialled,
// and empty for an accepted connection, of which the dialler tells the kind. The connection's
// deadline has to be set.
func (p *Peers) handshake(raw net.Conn, instance, address string, kind kind) (*link, error) {
	dialled := address != ""
	security := p.cfg.Security()
	if security.none() && !loopback.Address(raw.RemoteAddr().String()) {
		reason := fmt.Sprintf("%s is no loopback address, and there is neither TLS nor a secret", raw.RemoteAddr())
		return nil, &refusal{kind: "address", reason: reason}
	}
	l := &link{
		conn: security.encrypt(raw, dialled, address), raw: raw, security: security, dialled: dialled, kind: kind, to: instance,
		queue: make(chan []byte, queueMax), done: make(chan struct{}),
	}
	err := p.greet(l)
	var refused *refusal
	switch {
	case errors.Is(err, errVersion):
		err = &refusal{kind: "version", reason: err.Error()}
	case errors.Is(err, errFrame):
		err = &refusal{kind: "frame", reason: err.Error()}
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = &refusal{kind: "slow", reason: fmt.Sprintf("the handshake took longer than %s", p.cfg.Silence)}
	}
	if errors.As(err, &refused) && !refused.byPeer {
		p.refuse(l.conn, raw, refused.reason)
	}
	if err != nil {
		return nil, err
	}
	return l, raw.SetDeadline(time.Time{})
}

// greet is the handshake without its errors' treatment.
func (p *Peers) greet(l *link) error {
	var mine []byte
	tell := func() error { mine = p.hello(l).body(); return send(l.conn, mine, nil) }
	if l.dialled {
		if err := tell(); err != nil {
			return err
		}
	}
	theirs, err := p.expect(l, l.kind, func(f frame) (err error) { l.hello = f; return p.accepts(f, l.security) })
	if err != nil {
		return err
	}
	if !l.dialled {
		l.kind = l.hello.kind
		if err := tell(); err != nil {
			return err
		}
	}
	if !l.security.Secret.IsSet() {
		return nil
	}
	proves := func(want []byte) func(f frame) error {
		return func(f frame) error {
			if !hmac.Equal(f.proof, want) {
				return &refusal{kind: "secret", reason: "the shared secrets differ"}
			}
			return nil
		}
	}
	if l.dialled {
		k := l.security.derive(mine, theirs)
		if err := send(l.conn, frame{kind: kindProof, proof: k.dialler}.body(), nil); err != nil {
			return err
		}
		l.out, l.in = k.fromDialler, k.fromAcceptor
		_, err = p.expect(l, kindProof, proves(k.acceptor))
		return err
	}
	k := l.security.derive(theirs, mine)
	if _, err := p.expect(l, kindProof, proves(k.dialler)); err != nil {
		return err
	}
	l.out, l.in = k.fromAcceptor, k.fromDialler
	return send(l.conn, frame{kind: kindProof, proof: k.acceptor}.body(), nil)
}

// expect reads a frame of the handshake and checks it. Zero stands for a hello of either kind.
func (p *Peers) expect(l *link, want kind, check func(frame) error) ([]byte, error) {
	f, body, err := receive(l.conn, nil)
	switch {
	case err != nil:
		return nil, err
	case f.kind == kindGoodbye && f.code == codeStopping:
		return nil, &refusal{kind: kindStopping, reason: f.reason, byPeer: true}
	case f.kind == kindGoodbye:
		return nil, &refusal{kind: "peer", reason: f.reason, byPeer: true}
	case f.kind != want && (want != 0 || f.kind != kindHello && f.kind != kindStream):
		want = max(want, kindHello)
		return nil, &refusal{kind: "frame", reason: fmt.Sprintf("a frame of type %d came, and one of type %d has to", f.kind, want)}
	}
	return body, check(f)
}

// accepts judges a hello on its own.
func (p *Peers) accepts(f frame, s Security) error {
	id := p.cfg.Self
	switch {
	case f.application != id.Application:
		return &refusal{kind: "application", reason: fmt.Sprintf("%q and %q are different applications", f.application, id.Application)}
	case f.cluster != id.Cluster:
		return &refusal{kind: "cluster", reason: fmt.Sprintf("%q and %q are different clusters", f.cluster, id.Cluster)}
	case f.instance == "" || f.incarnation == 0:
		return &refusal{kind: "frame", reason: "a hello without instance or incarnation"}
	case f.instance == id.Instance && f.incarnation == id.Incarnation:
		return &refusal{kind: "self", reason: "an instance has dialled itself"}
	case f.instance == id.Instance:
		return &refusal{kind: "identity", reason: fmt.Sprintf("two processes are instance %q", id.Instance)}
	case f.to != "" && f.to != id.Instance:
		return &refusal{kind: "address", reason: fmt.Sprintf("instance %q listens here, and %q was dialled", id.Instance, f.to)}
	case (len(f.nonce) == 0) == s.Secret.IsSet():
		return &refusal{kind: "secret", reason: "one side has a shared secret and the other has none"}
	case len(f.nonce) != 0 && len(f.nonce) != nonceSize:
		return &refusal{kind: "frame", reason: fmt.Sprintf("a nonce of %d bytes", len(f.nonce))}
	}
	return nil
}

// refuse tells the peer why, and waits for it to close: a connection that is closed with unread
// data can lose what was sent.
func (p *Peers) refuse(conn, raw net.Conn, reason string) {
	_ = raw.SetDeadline(time.Now().Add(opinionMax)) // it fails only if the connection is closed
	if send(conn, frame{kind: kindGoodbye, code: codeRefused, reason: cut(reason)}.body(), nil) == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(conn, frameMax)) // what comes does not matter any more
	}
}

// accept takes connections until the context ends.
func (p *Peers) accept(ctx context.Context) {
	slots := make(chan struct{}, handshakesMax)
	for {
		conn, err := p.cfg.Listener.Accept()
		switch {
		case ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			if conn != nil {
				hangUp(conn)
			}
			return
		case err != nil:
			p.note(&refusal{kind: "listener", reason: err.Error()}, p.cfg.Address)
			if backoff.Sleep(ctx, p.cfg.Heartbeat) != nil {
				return
			}
			continue
		}
		select {
		case slots <- struct{}{}:
			p.routines.Go(func() { p.serve(ctx, conn, func() { <-slots }) })
		default:
			hangUp(conn)
			p.note(&refusal{kind: "busy", reason: fmt.Sprintf("%d handshakes are at work", handshakesMax)}, conn.RemoteAddr().String())
		}
	}
}

// serve makes an accepted connection a link, and reads it until it ends. A stream is handed over.
func (p *Peers) serve(ctx context.Context, conn net.Conn, shaken func()) {
	defer hangUp(conn)
	defer context.AfterFunc(ctx, func() { hangUp(conn) })()
	_ = conn.SetDeadline(time.Now().Add(p.cfg.Silence)) // it fails only if the connection is closed
	l, err := p.handshake(conn, "", "", 0)
	if err == nil && l.kind == kindStream {
		shaken()
		p.streams.hand(ctx, newStream(l, nil), p.cfg.Silence)
		return
	}
	if err == nil {
		err = p.join(l)
	}
	shaken()
	if err != nil {
		p.note(err, conn.RemoteAddr().String())
		return
	}
	p.read(l)
}

// dial does the same for a connection that it makes, and reports how that went.
func (p *Peers) dial(ctx context.Context, instance, address string, began time.Time, bound time.Duration) {
	conn, l, err := p.connect(ctx, instance, address, kindHello, bound)
	if conn != nil {
		defer hangUp(conn)
		defer context.AfterFunc(ctx, func() { hangUp(conn) })()
	}
	if err == nil {
		err = p.join(l)
	}
	if ctx.Err() == nil && conn != nil {
		p.note(err, address)
	}
	p.dialled(instance, began, err)
	if err == nil {
		p.read(l)
	}
}

// connect dials, and returns the connection also where the handshake fails.
func (p *Peers) connect(ctx context.Context, instance, address string, kind kind, bound time.Duration) (net.Conn, *link, error) {
	dialCtx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	conn, err := p.cfg.Dial(dialCtx, address)
	if err != nil {
		return nil, nil, err
	}
	defer context.AfterFunc(ctx, func() { hangUp(conn) })()
	if err := conn.SetDeadline(time.Now().Add(p.cfg.Silence)); err != nil {
		return conn, nil, err
	}
	l, err := p.handshake(conn, instance, address, kind)
	return conn, l, err
}

// hangUp closes a connection on which nothing more is sent: an error does not matter.
func hangUp(c net.Conn) { _ = c.Close() }

// read handles the frames of a link that has joined, until it ends. The writer ends with it.
func (p *Peers) read(l *link) {
	p.routines.Go(func() { l.write(p.cfg.Silence) })
	for {
		f, _, err := receive(l.conn, l.in)
		if err != nil {
			l.fail(err)
			break
		}
		p.received(l, f)
	}
	p.ended(l)
}
