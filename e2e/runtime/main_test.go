// Package runtime_test runs the same small scenarios of the runtime on the embedded broker and on real Kafka.
package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/proxy"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

func TestMain(m *testing.M) { cluster.Main(m) }

// env is one scenario on one cluster: names of its own, and an application that can be started again and again.
type env struct {
	*cluster.Cluster
	t           *testing.T
	application string
	in, out     string
	stateDir    string
	producer    *kgo.Client
	configure   func(*txn.Config) // changes what config returns, if it is set
}

const partitions = 3

func newEnv(t *testing.T, c *cluster.Cluster, topics ...string) *env {
	t.Helper()
	e := &env{
		Cluster: c, t: t, application: c.Name(t, "app"), in: c.Name(t, "in"), out: c.Name(t, "out"), stateDir: t.TempDir(),
		producer: c.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner())),
	}
	for _, topic := range append([]string{e.in, e.out}, topics...) {
		if err := c.CreateTopic(t.Context(), topic, partitions, nil); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

// throughProxy puts a proxy between the applications and the broker.
func (e *env) throughProxy(change func(*txn.Config)) *proxy.Proxy {
	e.t.Helper()
	p, err := proxy.Start(e.Brokers()...)
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() {
		if err := p.Close(); err != nil {
			e.t.Error(err)
		}
	})
	e.configure = func(c *txn.Config) {
		c.Brokers = p.Brokers()
		change(c)
	}
	return p
}

func (e *env) config() txn.Config {
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	if os.Getenv("ONCEWARD_TEST_LOG") != "" {
		log = slog.New(slog.NewTextHandler(os.Stderr, nil)).With("test", e.t.Name())
	}
	cfg := txn.Config{Brokers: e.Brokers(), StateDir: e.stateDir, Application: e.application, Logger: log}
	if e.configure != nil {
		e.configure(&cfg)
	}
	return cfg
}

// feed writes n records with 10 keys over the partitions; a key stays in its partition.
func (e *env) feed(n int, value func(i int) []byte) {
	e.t.Helper()
	records := make([]*kgo.Record, n)
	now := time.Now().Truncate(time.Millisecond).Add(-time.Hour) // the past that retention leaves alone
	for i := range records {
		key := i % 10
		records[i] = &kgo.Record{
			Topic: e.in, Partition: int32(key % partitions), Key: fmt.Appendf(nil, "k%d", key), Value: value(i),
			Timestamp: now.Add(time.Duration(i) * time.Millisecond),
		}
	}
	if err := e.producer.ProduceSync(e.t.Context(), records...).FirstErr(); err != nil {
		e.t.Fatal(err)
	}
}

func plain(int) []byte { return []byte("v") }

// running is one life of the application.
type running struct {
	app    *txn.App
	cancel context.CancelFunc
	done   chan error
	ended  bool
}

func (e *env) start(t *topology.Topology) *running {
	e.t.Helper()
	app, err := txn.New(t, e.config())
	if err != nil {
		e.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{app: app, cancel: cancel, done: make(chan error, 1)}
	go func() { r.done <- app.Run(ctx) }()
	e.t.Cleanup(func() {
		if err := r.stop(); err != nil {
			e.t.Errorf("the application ended with %v", err)
		}
	})
	return r
}

func (r *running) stop() error {
	if r.ended {
		return nil
	}
	r.cancel()
	return r.wait()
}

// wait waits for an end that the application comes to by itself.
func (r *running) wait() error {
	r.ended = true
	select {
	case err := <-r.done:
		return err
	case <-time.After(60 * time.Second):
		return errors.New("the application does not end")
	}
}

// until waits until the application has committed n records in this life.
func (e *env) until(r *running, n int64) {
	e.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(60 * time.Second)
	for r.app.Status().Totals.Records < n {
		select {
		case <-tick.C:
		case err := <-r.done:
			e.t.Fatalf("the application ended after %d of %d records: %v", r.app.Status().Totals.Records, n, err)
		case <-deadline:
			e.t.Fatalf("%d of %d records after 60 s: %+v", r.app.Status().Totals.Records, n, r.app.Status())
		}
	}
}

// read returns the committed records of a topic.
func (e *env) read(topic string) []*kgo.Record {
	e.t.Helper()
	parts, err := e.ReadAll(e.t.Context(), topic)
	if err != nil {
		e.t.Fatal(err)
	}
	var out []*kgo.Record
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

// count is a topology that counts records per key. A record with the value "poison" fails after it has written and emitted.
func (e *env) count(opts ...topology.BuilderOption) *topology.Topology {
	b := topology.NewBuilder("counting", opts...)
	in := topology.From(b, topology.Topic(e.in, schemas.String(), schemas.String()))
	counts := topology.Store("counts", schemas.String(), schemas.Int64())
	topology.Process(in, "count", counts, countRecord).Into(topology.Topic(e.out, schemas.String(), schemas.Int64()))
	return e.build(b)
}

func (e *env) build(b *topology.Builder) *topology.Topology {
	e.t.Helper()
	t, err := b.Build()
	if err != nil {
		e.t.Fatal(err)
	}
	return t
}

func countRecord(
	c *topology.Context, counts state.KeyValue[string, int64], r topology.Record[string, string], emit topology.Emit[string, int64],
) error {
	n, _, err := counts.Get(r.Key)
	if err != nil {
		return err
	}
	if err := counts.Put(r.Key, n+1); err != nil {
		return err
	}
	if err := emit(c, topology.Record[string, int64]{Key: r.Key, Value: n + 1, Timestamp: r.Timestamp}); err != nil {
		return err
	}
	if r.Value == "poison" {
		return topology.Fail(topology.Validation, schemas.Reason("poison"))
	}
	return nil
}

// checkCounts asserts that the counts of every key go up by one, and returns the last ones.
func (e *env) checkCounts(records []*kgo.Record) map[string]int64 {
	e.t.Helper()
	last := map[string]int64{}
	for _, r := range records {
		n, err := schemas.Int64().Decode(r.Value)
		if err != nil {
			e.t.Fatal(err)
		}
		if n != last[string(r.Key)]+1 {
			e.t.Fatalf("key %s: count %d follows %d", r.Key, n, last[string(r.Key)])
		}
		last[string(r.Key)] = n
	}
	return last
}
