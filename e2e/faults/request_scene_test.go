package faults

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/instance"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// timing is how long things take on a kind of broker.
type timing struct {
	session, transaction time.Duration // 0 is the default of production
	// patience bounds waits for what is certain to come. The longest is for the reply to a lost
	// JoinGroup, which the client waits for as long as a rebalance may take, 60 s, and 10 s more.
	patience time.Duration
	// span is how long a fault that lasts for a while does, outage one that outlasts the session
	// and the transaction timeout.
	span, outage time.Duration
	// resolveMax is how long a round may be in doubt once the fault is over. 0 does not judge it:
	// that is up to the machine.
	resolveMax time.Duration
	// feed is between two batches of input, poll between two looks at what is committed.
	feed, poll time.Duration
}

// onKafka is real time: a short session, so that a lost heartbeat has consequences, and a short
// transaction timeout.
var onKafka = timing{
	session: 6 * time.Second, transaction: 4 * time.Second, patience: 150 * time.Second, span: 3 * time.Second, outage: 10 * time.Second,
	feed: 25 * time.Millisecond, poll: 50 * time.Millisecond,
}

// onVirtual has the timeouts of production.
var onVirtual = timing{
	patience: virtualPatience, span: 3 * time.Second, outage: time.Minute, resolveMax: 20 * time.Second,
	feed: 100 * time.Millisecond, poll: 200 * time.Millisecond,
}

// requestScene is the first half of the application of the crash matrix on a cluster, behind a
// link: it has no repartition topic, and nothing is poisoned or silent.
type requestScene struct {
	t           *testing.T
	ctx         context.Context // ends after patience
	cluster     *cluster.Cluster
	link        link
	application string
	in, out     string
	topology    *topology.Topology
	producer    *kgo.Client // not behind the link
	log         *instance.Log
	timing      timing

	mu  sync.Mutex
	fed int
}

func newRequestScene(t *testing.T, c *cluster.Cluster) *requestScene {
	t.Helper()
	timing := onKafka
	if c.Kind() == cluster.KindVirtual {
		timing = onVirtual
	}
	ctx, cancel := context.WithTimeout(t.Context(), timing.patience)
	t.Cleanup(cancel)
	s := &requestScene{
		t: t, ctx: ctx, cluster: c, timing: timing, link: newLink(t, c), application: c.Name(t, "app"), in: c.Name(t, "in"), out: c.Name(t, "out"),
		log: instance.NewLog(t, "the application"), producer: newProducer(t, c),
	}
	c.CreateTopics(t, partitions, s.in, s.out)
	b := topology.NewBuilder("counting")
	in := topology.From(b, topology.Topic(s.in, schemas.String(), schemas.String()))
	topology.Process(in, "count", countStore, count).Into(topology.Topic(s.out, schemas.String(), schemas.String()))
	built, err := b.Build()
	s.must(err)
	s.topology, err = built.WithApplication(s.application)
	s.must(err)
	return s
}

func (s *requestScene) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// start begins a life of the application.
func (s *requestScene) start(stateDir string) *instance.App {
	s.t.Helper()
	return instance.Start(s.t, s.topology, s.link.through(txn.Config{
		StateDir: stateDir, Workers: 1, CacheBytes: 8 << 20,
		TransactionTimeout: s.timing.transaction, SessionTimeout: s.timing.session,
		Logger: slog.New(slog.NewTextHandler(s.log, nil)),
	}))
}

// feed writes n records of input. One goroutine feeds at a time.
func (s *requestScene) feed(n int) error {
	s.mu.Lock()
	first := s.fed
	s.fed += n
	s.mu.Unlock() // a wait for it would stop virtual time
	records := make([]*kgo.Record, n)
	for i := range records {
		records[i] = inputOf(first+i, "").record(s.in)
	}
	return s.producer.ProduceSync(s.ctx, records...).FirstErr()
}

func (s *requestScene) total() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fed
}

// feeding writes input all the time, until the function that it returns is called.
func (s *requestScene) feeding() (stop func()) {
	ctx, cancel := context.WithCancel(s.ctx)
	ended := make(chan error, 1)
	go func() {
		tick := time.NewTicker(s.timing.feed)
		defer tick.Stop()
		for {
			if err := s.feed(2); err != nil {
				ended <- err
				return
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				ended <- nil
				return
			}
		}
	}()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			s.t.Errorf("feeding: %v", err)
		}
	})
}

// committed returns how many records of input the group has committed, once no transaction is about
// to change it.
func (s *requestScene) committed(ctx context.Context) (int, error) {
	commits, err := s.cluster.CommittedOffsets(ctx, s.application, s.in)
	n := 0
	for _, c := range commits[s.in] {
		n += int(max(c.Offset, 0))
	}
	return n, err
}

// until waits until n records of input are committed. The error is that ctx ended first.
func (s *requestScene) until(ctx context.Context, n int, running ...*instance.App) error {
	s.t.Helper()
	tick := time.NewTicker(s.timing.poll)
	defer tick.Stop()
	for {
		done, err := s.committed(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			s.t.Fatal(err)
		case err == nil && done >= n:
			return nil
		}
		for _, i := range running {
			if err := i.Alive(); err != nil {
				s.t.Fatalf("after %d of %d records: %v", done, n, err)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d records are committed: %w", done, n, ctx.Err())
		}
	}
}

// check judges the end: everything that was fed has been processed exactly once, and nothing is
// left behind. It stops the instance on the way.
func (s *requestScene) check(app *instance.App) {
	t := s.t
	t.Helper()
	s.must(s.until(s.ctx, s.total(), app))
	var inputs []input
	for n := range s.total() {
		inputs = append(inputs, inputOf(n, ""))
	}
	want := foldOf(inputs)
	await(t, s.timing.patience, "the store after all inputs", func() error { // it follows its commit by a moment
		got, err := readStore(countStore, []*instance.App{app})
		if err != nil {
			return err
		}
		return want.checkCounts(got)
	})
	app.End()
	changelog := s.topology.Subtopologies()[0].Stores[0].ChangelogTopic
	got, err := lastValues(s.cluster.Records(s.t, changelog))
	s.must(err)
	if err := want.checkCounts(got); err != nil {
		t.Errorf("the changelog: %v", err)
	}
	out, err := s.cluster.ReadAll(s.ctx, s.out)
	s.must(err)
	if err := want.checkOut(out); err != nil {
		t.Error(err)
	}
	if n, err := s.committed(s.ctx); n != s.total() || err != nil {
		t.Errorf("%d records of input are committed, want %d (%v)", n, s.total(), err)
	}
	open, err := s.cluster.OpenTransactions(s.ctx, s.application+"~")
	if err != nil || len(open) > 0 {
		t.Errorf("open transactions: %v (%v)", open, err)
	}
	if err := s.cluster.WaitStable(s.ctx, s.in, s.out, changelog); err != nil {
		t.Error(err)
	}
}

// lastValues returns the last value of each key of a changelog.
func lastValues(changelog []*kgo.Record) (map[string]keyCount, error) {
	last := map[string]keyCount{}
	for _, r := range changelog {
		t, err := schemas.JSON[keyCount]().Decode(r.Value)
		if err != nil {
			return nil, fmt.Errorf("%s[%d] offset %d: %w", r.Topic, r.Partition, r.Offset, err)
		}
		last[string(r.Key)] = t
	}
	return last, nil
}
