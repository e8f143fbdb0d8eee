//go:build onceward_failpoints

package txn_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// peerScene is the instances of an application that watch each other, each incarnation on a host of
// its own.
type peerScene struct {
	*testBroker
	t     *testing.T
	apps  map[string]*txn.App      // the last incarnation of each instance
	hosts map[string]*virtual.Host // its host
	names map[string]string        // the name of its host
	stops map[string]func() error  // an orderly stop
	dirs  map[string]string        // its state directory
	lives int
	// topology is what the instances run, that of countTopology if it is nil.
	topology *topology.Topology

	mu   sync.Mutex
	logs map[string][]string // by instance
}

// pairOf starts two instances, "one" and "two", and waits until each has two tasks and they are
// connected.
func pairOf(t *testing.T, change func(instance string, cfg *txn.Config)) *peerScene {
	t.Helper()
	return pairAt(t, newBroker(t, 4, "in", "out"), change)
}

// pairAt is pairOf at brokers that have the topics "in" and "out" with four partitions.
func pairAt(t *testing.T, b *testBroker, change func(instance string, cfg *txn.Config)) *peerScene {
	t.Helper()
	s := newPeerSceneAt(t, b)
	for _, instance := range []string{"one", "two"} {
		s.start(instance, func(cfg *txn.Config) {
			if change != nil {
				change(instance, cfg)
			}
		})
	}
	s.await("two tasks at each instance, connected", func() bool { return s.balanced() && s.connected() })
	return s
}

func newPeerScene(t *testing.T) *peerScene {
	t.Helper()
	return newPeerSceneAt(t, newBroker(t, 4, "in", "out"))
}

func newPeerSceneAt(t *testing.T, b *testBroker) *peerScene {
	t.Helper()
	s := &peerScene{
		testBroker: b, t: t, apps: map[string]*txn.App{}, hosts: map[string]*virtual.Host{}, names: map[string]string{},
		stops: map[string]func() error{}, dirs: map[string]string{}, logs: map[string][]string{},
	}
	t.Cleanup(func() {
		if t.Failed() {
			s.mu.Lock()
			defer s.mu.Unlock()
			for instance, lines := range s.logs {
				t.Logf("%s: %+v\n%s", instance, s.apps[instance].Status().Peers, strings.Join(lines, "\n"))
			}
		}
	})
	return s
}

// start begins a life of an instance. It has the state directory of the one before unless that is
// set.
func (s *peerScene) start(instance string, change func(*txn.Config)) {
	s.t.Helper()
	s.startAt(instance, fmt.Sprintf("127.0.0.1:%d", 7000+s.lives), change)
}

// startAt is start with the address where peers connect.
func (s *peerScene) startAt(instance, address string, change func(*txn.Config)) {
	s.t.Helper()
	s.lives++
	name := fmt.Sprint(instance, ".", s.lives)
	host := s.network.Host(name)
	if s.dirs[instance] == "" {
		s.dirs[instance] = s.t.TempDir()
	}
	cfg := s.config(txn.Config{
		StateDir: s.dirs[instance], Instance: instance, Workers: 1, Dialer: host.Dial,
		Logger: slog.New(&sceneLog{scene: s, instance: instance}),
	}).WithPeerNetwork(func() (net.Listener, error) { return host.Listen(address) }, host.Dial)
	if change != nil {
		change(&cfg)
	}
	s.hosts[instance], s.names[instance] = host, name
	top := s.topology
	if top == nil {
		top = countTopology(s.t)
	}
	app, stop := start(s.t, top, cfg)
	s.apps[instance], s.stops[instance] = app, stop
}

// stop ends a life in order.
func (s *peerScene) stop(instance string) {
	s.t.Helper()
	if err := s.stops[instance](); err != nil {
		s.t.Fatalf("%s has stopped with %v", instance, err)
	}
}

// abandon leaves a life alone that no broker is to hear of any more.
func (s *peerScene) abandon(instance string) {
	host, stop := s.hosts[instance], s.stops[instance]
	s.t.Cleanup(func() {
		host.Kill()
		_ = stop() // it reaches no broker
	})
}

// cut lets nothing arrive between the two instances. Both reach the brokers.
func (s *peerScene) cut() {
	s.network.Block(s.names["one"], s.names["two"])
	s.network.Block(s.names["two"], s.names["one"])
}

// feedAll writes a record to each partition, with a key of its own.
func (s *peerScene) feedAll() {
	s.t.Helper()
	var records []*kgo.Record
	for p := range int32(4) {
		records = append(records, &kgo.Record{Topic: "in", Partition: p, Key: fmt.Appendf(nil, "p%d", p), Value: []byte("v")})
	}
	s.produce(s.t, records...)
}

func (s *peerScene) await(what string, cond func() bool) {
	s.t.Helper()
	waitFor(s.t, what, cond)
}

// has says whether an instance runs so many tasks.
func (s *peerScene) has(instance string, tasks int) bool { return running(s.apps[instance], tasks)() }

func (s *peerScene) balanced() bool { return s.has("one", 2) && s.has("two", 2) }

func (s *peerScene) connected() bool { return connected(s.apps["one"]) && connected(s.apps["two"]) }

// logged returns the lines of an instance that have a text.
func (s *peerScene) logged(instance, text string) (lines []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, line := range s.logs[instance] {
		if strings.Contains(line, text) {
			lines = append(lines, line)
		}
	}
	return lines
}

// wantNone fails the test if an instance has logged a text.
func (s *peerScene) wantNone(instance, text string) {
	s.t.Helper()
	if lines := s.logged(instance, text); len(lines) > 0 {
		s.t.Errorf("%s has logged %q", instance, lines)
	}
}

// Log messages of the instances.
const (
	suspected    = "a peer is suspected"
	wasFenced    = "a peer was fenced"
	leftAtWork   = "a silent peer is at work"
	refusedPeer  = "no connection with a peer"
	beganAgain   = "the membership ended and is begun again"
	fencedInVain = "a peer was fenced in vain"
)

// sceneLog keeps the lines of an instance.
type sceneLog struct {
	scene    *peerScene
	instance string
	attrs    []slog.Attr
}

func (h *sceneLog) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

func (h *sceneLog) Handle(_ context.Context, r slog.Record) error {
	line := r.Time.Format("15:04:05.000 ") + r.Level.String() + " " + r.Message
	for _, a := range h.attrs {
		line += " " + a.String()
	}
	r.Attrs(func(a slog.Attr) bool {
		line += " " + a.String()
		return true
	})
	h.scene.mu.Lock()
	defer h.scene.mu.Unlock()
	h.scene.logs[h.instance] = append(h.scene.logs[h.instance], line)
	return nil
}

func (h *sceneLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &sceneLog{h.scene, h.instance, append(h.attrs[:len(h.attrs):len(h.attrs)], attrs...)}
}

func (h *sceneLog) WithGroup(string) slog.Handler { return h }
