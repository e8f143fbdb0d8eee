package peers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/e2e/leaktest"
	"github.com/onceward/onceward/txn/internal/backoff"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// world is the instances of an application in a bubble of testing/synctest.
type world struct {
	t     *testing.T
	net   *network
	nodes map[string]*node
	next  uint64 // incarnation
	// configure changes the configuration of an instance before it starts.
	configure func(*Config)

	mu    sync.Mutex
	began time.Time // when all were connected
	fence fence
	calls []call
	// progress is what a look at the brokers finds after half the silence bound, for the instance
	// that looks.
	progress func(self string, s Suspect) (bool, error)
	looks    []call
	lives    map[string]int // signs of life
	logs     bytes.Buffer
}

// fence decides what a fencing finds.
type fence func(ctx context.Context, fencer string, s Suspect) error

// onFence replaces what fencings find, which is nothing after 20 ms.
func (w *world) onFence(f fence) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fence = f
}

// call is a call of Config.Fence.
type call struct {
	at     time.Duration
	fencer string
	s      Suspect
}

// node is a process.
type node struct {
	*Peers
	name    string
	address string
	stop    func() // ends Run and waits for it
	gate    gate
}

// gate holds up a process.
type gate struct {
	mu sync.Mutex
	// opened is closed when the process continues; nil: it runs.
	opened chan struct{}
}

// inWorld runs f with instances of these names, connected.
func inWorld(t *testing.T, names []string, configure func(*Config), f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, net: newNetwork(), nodes: map[string]*node{}, lives: map[string]int{}, configure: configure}
		defer func() {
			for _, n := range w.nodes {
				n.stop()
			}
			if t.Failed() {
				w.mu.Lock()
				defer w.mu.Unlock()
				t.Log(w.logs.String())
			}
		}()
		for _, name := range names {
			w.start(name)
		}
		w.plan(names...)
		time.Sleep(3 * time.Second)
		w.mu.Lock()
		w.began = time.Now()
		w.mu.Unlock()
		f(w)
	})
}

// start starts a process of an instance.
func (w *world) start(name string) *node {
	w.t.Helper()
	w.next++
	l := w.net.listen(name, "127.0.0.1")
	n := &node{name: name, address: string(l.addr)}
	cfg := Config{
		Self: Identity{Application: "app", Cluster: "cluster", Instance: name, Incarnation: w.next}, Listener: l, Address: n.address,
		Dial: w.net.dialer(name), hold: n.gate.hold,
		Logger: slog.New(slog.NewTextHandler(locked{w}, nil)).With("self", name),
		Fence: func(ctx context.Context, s Suspect) error {
			w.mu.Lock()
			w.calls = append(w.calls, call{time.Since(w.began), name, s})
			fence := w.fence
			w.mu.Unlock()
			if fence != nil {
				return fence(ctx, name, s)
			}
			return backoff.Sleep(ctx, 20*time.Millisecond)
		},
	}
	cfg.Progress = func(ctx context.Context, s Suspect) (bool, error) {
		w.mu.Lock()
		w.looks = append(w.looks, call{time.Since(w.began), name, s})
		progress := w.progress
		w.mu.Unlock()
		if err := backoff.Sleep(ctx, time.Second-10*time.Millisecond); err != nil || progress == nil {
			return false, err
		}
		return progress(name, s)
	}
	cfg.Live = func(context.Context) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.lives[name]++
	}
	if w.configure != nil {
		w.configure(&cfg)
	}
	p, err := New(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	n.Peers = p
	if err := p.SetSelf("member-"+name, []string{"app~" + name + "~0"}); err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); p.Run(ctx) }()
	n.stop = func() { n.thaw(); cancel(); <-done }
	w.nodes[name] = n
	return n
}

// locked writes logs.
type locked struct{ w *world }

func (l locked) Write(b []byte) (int, error) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	return l.w.logs.Write(b)
}

var _ io.Writer = locked{}

func (w *world) logged(text string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Count(w.logs.String(), text)
}

// plan tells all processes who the members are, at the addresses of the processes that run.
func (w *world) plan(names ...string) {
	var members []Member
	for _, name := range names {
		members = append(members, Member{Instance: name, Address: w.nodes[name].address})
	}
	for _, n := range w.nodes {
		n.SetMembers(members)
	}
}

// kill ends a process without a goodbye.
func (w *world) kill(name string) {
	n := w.nodes[name]
	delete(w.nodes, name)
	w.net.kill(name)
	n.stop()
}

// cutOff stops all packets of an instance, or lets them pass.
func (w *world) cutOff(name string, stop bool) {
	for other := range w.nodes {
		if other != name {
			w.net.cut(name, other, stop)
		}
	}
}

func (g *gate) hold() {
	g.mu.Lock()
	opened := g.opened
	g.mu.Unlock()
	if opened != nil {
		<-opened
	}
}

func (n *node) freeze() {
	n.gate.mu.Lock()
	defer n.gate.mu.Unlock()
	n.gate.opened = make(chan struct{})
}

func (n *node) thaw() {
	n.gate.mu.Lock()
	defer n.gate.mu.Unlock()
	if n.gate.opened != nil {
		close(n.gate.opened)
		n.gate.opened = nil
	}
}

// after waits until a time since the instances were connected.
func (w *world) after(d time.Duration) {
	time.Sleep(time.Until(w.began.Add(d)))
	synctest.Wait()
}

func (w *world) fencings() []call {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.calls)
}

// wantFencings fails unless exactly these instances were fenced, each once, not before min and not
// after max.
func (w *world) wantFencings(least, most time.Duration, instances ...string) {
	w.t.Helper()
	var got []string
	for _, c := range w.fencings() {
		got = append(got, c.s.Instance)
		if c.at < least || c.at > most {
			w.t.Errorf("%s fenced %s after %s, want between %s and %s", c.fencer, c.s.Instance, c.at, least, most)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, instances) {
		w.t.Errorf("fenced: %v, want %v: %v", got, instances, w.fencings())
	}
}

// status returns what one process sees of another.
func (w *world) status(of, at string) PeerStatus {
	w.t.Helper()
	for _, s := range w.nodes[at].Status().Peers {
		if s.Instance == of {
			return s
		}
	}
	w.t.Fatalf("%s knows nothing of %s", at, of)
	return PeerStatus{}
}

// wantConnected fails unless every process is connected with all that it watches.
func (w *world) wantConnected() {
	w.t.Helper()
	for _, name := range slices.Sorted(maps.Keys(w.nodes)) {
		for _, s := range w.nodes[name].Status().Peers {
			if s.Watched && !s.Connected {
				w.t.Errorf("%s has no connection with %s: %s", name, s.Instance, s.Why)
			}
		}
	}
}

// names returns a, b, c, ...
func names(n int) []string {
	var out []string
	for i := range n {
		out = append(out, string(rune('a'+i)))
	}
	return out
}

var errFence = errors.New("no broker answers")

func sizes(t *testing.T, f func(t *testing.T, names []string), all ...int) {
	for _, n := range all {
		t.Run(fmt.Sprint(n), func(t *testing.T) { f(t, names(n)) })
	}
}
