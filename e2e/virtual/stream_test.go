package virtual_test

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/onceward/onceward/e2e/virtual"
)

// streams returns both ends of a stream from host a to host b.
func streams(t *testing.T, n *virtual.Network) (near, far net.Conn) {
	t.Helper()
	l, err := n.Host("b").Listen("b:1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	accepted := make(chan net.Conn, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			t.Error(err)
		}
		accepted <- c
	}()
	near, err = n.Host("a").Dial(t.Context(), "tcp", "b:1")
	if err != nil {
		t.Fatal(err)
	}
	return near, <-accepted
}

func send(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

// received reads as much as text has, within a virtual minute.
func received(c net.Conn, text string) error {
	if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		return err
	}
	got := make([]byte, len(text))
	if _, err := io.ReadFull(c, got); err != nil {
		return err
	}
	if string(got) != text {
		return errors.New("it has received " + string(got))
	}
	return nil
}

// TestStream: bytes arrive in both directions and in order, and what was sent before an end was
// closed arrives.
func TestStream(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		near, far := streams(t, virtual.NewNetwork(t, 1))
		send(t, near, "one ")
		send(t, near, "two")
		if err := received(far, "one two"); err != nil {
			t.Error(err)
		}
		send(t, far, "three")
		if err := far.Close(); err != nil {
			t.Error(err)
		}
		if err := received(near, "three"); err != nil {
			t.Error(err)
		}
		if err := received(near, "x"); !errors.Is(err, io.EOF) {
			t.Errorf("after an orderly close: %v", err)
		}
	})
}

// TestStreamUnderFaults: a reset is told from an orderly end, a stalled host receives later, and a
// block has one direction.
func TestStreamUnderFaults(t *testing.T) {
	reset := map[string]func(*virtual.Network){
		"cut":                   func(n *virtual.Network) { n.Host("b").Cut() },
		"down":                  func(n *virtual.Network) { n.Host("a").Down() },
		"the listener's kill":   func(n *virtual.Network) { n.Host("b").Kill() },
		"the dialler is killed": func(n *virtual.Network) { n.Host("a").Kill() },
	}
	for name, fault := range reset {
		t.Run(name, func(t *testing.T) {
			virtual.Test(t, func(t *testing.T) {
				n := virtual.NewNetwork(t, 1)
				near, far := streams(t, n)
				fault(n)
				for _, c := range []net.Conn{near, far} {
					if err := received(c, "x"); !errors.Is(err, syscall.ECONNRESET) {
						t.Errorf("a read gave %v", err)
					}
				}
			})
		})
	}
	t.Run("killed hosts refuse", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			n := virtual.NewNetwork(t, 1)
			streams(t, n)
			n.Host("b").Kill()
			if _, err := n.Host("a").Dial(t.Context(), "tcp", "b:1"); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("a dial gave %v", err)
			}
		})
	})
	t.Run("stall", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			n := virtual.NewNetwork(t, 1)
			near, far := streams(t, n)
			n.Host("b").Stall()
			send(t, near, "x")
			if err := received(far, "x"); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("at a stalled host: %v", err)
			}
			n.Host("b").Resume()
			if err := received(far, "x"); err != nil {
				t.Errorf("after the stall: %v", err)
			}
		})
	})
	t.Run("block", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			n := virtual.NewNetwork(t, 1)
			near, far := streams(t, n)
			n.Block("a", "b")
			send(t, near, "x")
			send(t, far, "y")
			if err := received(near, "y"); err != nil {
				t.Errorf("against the block: %v", err)
			}
			if err := received(far, "x"); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("through the block: %v", err)
			}
			n.Unblock("a", "b")
			if err := received(far, "x"); err != nil {
				t.Errorf("after the block: %v", err)
			}
		})
	})
}
