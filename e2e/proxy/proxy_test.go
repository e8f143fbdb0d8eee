package proxy

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/e2e/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func hostPort(host string, port int32) string { return net.JoinHostPort(host, strconv.Itoa(int(port))) }

// patience bounds waits for what is certain to come; it only decides how long a failure takes to
// show.
const patience = 30 * time.Second

func startProxy(t *testing.T, brokers ...string) *Proxy {
	t.Helper()
	p, err := Start(brokers...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// fixture is an embedded cluster behind a proxy.
type fixture struct {
	*Proxy
	t      *testing.T
	broker *kfake.Cluster
	seen   atomic.Int64 // heartbeats that reached a broker
	ctx    context.Context
}

func newFixture(t *testing.T, brokers int) *fixture {
	t.Helper()
	b, err := kfake.NewCluster(kfake.NumBrokers(brokers), kfake.SeedTopics(3, "topic"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	f := &fixture{Proxy: startProxy(t, b.ListenAddrs()...), t: t, broker: b, ctx: ctx}
	b.ControlKey(KeyHeartbeat, func(kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		f.seen.Add(1)
		return nil, nil, false
	})
	return f
}

// client is one of its own, with the default client id of the test. It tries nothing twice, so that
// it is of no use once its connection has been closed.
func (f *fixture) client(opts ...kgo.Opt) *kgo.Client {
	f.t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(f.Brokers()...), kgo.ClientID(testClient), kgo.RequestRetries(0), kgo.RequestTimeoutOverhead(patience),
	}, opts...)...)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(cl.Close)
	return cl
}

// heartbeat is a request that is answered, with an error, by a broker without the group.
func heartbeat() *kmsg.HeartbeatRequest {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID = "none", "nobody"
	return req
}

// send sends a heartbeat to the first seed in the background. The channel gets its error, nil for
// any answer.
func (f *fixture) send(ctx context.Context, cl *kgo.Client) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := cl.SeedBrokers()[0].Request(ctx, heartbeat())
		done <- err
	}()
	return done
}

func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// answered waits for the end of send.
func (f *fixture) answered(done <-chan error) error {
	f.t.Helper()
	select {
	case err := <-done:
		return err
	case <-f.ctx.Done():
		f.t.Fatal("no answer and no error")
		return nil
	}
}

// TestStayBehind: a client that starts from one address of a cluster of three and uses every broker
// has no connection around the proxy.
func TestStayBehind(t *testing.T) {
	f := newFixture(t, 3)
	ours := map[string]bool{}
	for _, a := range f.Brokers() {
		ours[a] = true
	}
	dialed := make(chan string, 100)
	cl := f.client(kgo.SeedBrokers(f.Brokers()[0]), kgo.Dialer(func(ctx context.Context, network, host string) (net.Conn, error) {
		dialed <- host
		var d net.Dialer
		return d.DialContext(ctx, network, host)
	}), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RequestRetries(3))
	for p := range int32(3) {
		f.must(cl.ProduceSync(f.ctx, &kgo.Record{Topic: "topic", Partition: p, Value: []byte("v")}).FirstErr())
	}
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKeys = []string{"group"}
	found, err := find.RequestWith(f.ctx, cl)
	f.must(err)
	described, err := kmsg.NewPtrDescribeClusterRequest().RequestWith(f.ctx, cl)
	f.must(err)
	for _, a := range append(addresses(found), addresses(described)...) {
		if a := hostPort(*a.host, *a.port); !ours[a] {
			t.Errorf("a reply names %s, which is not the proxy's", a)
		}
	}
	if len(described.Brokers) != 3 {
		t.Errorf("%d brokers are described, want 3", len(described.Brokers))
	}
	cl.Close()
	close(dialed)
	used := map[string]bool{}
	for a := range dialed {
		used[a] = true
		if !ours[a] {
			t.Errorf("the client went to %s, around the proxy", a)
		}
	}
	if len(used) < 3 {
		t.Errorf("the client went to %d brokers, want all 3", len(used))
	}
}

// TestHoldRequest: what is held has not reached the broker, and does when the rule is lifted.
func TestHoldRequest(t *testing.T) {
	f := newFixture(t, 1)
	r := f.Add(Match{Key: KeyHeartbeat, Direction: ToBroker}, Hold())
	done := f.send(f.ctx, f.client())
	f.must(r.AwaitMatched(f.ctx, 1))
	// Another connection's request is answered meanwhile: the broker had every opportunity.
	if _, err := f.client().SeedBrokers()[0].Request(f.ctx, kmsg.NewPtrMetadataRequest()); err != nil {
		t.Fatal(err)
	}
	if n := f.seen.Load(); n != 0 || r.Counts().Delivered != 0 {
		t.Fatalf("%d held requests reached the broker, %+v", n, r.Counts())
	}
	r.Lift()
	f.must(f.answered(done))
	f.must(r.AwaitDelivered(f.ctx, 1)) // which is counted behind the write, and the answer can be faster
	if n := f.seen.Load(); n != 1 || r.Counts() != (Counts{1, 1}) {
		t.Errorf("%d requests reached the broker, want 1; %+v", n, r.Counts())
	}
}

// TestLateRequest: a held request arrives although its client has gone, and its reply passes the
// rules.
func TestLateRequest(t *testing.T) {
	f := newFixture(t, 1)
	r := f.Add(Match{Key: KeyHeartbeat, Direction: ToBroker}, Hold())
	replies := f.Add(Match{Key: KeyHeartbeat, Direction: ToClient, Where: func(fr *Frame) bool {
		return fr.Answers() == r.First() && r.First() != nil
	}}, Drop())
	cl := f.client()
	done := f.send(f.ctx, cl)
	f.must(r.AwaitMatched(f.ctx, 1))
	cl.Close()
	if f.answered(done) == nil {
		t.Error("a request of a closed client was answered")
	}
	r.Lift()
	f.must(replies.AwaitMatched(f.ctx, 1))
	if n := f.seen.Load(); n != 1 {
		t.Errorf("%d requests reached the broker, want 1", n)
	}
}

// TestCut: the client learns of it at once; the broker has acted if it was the reply, and not if it
// was the request.
func TestCut(t *testing.T) {
	for d, acted := range map[Direction]int64{ToBroker: 0, ToClient: 1} {
		t.Run(d.String(), func(t *testing.T) {
			f := newFixture(t, 1)
			r := f.Add(Match{Key: KeyHeartbeat, Direction: d, Limit: 1}, Cut())
			if err := f.answered(f.send(f.ctx, f.client())); err == nil || f.ctx.Err() != nil {
				t.Errorf("the client got %v, want an error at once", err)
			}
			if n := f.seen.Load(); n != acted || r.Counts() != (Counts{Matched: 1}) {
				t.Errorf("%d requests reached the broker, want %d; %+v", n, acted, r.Counts())
			}
			f.must(f.answered(f.send(f.ctx, f.client()))) // Limit: the rule has ended
		})
	}
}

// TestDrop: the connection stays and the client waits for as long as it wants to.
func TestDrop(t *testing.T) {
	for d, acted := range map[Direction]int64{ToBroker: 0, ToClient: 1} {
		t.Run(d.String(), func(t *testing.T) {
			f := newFixture(t, 1)
			r := f.Add(Match{Key: KeyHeartbeat, Direction: d, Limit: 1}, Drop())
			ctx, cancel := context.WithCancel(f.ctx)
			done := f.send(ctx, f.client())
			f.must(r.AwaitMatched(f.ctx, 1))
			select {
			case err := <-done:
				t.Errorf("the client was told: %v", err)
			case <-time.After(50 * time.Millisecond): // no proof, but a proxy that answers or closes is quicker
			}
			cancel()
			if f.answered(done) == nil {
				t.Error("a lost request was answered")
			}
			if n := f.seen.Load(); n != acted {
				t.Errorf("%d requests reached the broker, want %d", n, acted)
			}
		})
	}
}

// TestDelay: a frame takes at least as long as asked for, or until the rule is lifted.
func TestDelay(t *testing.T) {
	f := newFixture(t, 1)
	const d = 100 * time.Millisecond
	r := f.Add(Match{Key: KeyHeartbeat, Direction: ToClient, Limit: 1}, Delay(d))
	began := time.Now()
	f.must(f.answered(f.send(f.ctx, f.client())))
	if took := time.Since(began); took < d {
		t.Errorf("the reply came after %s, want %s at least", took, d)
	}
	r.Lift()
	long := f.Add(Match{Key: KeyHeartbeat, Direction: ToClient}, Delay(time.Hour))
	done := f.send(f.ctx, f.client())
	f.must(long.AwaitMatched(f.ctx, 1))
	long.Lift()
	f.must(f.answered(done))
}

// TestMatch: skip, limit, client id, predicate, and the order of rules.
func TestMatch(t *testing.T) {
	f := newFixture(t, 1)
	all := f.Add(Match{Key: AnyKey, Direction: ToBroker}, Pass())
	third := f.Add(Match{Key: KeyHeartbeat, Direction: ToBroker, Skip: 2, Limit: 1}, Cut())
	hidden := f.Add(Match{Key: KeyHeartbeat, Direction: ToBroker, Skip: 2, Limit: 1}, Pass())
	other := f.Add(Match{Key: KeyHeartbeat, Direction: ToBroker, ClientID: "other"}, Cut())
	mine := f.Add(Match{Key: KeyHeartbeat, Direction: ToClient, ClientID: testClient, Where: func(fr *Frame) bool {
		req, err := fr.Request()
		resp, err2 := fr.Response()
		return err == nil && err2 == nil && req.(*kmsg.HeartbeatRequest).MemberID == "nobody" &&
			resp.(*kmsg.HeartbeatResponse).ErrorCode != 0
	}}, Pass())
	for i := range 5 {
		if err := f.answered(f.send(f.ctx, f.client())); (err != nil) != (i == 2) {
			t.Errorf("heartbeat %d: %v", i, err)
		}
	}
	if f.answered(f.send(f.ctx, f.client(kgo.ClientID("other")))) == nil {
		t.Error("the rule for another client did not match it")
	}
	for r, want := range map[*Rule]int{third: 1, hidden: 1, other: 1, mine: 4} {
		if got := r.Counts().Matched; got != want {
			t.Errorf("%s: matched %d frames, want %d", r, got, want)
		}
	}
	f.must(all.AwaitDelivered(f.ctx, all.Counts().Matched-2))
	if c := all.Counts(); c.Matched <= 6 || c.Delivered != c.Matched-2 {
		t.Errorf("%s: %+v, want every request matched and all but two delivered", all, c)
	}
}

// TestUnmatched: a rule that matched nothing is an error of Close, and a wait for it ends with its
// context.
func TestUnmatched(t *testing.T) {
	p, err := Start("127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	r := p.Add(Match{Key: KeyEndTxn, Direction: ToBroker}, Drop())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.AwaitMatched(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("the wait ended with %v", err)
	}
	r.Lift()
	r.Lift()
	if err := p.Close(); !errors.Is(err, ErrUnmatched) {
		t.Errorf("Close returned %v, want ErrUnmatched", err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// TestPartition: nothing arrives in a direction that is cut off, connections stay, and everything
// arrives once it is healed.
func TestPartition(t *testing.T) {
	for _, directions := range [][]Direction{{ToBroker}, {ToClient}, nil} {
		f := newFixture(t, 1)
		cl := f.client()
		f.must(f.answered(f.send(f.ctx, cl)))
		before := f.seen.Load()
		counted := f.Add(Match{Key: KeyHeartbeat, Direction: ToBroker}, Pass())
		f.Partition(directions...)
		f.Partition(directions...)
		done := f.send(f.ctx, cl)
		f.must(counted.AwaitMatched(f.ctx, 1))
		select {
		case err := <-done:
			t.Errorf("partition %v: the client was told: %v", directions, err)
		case <-time.After(50 * time.Millisecond):
		}
		if reached := f.seen.Load() > before; reached && (len(directions) == 0 || directions[0] == ToBroker) {
			t.Errorf("partition %v: the request reached the broker", directions)
		}
		f.Heal()
		f.must(f.answered(done))
	}
}

// TestResetAll: every connection ends at once, what was held is lost, and new ones work.
func TestResetAll(t *testing.T) {
	f := newFixture(t, 1)
	r := f.Add(Match{Key: KeyHeartbeat, Direction: ToBroker, Limit: 1}, Hold())
	done := f.send(f.ctx, f.client())
	f.must(r.AwaitMatched(f.ctx, 1))
	if n := f.ResetAll(); n == 0 {
		t.Error("there was no connection to reset")
	}
	if f.answered(done) == nil {
		t.Error("a request on a reset connection was answered")
	}
	r.Lift()
	f.must(f.answered(f.send(f.ctx, f.client())))
	if n := f.seen.Load(); n != 1 {
		t.Errorf("%d requests reached the broker, want only the second", n)
	}
}

// TestNotKafka: a stream of something else ends its connection and fails Close.
func TestNotKafka(t *testing.T) {
	f := newFixture(t, 1)
	p, err := Start(f.broker.ListenAddrs()...)
	f.must(err)
	c, err := net.Dial("tcp", p.Brokers()[0])
	f.must(err)
	defer c.Close()
	_, err = c.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.must(err)
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("there was an answer")
	}
	if err := p.Close(); !errors.Is(err, errMalformed) {
		t.Errorf("Close returned %v, want errMalformed", err)
	}
}

// TestBrokerDown: a broker that is down ends the client's connection and nothing else.
func TestBrokerDown(t *testing.T) {
	p := startProxy(t, "127.0.0.1:1")
	c, err := net.Dial("tcp", p.Brokers()[0])
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("there was an answer")
	}
	if _, err := Start(); err == nil {
		t.Error("a proxy in front of nothing was started")
	}
}
