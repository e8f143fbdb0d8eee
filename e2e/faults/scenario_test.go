package faults

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/instance"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

const partitions = 2

// timing is how long things take on a kind of broker.
type timing struct {
	session, transaction time.Duration // 0 is the default of production
	// patience bounds waits for what is certain to come. The longest is for the reply to a lost JoinGroup, which the client waits for
	// as long as a rebalance may take, 60 s, and 10 s more.
	patience time.Duration
	// span is how long a fault that lasts for a while does, outage one that outlasts the session and the transaction timeout.
	span, outage time.Duration
	// resolveMax is how long a round may be in doubt once the fault is over, on a machine that takes no time.
	resolveMax time.Duration
	// feed is between two batches of input, poll between two looks at what is committed.
	feed, poll time.Duration
}

// onKafka is real time: a short session, so that a lost heartbeat has consequences, and a short transaction timeout.
var onKafka = timing{
	session: 6 * time.Second, transaction: 4 * time.Second, patience: 150 * time.Second, span: 3 * time.Second, outage: 10 * time.Second,
	resolveMax: 8 * time.Second, feed: 25 * time.Millisecond, poll: 50 * time.Millisecond,
}

// onVirtual has the time-outs of production.
var onVirtual = timing{
	patience: 10 * time.Minute, span: 3 * time.Second, outage: time.Minute, resolveMax: 20 * time.Second,
	feed: 100 * time.Millisecond, poll: 200 * time.Millisecond,
}

// scenario is one application on a cluster, behind a link, with names and an input of its own.
type scenario struct {
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
	pace        *cluster.Pace // nil on virtual time, where the machine takes no time

	mu  sync.Mutex
	fed int
}

var counts = topology.Store("counts", schemas.String(), schemas.Int64())

func newScenario(t *testing.T, c *cluster.Cluster) *scenario {
	t.Helper()
	timing := onKafka
	if c.Kind() == cluster.KindVirtual {
		timing = onVirtual
	}
	ctx, cancel := context.WithTimeout(t.Context(), timing.patience)
	t.Cleanup(cancel)
	s := &scenario{
		t: t, ctx: ctx, cluster: c, timing: timing, link: newLink(t, c), application: c.Name(t, "app"), in: c.Name(t, "in"), out: c.Name(t, "out"),
		log: instance.NewLog(t, "the application"), producer: c.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner())),
	}
	c.CreateTopics(t, partitions, s.in, s.out)
	b := topology.NewBuilder("counting")
	in := topology.From(b, topology.Topic(s.in, schemas.String(), schemas.String()))
	topology.Process(in, "count", counts, count).Into(topology.Topic(s.out, schemas.String(), schemas.String()))
	built, err := b.Build()
	s.must(err)
	s.topology, err = built.WithApplication(s.application)
	s.must(err)
	return s
}

// count numbers the records of each key.
func count(
	c *topology.Context, counts state.KeyValue[string, int64], r topology.Record[string, string], emit topology.Emit[string, string],
) error {
	n, _, err := counts.Get(r.Key)
	if err != nil {
		return err
	}
	if err := counts.Put(r.Key, n+1); err != nil {
		return err
	}
	return emit(c, topology.Record[string, string]{Key: r.Key, Value: counted(n+1, r.Value), Timestamp: r.Timestamp})
}

func (s *scenario) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// life is one life of one instance of the application.
type life struct {
	*instance.App
	s *scenario
}

func (s *scenario) start(stateDir string) *life {
	s.t.Helper()
	return &life{s: s, App: instance.Start(s.t, s.topology, s.link.through(txn.Config{
		StateDir: stateDir, Workers: 1, CacheBytes: 8 << 20,
		TransactionTimeout: s.timing.transaction, SessionTimeout: s.timing.session,
		Logger: slog.New(slog.NewTextHandler(s.log, nil)),
	}))}
}

// stop ends the life in order.
func (l *life) stop() {
	l.s.t.Helper()
	if err := l.Stop(); err != nil {
		l.s.t.Errorf("the application ended with %v", err)
	}
}

// feed writes n records of input. One goroutine feeds at a time.
func (s *scenario) feed(n int) error {
	s.mu.Lock()
	first := s.fed
	s.fed += n
	s.mu.Unlock() // a wait for it would stop virtual time
	records := make([]*kgo.Record, n)
	for i := range records {
		id := first + i
		records[i] = &kgo.Record{
			Topic: s.in, Partition: int32(id % keys % partitions), Key: []byte(keyOf(id)), Value: fmt.Append(nil, id),
		}
	}
	return s.producer.ProduceSync(s.ctx, records...).FirstErr()
}

func (s *scenario) total() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fed
}

// feeding writes input all the time, until the function that it returns is called.
func (s *scenario) feeding() (stop func()) {
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

// committed returns how many records of input the group has committed, once no transaction is about to change it.
func (s *scenario) committed(ctx context.Context) (int, error) {
	commits, err := s.cluster.CommittedOffsets(ctx, s.application, s.in)
	n := 0
	for _, c := range commits[s.in] {
		n += int(max(c.Offset, 0))
	}
	return n, err
}

// until waits until n records of input are committed. The error is that ctx ended first.
func (s *scenario) until(ctx context.Context, n int, running ...*life) error {
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

// check judges the end: everything that was fed has been processed exactly once, and nothing is left behind. The instances are stopped
// on the way.
func (s *scenario) check(running ...*life) {
	t := s.t
	t.Helper()
	s.must(s.until(s.ctx, s.total(), running...))
	want := fold(s.total())
	for _, i := range running {
		if len(running) == 1 {
			if got := i.store(); !maps.Equal(got, want) {
				t.Errorf("the store holds %v, want %v", got, want)
			}
		}
		i.stop()
	}
	changelog := s.topology.Subtopologies()[0].Stores[0].ChangelogTopic
	got, err := folded(s.cluster.Records(s.t, changelog))
	s.must(err)
	if !maps.Equal(got, want) {
		t.Errorf("the changelog comes to %v, want %v", got, want)
	}
	if err := exactlyOnce(s.total(), s.cluster.Records(s.t, s.out)); err != nil {
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

// store reads the whole store. The last round may be committed and not applied yet, so it asks again until the store is where the
// group is.
func (i *life) store() map[string]int64 {
	s := i.s
	s.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		got, at, err := i.tryStore()
		if err == nil && at == s.total() {
			return got
		}
		if err != nil && !errors.Is(err, txn.ErrNotServing) {
			s.t.Fatal(err)
		}
		select {
		case <-tick.C:
		case <-s.ctx.Done():
			s.t.Fatalf("the store is at record %d of %d: %v", at, s.total(), err)
		}
	}
}

func (i *life) tryStore() (got map[string]int64, at int, err error) {
	got = map[string]int64{}
	for p := range int32(partitions) {
		v, err := txn.Read(i.App.App, counts, p)
		if err != nil {
			return nil, 0, err
		}
		for pair, err := range v.Store().All() {
			if err != nil {
				return nil, 0, errors.Join(err, v.Close())
			}
			got[pair.Key] = pair.Value
		}
		for _, in := range v.Positions().Inputs {
			at += int(in.Offset)
		}
		if err := v.Close(); err != nil {
			return nil, 0, err
		}
	}
	return got, at, nil
}
