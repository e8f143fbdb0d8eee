package txn_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/leaktest"
	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
	"github.com/onceward/onceward/txn/admin"
)

func TestMain(m *testing.M) {
	// A test waits for the disk for most of its real time. The flag -parallel overrides this
	// number.
	_ = flag.Set("test.parallel", "6") // a test binary has that flag
	leaktest.Main(m)
}

// inBubble runs a test on virtual time, beside others.
func inBubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	virtual.Test(t, f)
}

// bubble is inBubble for a subtest.
func bubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { inBubble(t, f) })
}

// testBroker is an embedded broker with a plain client.
type testBroker struct {
	*kfake.Cluster
	network *virtual.Network // nil with real sockets
	kafka   *virtual.Kafka   // nil with real sockets
	cl      *kgo.Client
	adm     *kadm.Client
}

// latencyMax is the longest that a request or an answer is under way.
const latencyMax = time.Millisecond

// newBroker starts a broker on a virtual network, for a test on virtual time.
func newBroker(t *testing.T, partitions int32, topics ...string) *testBroker {
	t.Helper()
	return newBrokers(t, 1, kfake.SeedTopics(partitions, topics...))
}

// newBrokers is newBroker for several brokers, and with options.
func newBrokers(t *testing.T, n int, opts ...kfake.Opt) *testBroker {
	t.Helper()
	network := virtual.NewNetwork(t, 1)
	network.SetWeather(virtual.Weather{LatencyMax: latencyMax})
	kafka := virtual.NewKafka(t, network, n, opts...)
	b := &testBroker{Cluster: kafka.Cluster, network: network, kafka: kafka}
	b.connect(t)
	return b
}

// newRealBroker is newBroker with real sockets, for what is not possible on virtual time.
func newRealBroker(t *testing.T, partitions int32, topics ...string) *testBroker {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, topics...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	b := &testBroker{Cluster: c}
	b.connect(t)
	return b
}

func (b *testBroker) connect(t *testing.T, opts ...kgo.Opt) {
	t.Helper()
	b.cl = b.client(t, append([]kgo.Opt{kgo.RecordPartitioner(kgo.ManualPartitioner())}, opts...)...)
	b.adm = kadm.NewClient(b.cl)
}

// client returns a client that is closed at the end of the test.
func (b *testBroker) client(t *testing.T, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	own := []kgo.Opt{kgo.SeedBrokers(b.ListenAddrs()...)}
	if b.network != nil {
		own = append(own, kgo.Dialer(b.network.Host("client").Dial))
	}
	cl, err := kgo.NewClient(append(own, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.CloseAllowingRebalance)
	return cl
}

// office returns the client of an operator, which is closed at the end of the test.
func (b *testBroker) office(t *testing.T) *admin.Client {
	t.Helper()
	cfg := admin.Config{Brokers: b.ListenAddrs()}
	if b.network != nil {
		cfg.Dialer = b.network.Host("office").Dial
	}
	client, err := admin.ConnectWith(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// config adds to a configuration how the broker is reached.
func (b *testBroker) config(cfg txn.Config) txn.Config {
	cfg.Brokers = b.ListenAddrs()
	if b.network != nil {
		cfg.NoControl = true // which needs a real socket
		if cfg.Dialer == nil {
			cfg.Dialer = b.network.Host("app").Dial
		}
	}
	return cfg
}

func (b *testBroker) produce(t *testing.T, records ...*kgo.Record) {
	t.Helper()
	if err := b.cl.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// read returns the committed records of a topic once it has n of them, and fails when there are
// more.
func (b *testBroker) read(t *testing.T, topic string, n int) []*kgo.Record {
	t.Helper()
	cl := b.client(t, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var out []*kgo.Record
	for len(out) < n {
		f := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("%s has %d committed records after %s, want %d", topic, len(out), patience, n)
		}
		f.EachRecord(func(r *kgo.Record) { out = append(out, r) })
	}
	if len(out) > n {
		t.Fatalf("%s has %d committed records, want %d", topic, len(out), n)
	}
	return out
}

func testLogger(t *testing.T) *slog.Logger {
	if os.Getenv("ONCEWARD_TEST_LOG") != "" {
		return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})).With("test", t.Name())
	}
	return slog.New(slog.NewTextHandler(io.Discard, nil))
}

// start runs an application until the returned function stops it.
func start(t *testing.T, top *topology.Topology, cfg txn.Config) (app *txn.App, stop func() error) {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = testLogger(t)
	}
	app, err := txn.New(top, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- app.Run(ctx) }()
	stopped := false
	stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		select {
		case err := <-done:
			return err
		case <-time.After(patience):
			return fmt.Errorf("the application did not stop within %s", patience)
		}
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return app, stop
}

// countTopology counts records per key and writes every count.
func countTopology(t *testing.T) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder("counting")
	in := topology.From(b, topology.Topic("in", schemas.String(), schemas.String()))
	counts := topology.KeyValueStore("counts", schemas.String(), schemas.Int64())
	topology.Process(in, "count", counts, countRecord).Into(topology.Topic("out", schemas.String(), schemas.Int64()))
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top
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
	return emit(c, topology.Record[string, int64]{Key: r.Key, Value: n + 1, Timestamp: r.Timestamp})
}

func TestCountSurvivesRestart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 2, "in", "out")
		cfg := b.config(txn.Config{StateDir: t.TempDir(), Workers: 2})

		var records []*kgo.Record
		for i := range 1000 {
			records = append(records, &kgo.Record{Topic: "in", Partition: int32(i % 2), Key: []byte(fmt.Sprint("k", i%10)), Value: []byte("v")})
		}
		b.produce(t, records...)
		_, stop := start(t, countTopology(t), cfg)
		check(t, b.read(t, "out", 1000), 100)
		if err := stop(); err != nil {
			t.Fatal(err)
		}

		b.produce(t, records...)
		app, _ := start(t, countTopology(t), cfg)
		check(t, b.read(t, "out", 2000), 200)
		waitFor(t, "the totals, which follow the commit", func() bool { return app.Status().Totals.Records >= 1000 })
		if got := app.Status().Totals.Records; got != 1000 {
			t.Errorf("the second life processed %d records, want 1000", got)
		}
	})
}

// check asserts that every key counts up by one to last, without a hole or a repetition.
func check(t *testing.T, records []*kgo.Record, last int64) {
	t.Helper()
	for k, n := range consecutive(t, records) {
		if n != last {
			t.Errorf("key %s ends at %d, want %d", k, n, last)
		}
	}
}

// countLogs counts the logs with a message.
func countLogs(message string, n *atomic.Int64) *slog.Logger {
	return slog.New(&countingHandler{message: message, n: n})
}

type countingHandler struct {
	message string
	n       *atomic.Int64
}

func (h *countingHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo
}

func (h *countingHandler) Handle(_ context.Context, r slog.Record) error {
	if r.Message == h.message {
		h.n.Add(1)
	}
	return nil
}

func (h *countingHandler) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h *countingHandler) WithGroup(string) slog.Handler      { return h }
