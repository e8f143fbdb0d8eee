package peers

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/txn/internal/pkitest"
	"github.com/onceward/onceward/txn/security"
)

var secret = security.NewSecret("a secret of the instances")

func withSecret(c *Config) { change(c, func(s *Security) { s.Secret = secret }) }

// change changes what a configuration has for its connections.
func change(c *Config, f func(s *Security)) {
	var s Security
	if c.Security != nil {
		s = c.Security()
	}
	f(&s)
	c.Security = func() Security { return s }
}

// TestSecuredPeers connect, work through a death, and tell each other what changes.
func TestSecuredPeers(t *testing.T) {
	mutual := func(t *testing.T) func(*Config) {
		var ca *pkitest.Authority
		return func(c *Config) {
			if ca == nil { // on the time of the bubble
				ca = pkitest.NewAuthority(t, "ca")
			}
			pair := ca.Issue(c.Self.Instance, time.Now().Add(time.Hour), "127.0.0.1").TLS
			pool := ca.Pool
			change(c, func(s *Security) {
				s.Server = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
				s.Client = &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool}
			})
		}
	}
	for name, configure := range map[string]func(t *testing.T) func(*Config){
		"secret": func(*testing.T) func(*Config) { return withSecret },
		"TLS":    mutual,
		"both": func(t *testing.T) func(*Config) {
			m := mutual(t)
			return func(c *Config) { m(c); withSecret(c) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, names(3), configure(t), func(w *world) {
				w.wantConnected()
				if err := w.nodes["b"].SetSelf("new", []string{"id"}); err != nil {
					t.Fatal(err)
				}
				w.after(time.Second)
				w.kill("b")
				w.after(time.Minute)
				w.wantFencings(time.Second, time.Second+10*time.Millisecond, "b")
				if s := w.fencings()[0].s; s.MemberID != "new" || !slices.Contains(s.TransactionalIDs, "id") {
					t.Errorf("the suspect is %+v", s)
				}
				if n := w.nodes["a"].Status().Refused; n != 0 {
					t.Errorf("%d refusals", n)
				}
			})
		})
	}
}

// TestStrangersAreRefused: both sides know why, and log it once a minute.
func TestStrangersAreRefused(t *testing.T) {
	for _, c := range []struct {
		name      string
		configure func(*Config) // of b
		reason    string
		one       bool // only one side knows
	}{
		{"other secret", func(c *Config) {
			change(c, func(s *Security) { s.Secret = security.NewSecret("another secret, just as long") })
		}, "the shared secrets differ", false},
		{"no secret", func(c *Config) { c.Security = nil }, "one side has a shared secret", false},
		{"other application", func(c *Config) { c.Self.Application = "other" }, `different applications`, false},
		{"other cluster", func(c *Config) { c.Self.Cluster = "other" }, `different clusters`, false},
		{"same name", func(c *Config) { c.Self.Instance = "a" }, `two processes are instance`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, nil, func(cfg *Config) {
				withSecret(cfg)
				if cfg.Self.Instance == "b" {
					c.configure(cfg)
				}
			}, func(w *world) {
				a, b := w.start("a"), w.start("b")
				a.SetMembers([]Member{{"b", b.address}})
				w.after(10*time.Minute + time.Second)
				s := w.status("b", "a")
				if s.Connected || !strings.Contains(s.Why, c.reason) {
					t.Errorf("a sees %+v, want %q", s, c.reason)
				}
				for _, n := range []*node{a, b} {
					if r := n.Status().Refused; r < 10 {
						t.Errorf("%s counts %d refusals", n.name, r)
					}
					if lines := w.loggedBy(n.name, c.reason); lines < 8 || lines > 11 {
						t.Errorf("%s has logged %q %d times in ten minutes", n.name, c.reason, lines)
					}
				}
				w.wantFencings(0, 0)
			})
		})
	}
}

func (w *world) loggedBy(name, text string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for line := range strings.Lines(w.logs.String()) {
		if strings.Contains(line, "self="+name+" ") && strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// raw dials an instance and sends bytes. It returns what comes back until the connection is closed,
// and when that is.
func (w *world) raw(to string, data []byte) (answers []frame, took time.Duration) {
	w.t.Helper()
	c, err := w.net.dialer("stranger")(context.Background(), w.nodes[to].address)
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close()
	began := time.Now()
	if _, err := c.Write(data); err != nil {
		w.t.Fatal(err)
	}
	for {
		body, err := read(c, nil)
		if err != nil {
			if !errors.Is(err, io.EOF) {
				w.t.Errorf("the connection has ended with %v", err)
			}
			return answers, time.Since(began)
		}
		f, err := decode(body)
		if err != nil {
			w.t.Fatal(err)
		}
		answers = append(answers, f)
	}
}

func sealed(t *testing.T, f frame) []byte {
	t.Helper()
	data, err := seal(f.body(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// resealed changes a frame and makes its check right again.
func resealed(data []byte, change func([]byte)) []byte {
	data = bytes.Clone(data)
	change(data)
	end := len(data) - checkSize
	return binary.BigEndian.AppendUint32(data[:end], crc32.Checksum(data[:end], castagnoli))
}

// TestBadHellos get a reason if they are frames, and never an answer that proves anything.
func TestBadHellos(t *testing.T) {
	hello := frame{kind: kindHello, application: "app", cluster: "cluster", instance: "x", incarnation: 1, nonce: make([]byte, nonceSize)}
	good := sealed(t, hello)
	long := binary.BigEndian.AppendUint32(nil, frameMax+1)
	damaged := bytes.Clone(good)
	damaged[20] ^= 1
	noName := hello
	noName.instance = ""
	noNonce := hello
	noNonce.nonce = []byte("short")
	for _, c := range []struct {
		name   string
		data   []byte
		reason string
		took   time.Duration // at least
	}{
		{"other major", resealed(good, func(b []byte) { b[4] = 2 }), "have version 2, and this build reads version 1", 0},
		{"oversized", long, "the length is 65537", 0},
		{"tiny", []byte{0, 0, 0, 1, 0}, "the length is 1", 0},
		{"damaged", damaged, "the check is wrong", 0},
		{"not a hello", sealed(t, frame{kind: kindHeartbeat}), "a frame of type 4 came", 0},
		{"no name", sealed(t, noName), "without instance", 0},
		{"short nonce", sealed(t, noNonce), "a nonce of 5 bytes", 0},
		{"wrong proof", append(bytes.Clone(good), sealed(t, frame{kind: kindProof, proof: make([]byte, macSize)})...), "the shared secrets differ", 0},
		{"no proof", good, "took longer than 2s", 2 * time.Second},
		{"slow", good[:10], "took longer than 2s", 2 * time.Second},
		{"nothing", nil, "took longer than 2s", 2 * time.Second},
		{"TLS", []byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"), "the length is", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, names(2), withSecret, func(w *world) {
				answers, took := w.raw("a", c.data)
				var reason string
				for _, f := range answers {
					if f.kind == kindGoodbye {
						reason = f.reason
					} else if f.kind != kindHello {
						t.Errorf("answered a frame of type %d", f.kind)
					}
				}
				if !strings.Contains(reason, c.reason) || took < c.took || took > c.took+opinionMax+10*time.Millisecond {
					t.Errorf("refused with %q after %s, want %q", reason, took, c.reason)
				}
				if n := w.nodes["a"].Status().Refused; n != 1 {
					t.Errorf("%d refusals are counted", n)
				}
				w.wantConnected()
			})
		})
	}
}

// TestUnfinishedHandshakesAreBounded: many strangers that say nothing do not keep a peer out for
// long.
func TestUnfinishedHandshakesAreBounded(t *testing.T) {
	inWorld(t, names(1), nil, func(w *world) {
		for range handshakesMax + 20 {
			if _, err := w.net.dialer("stranger")(context.Background(), w.nodes["a"].address); err != nil {
				t.Fatal(err)
			}
		}
		w.start("b").SetMembers([]Member{{"a", w.nodes["a"].address}})
		w.after(10 * time.Second)
		w.wantConnected()
		if w.logged("64 handshakes are at work") != 1 {
			t.Error("nothing says that there were too many")
		}
	})
}

// TestChangedFramesEndTheConnection: the connection is then made again, and no instance takes that
// for a death.
func TestChangedFramesEndTheConnection(t *testing.T) {
	for name, c := range map[string]struct {
		configure func(*Config)
		change    func([]byte) []byte
	}{
		"damaged":  {nil, func(b []byte) []byte { b[len(b)-1] ^= 1; return b }},
		"changed":  {withSecret, func(b []byte) []byte { return resealed(b, func(b []byte) { b[6] = byte(kindGoodbye) }) }},
		"replayed": {withSecret, func(b []byte) []byte { return append(b, b...) }},
		"without":  {withSecret, func([]byte) []byte { b, _ := seal(frame{kind: kindGoodbye, code: codeStopping}.body(), nil); return b }},
		"other keys": {withSecret, func([]byte) []byte {
			b, _ := seal(frame{kind: kindHeartbeat}.body(), &macKey{key: []byte("x")})
			return b
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, names(3), c.configure, func(w *world) {
				w.net.mu.Lock()
				done := false
				w.net.change = func(from, to string, data []byte) []byte {
					if done || from != "b" || to != "a" {
						return data
					}
					done = true
					return c.change(data)
				}
				w.net.mu.Unlock()
				w.after(10 * time.Second)
				w.wantConnected()
				w.wantFencings(0, 0)
				if s := w.status("b", "a"); s.Suspicions != 1 {
					t.Errorf("%d suspicions, want that of the connection that has ended", s.Suspicions)
				}
			})
		})
	}
}

// TestOneConnectionOfTwoPeers stays, although both dial at the same time.
func TestOneConnectionOfTwoPeers(t *testing.T) {
	for n, want := range map[int]int{2: 1, 3: 3, 5: 10, 8: 16} {
		inWorld(t, names(n), nil, func(w *world) {
			w.net.mu.Lock()
			got := len(w.net.conns) / 2
			w.net.mu.Unlock()
			if got != want {
				t.Errorf("%d instances have %d connections, want %d", n, got, want)
			}
			for _, node := range w.nodes {
				for _, s := range node.Status().Peers {
					if s.Suspicions != 0 {
						t.Errorf("%s has suspected %s", node.name, s.Instance)
					}
				}
			}
		})
	}
}

// TestConnectionsFollowThePlan: those that do not watch each other any more disconnect, without a
// suspicion.
func TestConnectionsFollowThePlan(t *testing.T) {
	inWorld(t, names(4), nil, func(w *world) {
		for _, name := range []string{"e", "f", "g"} {
			w.start(name)
		}
		w.plan(names(7)...)
		w.after(time.Minute)
		w.wantConnected()
		for _, node := range w.nodes {
			connected := 0
			for _, s := range node.Status().Peers {
				if s.Connected {
					connected++
				}
				if s.Suspicions != 0 {
					t.Errorf("%s has suspected %s", node.name, s.Instance)
				}
			}
			if connected != 4 {
				t.Errorf("%s has %d connections, want 4", node.name, connected)
			}
		}
	})
}

// TestSecondProcessOfAnInstanceWaits until the first one is gone.
func TestSecondProcessOfAnInstanceWaits(t *testing.T) {
	inWorld(t, names(2), nil, func(w *world) {
		first := w.nodes["b"]
		second := w.start("b")
		second.SetMembers([]Member{{"a", w.nodes["a"].address}})
		w.after(10 * time.Second)
		if w.loggedBy("a", "another process is connected as instance") == 0 || w.status("a", "b").Connected {
			t.Error("the second process was not refused")
		}
		if n := w.net.dials["b"]; n > 20 {
			t.Errorf("%d dials in ten seconds", n)
		}
		first.stop()
		w.after(20 * time.Second)
		if !w.status("a", "b").Connected {
			t.Error("the second process has no connection although the first one is gone")
		}
		// The death of the first is noticed before the second dials again.
		w.wantFencings(10*time.Second, 10*time.Second+10*time.Millisecond, "b")
		if got := w.fencings()[0].s.Incarnation; got != first.cfg.Self.Incarnation {
			t.Errorf("incarnation %d is fenced", got)
		}
	})
}

// TestKeysDependOnEverything: the secret, both hellos, the direction and the use.
func TestKeysDependOnEverything(t *testing.T) {
	s, other := Security{Secret: secret}, Security{Secret: security.NewSecret("another secret")}
	d, a, x := []byte("d"), []byte("a"), []byte("x")
	seen := map[string]string{}
	for name, k := range map[string]keys{
		"these": s.derive(d, a), "other dialler": s.derive(x, a), "other acceptor": s.derive(d, x), "swapped": s.derive(a, d),
		"other secret": other.derive(d, a),
	} {
		for use, key := range map[string][]byte{
			"proof d": k.dialler, "proof a": k.acceptor, "from d": k.fromDialler.key, "from a": k.fromAcceptor.key,
		} {
			if before, ok := seen[string(key)]; ok {
				t.Errorf("%s, %s has the key of %s", name, use, before)
			}
			seen[string(key)] = name + ", " + use
		}
	}
	if bytes.Equal(s.nonce(), s.nonce()) {
		t.Error("two nonces are the same")
	}
}

func noProgress(context.Context, Suspect) (bool, error) { return false, nil }

// TestOverTCP: what the system says of a process that is gone is understood. Nothing here depends
// on how long it takes.
func TestOverTCP(t *testing.T) {
	fenced := make(chan Suspect, 1)
	start := func(ctx context.Context, name string, incarnation uint64) (p *Peers, address string, done chan struct{}) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		p, err = New(Config{
			Self: Identity{Instance: name, Incarnation: incarnation}, Listener: l, Address: l.Addr().String(),
			Security: func() Security { return Security{Secret: secret} }, Logger: slog.New(slog.DiscardHandler),
			Fence: func(_ context.Context, s Suspect) error { fenced <- s; return nil },
			// A closed connection and a refused dial need no answer.
			Progress: noProgress,
		})
		if err != nil {
			t.Fatal(err)
		}
		done = make(chan struct{})
		go func() { defer close(done); p.Run(ctx) }()
		return p, l.Addr().String(), done
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	bCtx, kill := context.WithCancel(ctx)
	a, _, aDone := start(ctx, "a", 1)
	_, address, bDone := start(bCtx, "b", 2)
	a.SetMembers([]Member{{"b", address}})
	for !slices.ContainsFunc(a.Status().Peers, func(s PeerStatus) bool { return s.Connected }) {
		runtime.Gosched()
	}
	kill()
	<-bDone
	if s := <-fenced; s.Instance != "b" || s.Incarnation != 2 {
		t.Errorf("the suspect is %+v", s)
	}
	cancel()
	<-aDone
}

// TestNew refuses what cannot work, and closes the listener.
func TestNew(t *testing.T) {
	w := &world{t: t, net: newNetwork()}
	for name, c := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"not loopback": {func(c *Config) { c.Listener = w.net.listen("a", "10.0.0.1") }, "no loopback address"},
		"short secret": {func(c *Config) { change(c, func(s *Security) { s.Secret = security.NewSecret("short") }) }, "16 are the least"},
		"half of TLS":  {func(c *Config) { change(c, func(s *Security) { s.Client = &tls.Config{} }) }, "one for dialled connections"},
		"any client": {func(c *Config) {
			change(c, func(s *Security) { s.Client, s.Server = &tls.Config{}, &tls.Config{} })
		}, "verify the certificate of its client"},
		"no name":       {func(c *Config) { c.Self.Instance = "" }, "a name and an incarnation"},
		"no function":   {func(c *Config) { c.Fence = nil }, "no function that fences"},
		"short silence": {func(c *Config) { c.Silence = time.Second; c.Heartbeat = time.Second }, "less than five heartbeats"},
	} {
		l := w.net.listen("a", "127.0.0.1")
		cfg := Config{
			Self: Identity{Instance: "a", Incarnation: 1}, Listener: l,
			Fence: func(context.Context, Suspect) error { return nil }, Progress: noProgress,
		}
		c.change(&cfg)
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: New returns %v", name, err)
		}
		if _, err := cfg.Listener.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: the listener is open: %v", name, err)
		}
	}
	cfg := Config{
		Self: Identity{Instance: "a", Incarnation: 1}, Listener: w.net.listen("a", "10.0.0.1"),
		Security: func() Security { return Security{Secret: secret} },
		Fence:    func(context.Context, Suspect) error { return nil }, Progress: noProgress,
	}
	p, err := New(cfg)
	if err != nil {
		t.Fatalf("a secret allows other addresses: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	p.Run(ctx)
}

// TestAddressThatIsNotLoopbackIsNotUsed without TLS and without a secret.
func TestAddressThatIsNotLoopbackIsNotUsed(t *testing.T) {
	inWorld(t, names(1), nil, func(w *world) {
		l := w.net.listen("b", "10.0.0.1")
		w.nodes["a"].SetMembers([]Member{{"b", string(l.addr)}})
		w.after(10 * time.Second)
		if s := w.status("b", "a"); s.Connected || !strings.Contains(s.Why, "10.0.0.1:2 is no loopback address") {
			t.Errorf("a sees %+v", s)
		}
	})
}

// TestWithoutListener: every method does nothing.
func TestWithoutListener(t *testing.T) {
	p, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	p.SetMembers([]Member{{"b", "127.0.0.1:1"}})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	p.Run(ctx)
	if err := errors.Join(p.SetSelf("m", []string{"id"}), p.Goodbye(context.Background())); err != nil || len(p.Status().Peers) > 0 {
		t.Errorf("%v, %+v", err, p.Status())
	}
}

// TestManyIDsAreTold: they need not fit into one frame. Of too many as many as peers keep are told,
// with the member id.
func TestManyIDsAreTold(t *testing.T) {
	ids := func(n int) (out []string) {
		for i := range n {
			out = append(out, fmt.Sprintf("%s~%d", strings.Repeat("application", 20), i))
		}
		return out
	}
	for name, c := range map[string]struct {
		ids     []string
		late    bool // after the others were connected
		told    int
		refused string
	}{
		"several frames":                   {ids: ids(1500), late: true, told: 1501},
		"several frames with the hello":    {ids: ids(1500), told: 1501},
		"more than are kept":               {ids: ids(idsMax + 10), late: true, told: idsMax, refused: "of 2058 transactional ids 2048 are told"},
		"one that fits into no frame":      {ids: []string{strings.Repeat("x", frameMax)}, late: true, told: 1, refused: "is larger than"},
		"one that does, but not with more": {ids: []string{strings.Repeat("x", 2*idBytesMax), "y"}, late: true, told: 3},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, names(2), nil, func(w *world) {
				set := func() {
					err := w.nodes["b"].SetSelf("new", c.ids)
					if c.refused == "" && err != nil || c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)) {
						t.Errorf("SetSelf returns %v", err)
					}
				}
				if !c.late {
					w.cutOff("b", true)
					w.after(10 * time.Second)
				}
				set()
				w.cutOff("b", false)
				w.after(20 * time.Second)
				w.wantConnected()
				w.kill("b")
				w.after(time.Minute)
				calls := w.fencings()
				s := calls[len(calls)-1].s
				if told := c.refused == "" || c.told > 1; len(s.TransactionalIDs) != c.told || (s.MemberID == "new") != told {
					t.Errorf("the suspect has the member %q and %d ids, want %d", s.MemberID, len(s.TransactionalIDs), c.told)
				}
			})
		})
	}
}

// TestAddressThatLeadsToAnotherInstance, as after another process has got a port, is told, and the
// connection with that one stays.
func TestAddressThatLeadsToAnotherInstance(t *testing.T) {
	inWorld(t, names(3), nil, func(w *world) {
		a := w.nodes["a"]
		link := func() *link {
			a.mu.Lock()
			defer a.mu.Unlock()
			return a.peers["c"].link
		}
		w.kill("b")
		w.after(5 * time.Second)
		before, c := link(), w.nodes["c"].address
		a.SetMembers([]Member{{"b", c}, {"c", c}})
		w.after(time.Minute)
		if s := w.status("b", "a"); !strings.Contains(s.Why, `instance "c" listens here, and "b" was dialled`) {
			t.Errorf("a sees %+v", s)
		}
		if link() != before {
			t.Error("the connection with c was replaced")
		}
	})
}

// TestStrangersAreForgotten: instances that are in no plan, as those of a wrong configuration whose
// names change, do not add up.
func TestStrangersAreForgotten(t *testing.T) {
	inWorld(t, names(2), nil, func(w *world) {
		a := w.nodes["a"]
		known := func() (all, linked int) {
			a.mu.Lock()
			defer a.mu.Unlock()
			for _, q := range a.peers {
				all++
				if q.link != nil {
					linked++
				}
			}
			return all, linked
		}
		stranger := func(i int) string {
			name := fmt.Sprint("x", i)
			w.start(name).SetMembers([]Member{{"a", a.address}})
			return name
		}
		for i := range 2 * strangersMax { // one after the other
			name := stranger(i)
			time.Sleep(time.Second)
			w.kill(name)
		}
		if all, _ := known(); all > 1+strangersMax {
			t.Errorf("a remembers %d instances", all)
		}
		for i := range 2 * strangersMax { // together
			stranger(i)
		}
		time.Sleep(time.Second)
		if all, linked := known(); all > 1+strangersMax || linked != 1+strangersMax {
			t.Errorf("a remembers %d instances and has %d connections", all, linked)
		}
		if n := a.Status().Refused; n == 0 {
			t.Error("no hello was refused")
		}
	})
}
