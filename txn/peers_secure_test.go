//go:build onceward_failpoints

package txn_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/txn"
	"github.com/onceward/onceward/txn/internal/pkitest"
)

// secretFile writes a secret.
func secretFile(t *testing.T, secret string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(name, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// certificates issues what an instance at 127.0.0.1 needs.
func certificates(ca *pkitest.Authority, instance string) txn.Peers {
	pair := ca.Issue(instance, time.Now().Add(time.Hour), "127.0.0.1")
	return txn.Peers{CertFile: pair.CertFile, KeyFile: pair.KeyFile, CAFile: ca.File}
}

// TestSecuredPeersTakeOver: with the files of a secret, with those of TLS, and with both, the
// instances connect, and one takes over from the other.
func TestSecuredPeersTakeOver(t *testing.T) {
	for name, c := range map[string]struct{ secret, tls bool }{"secret": {true, false}, "TLS": {false, true}, "both": {true, true}} {
		bubble(t, name, func(t *testing.T) {
			ca := pkitest.NewAuthority(t, "ca")
			secret := secretFile(t, "a secret of all instances")
			s := pairOf(t, func(instance string, cfg *txn.Config) {
				if c.tls {
					cfg.Peers = certificates(ca, instance)
				}
				if c.secret {
					cfg.Peers.SecretFile = secret
				}
			})
			s.abandon("one")
			s.hosts["one"].Kill()
			began := time.Now()
			s.await("all tasks at the instance that is left", func() bool { return s.has("two", 4) })
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("it took %s", took)
			}
			s.wantNone("two", refusedPeer)
		})
	}
}

// TestStrangersAreNoPeers: what does not belong to the application is refused. Status and log of an
// instance say why, and nothing is fenced.
func TestStrangersAreNoPeers(t *testing.T) {
	const address = "127.0.0.1:7777"
	atStranger := func(_ *testing.T, cfg *txn.Config) { cfg.Peers.Advertise = address }
	for name, c := range map[string]struct {
		reason string
		// one and two change the two instances. A stranger listens where each of them tells the
		// other one to dial.
		one, two func(t *testing.T, cfg *txn.Config)
		stranger func(t *testing.T, s *peerScene)
	}{
		"another secret": {
			reason: "the shared secrets differ",
			one: func(t *testing.T, cfg *txn.Config) {
				cfg.Peers.SecretFile = secretFile(t, "the secret of one instance")
			},
			two: func(t *testing.T, cfg *txn.Config) {
				cfg.Peers.SecretFile = secretFile(t, "the secret of the other one")
			},
		},
		"no secret": {
			reason: "one side has a shared secret and the other has none",
			one: func(t *testing.T, cfg *txn.Config) {
				cfg.Peers.SecretFile = secretFile(t, "the secret of one instance")
			},
		},
		"another authority": {
			reason: "certificate signed by unknown authority",
			one:    func(t *testing.T, cfg *txn.Config) { cfg.Peers = certificates(pkitest.NewAuthority(t, "ca"), "one") },
			two:    func(t *testing.T, cfg *txn.Config) { cfg.Peers = certificates(pkitest.NewAuthority(t, "ca"), "two") },
		},
		"another application": {
			reason: `"counting" and "other" are different applications`,
			one:    atStranger,
			two:    atStranger,
			stranger: func(_ *testing.T, s *peerScene) {
				s.startAt("stranger", address, func(cfg *txn.Config) { cfg.Application = "other" })
			},
		},
		"another cluster": {
			reason: `are different clusters`,
			one:    atStranger,
			two:    atStranger,
			stranger: func(t *testing.T, s *peerScene) {
				other := virtual.NewKafka(t, s.network, 1, kfake.ClusterID("other"), kfake.Ports(9999), kfake.SeedTopics(4, "in", "out"))
				s.startAt("stranger", address, func(cfg *txn.Config) { cfg.Brokers = other.ListenAddrs() })
			},
		},
	} {
		bubble(t, name, func(t *testing.T) {
			s := newPeerScene(t)
			for instance, change := range map[string]func(*testing.T, *txn.Config){"one": c.one, "two": c.two} {
				s.start(instance, func(cfg *txn.Config) {
					if change != nil {
						change(t, cfg)
					}
				})
			}
			if c.stranger != nil {
				c.stranger(t, s)
			}
			s.await("two tasks at each instance", s.balanced)
			refused := func(instance string) bool {
				for _, p := range s.apps[instance].Status().Peers {
					if !p.Connected && strings.Contains(p.Why, c.reason) {
						return true
					}
				}
				return false
			}
			s.await("a refusal in the status", func() bool { return refused("one") || refused("two") })
			time.Sleep(2 * sessionTimeout)
			lines := 0
			for _, instance := range []string{"one", "two"} {
				for _, line := range s.logged(instance, refusedPeer) {
					if strings.Contains(line, c.reason) {
						lines++
					}
				}
				s.wantNone(instance, wasFenced)
			}
			// Each side logs at most two lines a minute: that it refuses, and that it is refused.
			if lines == 0 || lines > 8 {
				t.Errorf("the reason was logged %d times", lines)
			}
			if !s.balanced() {
				t.Error("tasks have moved")
			}
		})
	}
}

// TestPeerFilesAreReadAgain: the secret of two instances is another one from now on. They stay
// connected, and connect with an instance that has started with the new secret and that they have
// refused before.
func TestPeerFilesAreReadAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const renewed = "the next secret of all instances"
		file := secretFile(t, "a secret of all instances")
		s := pairOf(t, func(_ string, cfg *txn.Config) { cfg.Peers.SecretFile = file })
		s.start("three", func(cfg *txn.Config) { cfg.Peers.SecretFile = secretFile(t, renewed) })
		s.await("the newcomer to be refused", func() bool {
			for _, p := range s.apps["three"].Status().Peers {
				if !strings.Contains(p.Why, "the shared secrets differ") {
					return false
				}
			}
			return len(s.apps["three"].Status().Peers) == 2
		})
		if err := os.WriteFile(file, []byte(renewed), 0o600); err != nil {
			t.Fatal(err)
		}
		s.await("all three to be connected", func() bool {
			return allConnected(s.apps["one"], 2) && allConnected(s.apps["two"], 2) && allConnected(s.apps["three"], 2)
		})
		for instance := range s.apps {
			s.wantNone(instance, suspected)
		}
	})
}
