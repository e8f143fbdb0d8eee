package peers

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/txn/internal/pkitest"
	"github.com/onceward/onceward/txn/security"
)

// echo answers each stream to an instance with the bytes that come, until the listener is closed.
func echo(n *node) {
	go func() {
		for {
			c, err := n.Streams().Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(c, c)
				_ = c.Close()
			}()
		}
	}()
}

// TestStream: a stream carries bytes both ways, whatever protects it, and a read that ended at a
// deadline goes on where it was.
func TestStream(t *testing.T) {
	mutual := func() func(*Config) {
		var ca *pkitest.Authority
		return func(c *Config) {
			if ca == nil { // on the time of the bubble
				ca = pkitest.NewAuthority(t, "ca")
			}
			pair, pool := ca.Issue(c.Self.Instance, time.Now().Add(time.Hour), "127.0.0.1").TLS, ca.Pool
			change(c, func(s *Security) {
				s.Server = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
				s.Client = &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool}
			})
		}
	}()
	for name, configure := range map[string]func(*Config){"open": nil, "secret": withSecret, "TLS": mutual} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, names(2), configure, func(w *world) {
				echo(w.nodes["b"])
				defer w.nodes["b"].Streams().Close()
				c, err := w.nodes["a"].Open(w.t.Context(), "b")
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				sent := bytes.Repeat([]byte("0123456789"), 10_000)
				go func() { _, _ = c.Write(sent) }()
				// The first answer comes after the latency of both ways, the deadline before it.
				_ = c.SetReadDeadline(time.Now().Add(w.net.latency))
				if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Fatalf("a read before the deadline ended with %v", err)
				}
				_ = c.SetReadDeadline(time.Time{})
				got := make([]byte, len(sent))
				if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, sent) {
					t.Fatalf("%d bytes came back changed, %v", len(got), err)
				}
				w.wantConnected()
			})
		})
	}
}

// TestStreamIsRefused: strangers get no stream, nor does an instance get one that was meant for
// another.
func TestStreamIsRefused(t *testing.T) {
	for _, c := range []struct {
		name      string
		configure func(*Config) // of b
		reason    string
	}{
		{"other secret", func(c *Config) {
			change(c, func(s *Security) { s.Secret = security.NewSecret("another secret, just as long") })
		}, "the shared secrets differ"},
		{"no secret", func(c *Config) { c.Security = nil }, "one side has a shared secret"},
		{"other application", func(c *Config) { c.Self.Application = "other" }, "different applications"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, nil, func(cfg *Config) {
				withSecret(cfg)
				if cfg.Self.Instance == "b" {
					c.configure(cfg)
				}
			}, func(w *world) {
				a, b := w.start("a"), w.start("b")
				echo(b)
				defer b.Streams().Close()
				a.SetMembers([]Member{{"b", b.address}})
				synctest.Wait() // until they run
				if _, err := a.Open(w.t.Context(), "b"); !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), c.reason) {
					t.Errorf("Open returned %v, want %q", err, c.reason)
				}
			})
		})
	}
	t.Run("stale address", func(t *testing.T) {
		inWorld(t, names(2), withSecret, func(w *world) {
			a := w.nodes["a"]
			a.SetMembers([]Member{{"b", w.nodes["b"].address}, {"c", w.nodes["b"].address}})
			if _, err := a.Open(w.t.Context(), "c"); err == nil || !strings.Contains(err.Error(), `instance "b" listens here`) {
				t.Errorf("a stream to c at the address of b: %v", err)
			}
			if _, err := a.Open(w.t.Context(), "d"); !errors.Is(err, ErrUnreachable) {
				t.Errorf("a stream to an instance that is not known: %v", err)
			}
		})
	})
}

// TestChangedStream: no byte of a stream with a secret can be changed, left out or sent again. The
// control without a secret does not notice.
func TestChangedStream(t *testing.T) {
	for name, configure := range map[string]func(*Config){"secret": withSecret, "control": nil} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, names(2), configure, func(w *world) {
				echo(w.nodes["b"])
				defer w.nodes["b"].Streams().Close()
				c, err := w.nodes["a"].Open(w.t.Context(), "b")
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				w.net.change = func(from, _ string, data []byte) []byte {
					if i := bytes.Index(data, []byte("balance=1")); i >= 0 && from == "a" {
						at := i + len("balance=")
						if name == "control" {
							data[at] = '9'
							return data
						}
						return resealed(data, func(frame []byte) { frame[at] = '9' })
					}
					return data
				}
				if _, err := c.Write([]byte("balance=1")); err != nil {
					t.Fatal(err)
				}
				_ = c.SetReadDeadline(time.Now().Add(time.Minute))
				got := make([]byte, 9)
				n, err := io.ReadFull(c, got)
				if name == "secret" && n > 0 {
					t.Errorf("%q came back", got[:n])
				}
				if name == "control" && (err != nil || string(got) != "balance=9") {
					t.Errorf("the control got %q, %v", got, err)
				}
			})
		})
	}
}

// TestStreamsEndWithRun: neither side keeps a stream of an instance that ends.
func TestStreamsEndWithRun(t *testing.T) {
	inWorld(t, names(2), withSecret, func(w *world) {
		accepted := make(chan net.Conn, 1)
		go func() {
			if c, err := w.nodes["b"].Streams().Accept(); err == nil {
				accepted <- c
			}
		}()
		c, err := w.nodes["a"].Open(w.t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		far := <-accepted
		w.nodes["b"].stop()
		if _, err := far.Read(make([]byte, 1)); err == nil {
			t.Error("the stream of an instance that has ended can be read")
		}
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("the other side can read it")
		}
		if _, err := w.nodes["b"].Open(w.t.Context(), "a"); !errors.Is(err, ErrUnreachable) {
			t.Errorf("an instance that has ended opens a stream: %v", err)
		}
		_ = far.Close()
		_ = c.Close()
	})
}
