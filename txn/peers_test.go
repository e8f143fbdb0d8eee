//go:build onceward_failpoints

package txn_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/txn"
)

// TestPeerSettings: each wrong setting is one ConfigError, which names it.
func TestPeerSettings(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("short\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for field, peers := range map[string]txn.Peers{
		"Peers.Listen: \"somewhere\"":  {Listen: "somewhere"},
		"Peers.Advertise: \"somewhere": {Listen: "127.0.0.1:0", Advertise: "somewhere"},
		"Peers.CertFile":               {Listen: "127.0.0.1:0", CertFile: "cert.pem"},
		"Peers.Listen: there are":      {SecretFile: secret},
	} {
		_, err := txn.New(countTopology(t), txn.Config{Brokers: []string{"kafka:9092"}, StateDir: t.TempDir(), Peers: peers})
		if err == nil || !strings.HasPrefix(err.Error(), "configuration: "+field) {
			t.Errorf("%+v: %v, want a mistake of %s", peers, err, field)
		}
	}
}

// TestPeersAreOnWhereBrokersAreOnLoopback: the default goes by the addresses that are given. A
// Dialer may reach any other machine.
func TestPeersAreOnWhereBrokersAreOnLoopback(t *testing.T) {
	const loopback = "127.0.0.1:0"
	dial := (&net.Dialer{}).DialContext
	for name, c := range map[string]struct {
		cfg  txn.Config
		want string
	}{
		"IPv4":              {txn.Config{Brokers: []string{"127.0.0.1:9092", "127.1.2.3:9092"}}, loopback},
		"IPv6":              {txn.Config{Brokers: []string{"[::1]:9092"}}, loopback},
		"by name":           {txn.Config{Brokers: []string{"localhost:9092"}}, loopback},
		"one elsewhere":     {txn.Config{Brokers: []string{"localhost:9092", "kafka:9092"}}, txn.PeersOff},
		"all elsewhere":     {txn.Config{Brokers: []string{"10.0.0.1:9092"}}, txn.PeersOff},
		"with a dialer":     {txn.Config{Brokers: []string{"localhost:9092"}, Dialer: dial}, txn.PeersOff},
		"turned off":        {txn.Config{Brokers: []string{"localhost:9092"}, Peers: txn.Peers{Listen: txn.PeersOff}}, txn.PeersOff},
		"address elsewhere": {txn.Config{Brokers: []string{"kafka:9092"}, Peers: txn.Peers{Listen: "0.0.0.0:7000"}}, "0.0.0.0:7000"},
	} {
		if got := txn.PeersListen(c.cfg); got != c.want {
			t.Errorf("%s: peers connect at %s, want %s", name, got, c.want)
		}
	}
	// A feature that is off accepts the settings that belong to it.
	off := txn.Peers{Listen: txn.PeersOff, SecretFile: "missing", CertFile: "missing"}
	if _, err := txn.New(countTopology(t), txn.Config{Brokers: []string{"localhost:9092"}, StateDir: t.TempDir(), Peers: off}); err != nil {
		t.Error(err)
	}
}

// TestInstancesOnLoopbackWatchEachOther: without any setting, over real sockets. One that has
// turned peers off is a member like any other, and the status of the others says why they do not
// watch it.
func TestInstancesOnLoopbackWatchEachOther(t *testing.T) {
	t.Parallel()
	b := newRealBroker(t, 3, "in", "out")
	apps := map[string]*txn.App{}
	for _, instance := range []string{"one", "two", "off"} {
		cfg := b.config(txn.Config{StateDir: t.TempDir(), Instance: instance, Workers: 1})
		if instance == "off" {
			cfg.Peers.Listen = txn.PeersOff
		}
		apps[instance], _ = start(t, countTopology(t), cfg)
	}
	see := func(from, to string) txn.PeerStatus {
		for _, p := range apps[from].Status().Peers {
			if p.Instance == to {
				return p
			}
		}
		return txn.PeerStatus{}
	}
	waitFor(t, "both to be connected", func() bool { return see("one", "two").Connected && see("two", "one").Connected })
	waitFor(t, "the third one to be seen", func() bool { return see("one", "off").Instance != "" })
	if p := see("one", "off"); p.Connected || !strings.Contains(p.Why, "runs without peers") {
		t.Errorf("the status of the one without peers is %+v", p)
	}
	if s := apps["off"].Status(); s.PeersAddress != "" || len(s.Peers) > 0 {
		t.Errorf("the one without peers has the address %q and the peers %v", s.PeersAddress, s.Peers)
	}
	if s := apps["one"].Status(); s.PeersAddress != see("two", "one").Address || s.PeersAddress == "" {
		t.Errorf("the address is %q, and the other one dials %q", s.PeersAddress, see("two", "one").Address)
	}
}

// TestPeerFilesAreChecked: what the files and addresses of peers lack is told before anything is
// processed.
func TestPeerFilesAreChecked(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("short\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 1, "in", "out")
		for _, c := range []struct {
			field string
			peers txn.Peers
		}{
			{"Peers.SecretFile", txn.Peers{Listen: "127.0.0.1:0", SecretFile: secret + ".missing"}},
			{"Peers.SecretFile", txn.Peers{Listen: "127.0.0.1:0", SecretFile: secret}},
			{"Peers.Advertise", txn.Peers{Listen: "0.0.0.0:0"}},
			{"Peers.CertFile", txn.Peers{Listen: "127.0.0.1:0", CertFile: secret, KeyFile: secret, CAFile: secret}},
		} {
			field, peers := c.field, c.peers
			app, err := txn.New(countTopology(t), b.config(txn.Config{StateDir: t.TempDir(), Peers: peers}))
			if err != nil {
				t.Fatal(err)
			}
			err = app.Run(t.Context())
			if wrong, ok := errors.AsType[*txn.ConfigError](err); !ok || wrong.Field != field {
				t.Errorf("%+v: %v, want a mistake of %s", peers, err, field)
			}
		}
	})
}

// TestKilledInstanceIsReplacedAtOnce: rules 13.4 to 13.6. One of two instances loses its
// connections as a process that is killed does. Its peer ends its transactions and removes its
// member, long before the session timeout. The negative control has no peers.
func TestKilledInstanceIsReplacedAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		peers bool
		low   time.Duration
		high  time.Duration
	}{"peers": {true, 0, 3 * time.Second}, "no peers": {false, 30 * time.Second, 2 * time.Minute}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				b := newBroker(t, 4, "in", "out")
				apps := map[string]*txn.App{}
				for i, instance := range []string{"one", "two"} {
					host := b.network.Host(instance)
					cfg := b.config(txn.Config{StateDir: t.TempDir(), Instance: instance, Workers: 1})
					cfg.Dialer = host.Dial
					if c.peers {
						cfg = cfg.WithPeerNetwork(func() (net.Listener, error) { return host.Listen(fmt.Sprintf("127.0.0.1:%d", 7001+i)) }, host.Dial)
					}
					app, stop := start(t, countTopology(t), cfg)
					t.Cleanup(func() { _ = stop() }) // the one that is killed reaches no broker
					apps[instance] = app
				}
				t.Cleanup(func() {
					if t.Failed() {
						t.Logf("one: %+v\ntwo: %+v", apps["one"].Status().Peers, apps["two"].Status().Peers)
					}
				})
				waitFor(t, "two tasks at each instance", func() bool {
					return running(apps["one"], 2)() && running(apps["two"], 2)() && (!c.peers || connected(apps["two"]))
				})
				began := time.Now()
				b.network.Host("one").Kill()
				waitFor(t, "all tasks at the instance that is left", func() bool { return running(apps["two"], 4)() })
				if took := time.Since(began); took < c.low || took > c.high {
					t.Errorf("it took %s, want %s to %s", took, c.low, c.high)
				}
			})
		})
	}
}

// TestTakeoverWaitsForNoHeartbeat: the group begins a rebalance when the member of the dead
// instance is removed. The others hear of it from the peer that has removed it, and not with their
// next heartbeat.
func TestTakeoverWaitsForNoHeartbeat(t *testing.T) {
	for _, others := range []int{1, 2} {
		for phase := range 5 {
			t.Run(fmt.Sprint(others, " others, phase ", phase), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					b := newBroker(t, 6, "in", "out")
					var apps []*txn.App
					for i := range 1 + others {
						host := b.network.Host(fmt.Sprint(i))
						cfg := b.config(txn.Config{StateDir: t.TempDir(), Instance: fmt.Sprint(i), Workers: 1})
						cfg.Dialer = host.Dial
						cfg = cfg.WithPeerNetwork(func() (net.Listener, error) { return host.Listen(fmt.Sprintf("127.0.0.1:%d", 7001+i)) }, host.Dial)
						app, stop := start(t, countTopology(t), cfg)
						t.Cleanup(func() { _ = stop() }) // the one that is killed reaches no broker
						apps = append(apps, app)
					}
					waitFor(t, "even shares and connections", func() bool {
						for _, app := range apps {
							if !running(app, 6/(1+others))() || !allConnected(app, others) {
								return false
							}
						}
						return true
					})
					time.Sleep(time.Minute + time.Duration(phase)*100*time.Millisecond)
					b.network.Host("0").Kill()
					began := time.Now()
					waitFor(t, "all tasks at those that are left", func() bool {
						n := 0
						for _, app := range apps[1:] {
							for _, task := range app.Status().Tasks {
								if task.State == txn.TaskRunning {
									n++
								}
							}
						}
						return n == 6
					})
					if took := time.Since(began); took > 100*time.Millisecond { // heartbeats are 500 ms apart
						t.Errorf("the takeover took %s", took)
					}
				})
			})
		}
	}
}

func allConnected(app *txn.App, n int) bool {
	peers := app.Status().Peers
	return len(peers) == n && !slices.ContainsFunc(peers, func(p txn.PeerStatus) bool { return !p.Connected })
}

func connected(app *txn.App) bool {
	peers := app.Status().Peers
	return len(peers) == 1 && peers[0].Connected && !strings.Contains(peers[0].Suspicion, "fenced")
}
