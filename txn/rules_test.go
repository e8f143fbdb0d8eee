package txn_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/proxy"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// committed returns what the group has committed in the partitions of "in".
func (b *testBroker) committed(t *testing.T) map[int32]int64 {
	t.Helper()
	return b.committedIn(t, "in")
}

func (b *testBroker) committedIn(t *testing.T, topic string) map[int32]int64 {
	t.Helper()
	out := map[int32]int64{}
	b.offsetsOf(t, topic).Each(func(o kadm.OffsetResponse) { out[o.Partition] = o.At })
	return out
}

// offsetsOf returns the stable offsets of a topic.
func (b *testBroker) offsetsOf(t *testing.T, topic string) (offsets kadm.OffsetResponses) {
	t.Helper()
	waitFor(t, "stable offsets", func() bool {
		var err error
		offsets, err = b.adm.FetchOffsetsForTopics(kadm.RequireStable(t.Context()), "counting", topic)
		if errors.Is(err, kerr.UnstableOffsetCommit) {
			return false // the markers of the last commit are being written
		}
		if err != nil {
			t.Fatal(err)
		}
		return true
	})
	return offsets
}

// TestLargeMetadata: metadata that does not fit into an offset commit becomes a record (4.2), and
// everything that relies on the metadata works with the reference: restart, restore from nothing,
// and resolving an unanswered commit.
func TestLargeMetadata(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 2, "in", "out")
		dir := t.TempDir()
		cfg := b.config(txn.Config{StateDir: dir, Workers: 1}).WithMetadataMax(16)
		app, stop := start(t, countTopology(t), cfg)
		feed(t, b, 1000)
		b.read(t, "out", 1000)
		lost := b.network.Add(proxy.Match{Key: proxy.KeyEndTxn, Direction: proxy.ToClient}, proxy.Cut())
		feed(t, b, 200)
		waitFor(t, "a reply to be lost", matched(lost))
		lost.Lift()
		waitFor(t, "the unanswered round to be resolved", func() bool { return app.Status().Totals.Records == 1200 })
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		b.offsetsOf(t, "in").Each(func(o kadm.OffsetResponse) {
			if n := len(o.Metadata); n == 0 || n > 40 {
				t.Errorf("the metadata of in[%d] has %d characters, want a short reference", o.Partition, n)
			}
		})
		for life := range int64(2) { // once with the state directory, once without it
			_, stop := start(t, countTopology(t), cfg)
			feed(t, b, 200)
			waitFor(t, "the records to be committed", func() bool {
				records, end := int64(0), b.committed(t)
				for _, at := range end {
					records += at
				}
				return records == 1400+200*life
			})
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}
		check(t, b.read(t, "out", 1600), 80)
	})
}

// TestRoundWithoutRecords: input that leads to no record at all is still committed at the end, by a
// round with a filler record (2.5).
func TestRoundWithoutRecords(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 2, "in", "out")
		var seen atomic.Int64
		build := topology.NewBuilder("counting")
		topology.From(build, topology.Topic("in", schemas.Bytes(), schemas.Bytes())).
			Filter("none", func(topology.Record[[]byte, []byte]) (bool, error) {
				seen.Add(1)
				return false, nil
			}).
			Into(topology.Topic("out", schemas.Bytes(), schemas.Bytes()))
		top, err := build.Build()
		if err != nil {
			t.Fatal(err)
		}
		feed(t, b, 400)
		_, stop := start(t, top, b.config(txn.Config{StateDir: t.TempDir(), Workers: 1}))
		waitFor(t, "the records to be processed", func() bool { return seen.Load() == 400 })
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if at := b.committed(t); at[0] != 200 || at[1] != 200 {
			t.Errorf("the committed offsets are %v, want 200 and 200", at)
		}
	})
}

// TestTrailingMarker: the position moves past a transaction marker at the end of an input (2.7), so
// that retention cannot turn it into an out-of-range error.
func TestTrailingMarker(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 1, "in", "out")
		producer := b.client(t, kgo.TransactionalID("upstream"))
		if err := producer.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for range 10 {
			r := &kgo.Record{Topic: "in", Key: []byte("k1"), Value: []byte("v")}
			if err := producer.ProduceSync(t.Context(), r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		if err := producer.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
			t.Fatal(err)
		}
		_, stop := start(t, countTopology(t), b.config(txn.Config{StateDir: t.TempDir(), Workers: 1}))
		b.read(t, "out", 10)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if at := b.committed(t)[0]; at != 11 {
			t.Errorf("the committed offset is %d, want 11: ten records and the marker", at)
		}
	})
}

// TestProducersOfEarlierIncarnations: a restart with fewer workers initialises the producers of all
// workers that there ever were, so that no transaction of an earlier incarnation stays open (rule
// 1.3).
func TestProducersOfEarlierIncarnations(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 2, "in", "out")
		dir := t.TempDir()
		cfg := b.config(txn.Config{StateDir: dir, Workers: 3, Instance: "one"})
		_, stop := start(t, countTopology(t), cfg)
		feed(t, b, 200)
		b.read(t, "out", 200)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		// Leave a transaction of the third worker open, as a kill would.
		orphan := b.client(t, kgo.TransactionalID("counting~one~2~1"),
			kgo.TransactionTimeout(time.Minute))
		if err := orphan.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		stray := &kgo.Record{Topic: "counting-counts-changelog", Key: []byte("k1"), Value: make([]byte, 8)}
		if err := orphan.ProduceSync(t.Context(), stray).FirstErr(); err != nil {
			t.Fatal(err)
		}
		cfg.Workers = 1
		_, stop = start(t, countTopology(t), cfg)
		feed(t, b, 200)
		check(t, b.read(t, "out", 400), 20)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		open, err := b.adm.ListTransactions(t.Context(), nil, []string{"Ongoing"})
		if err != nil {
			t.Fatal(err)
		}
		for id, tx := range open {
			if tx.State == "Ongoing" {
				t.Errorf("transaction %s is still open", id)
			}
		}
	})
}

// TestRetry: a record that fails for a while is tried again with growing attempts, in its place;
// nothing of the failed attempts is visible, and its neighbours in other partitions go on.
func TestRetry(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 2, "in", "out")
		failures := 0
		build := topology.NewBuilder("counting", topology.OnError(topology.Transient, topology.Policy{
			Action: topology.Retry, Attempts: 5, Backoff: time.Millisecond, BackoffMax: 20 * time.Millisecond, Then: topology.Stop,
		}))
		in := topology.From(build, topology.Topic("in", schemas.String(), schemas.String()))
		flaky := in.Peek("flaky", func(r topology.Record[string, string]) error {
			if r.Value == "flaky" && failures < 3 {
				failures++
				return topology.Fail(topology.Transient, schemas.Reason("not yet"))
			}
			return nil
		})
		counts := topology.KeyValueStore("counts", schemas.String(), schemas.Int64())
		topology.Process(flaky, "count", counts, countRecord).Into(topology.Topic("out", schemas.String(), schemas.Int64()))
		top, err := build.Build()
		if err != nil {
			t.Fatal(err)
		}
		app, _ := start(t, top, b.config(txn.Config{StateDir: t.TempDir(), Workers: 1}))
		b.produce(t, &kgo.Record{Topic: "in", Key: []byte("k0"), Value: []byte("flaky")})
		feed(t, b, 200)
		var k0 int
		for _, r := range b.read(t, "out", 201) {
			if string(r.Key) == "k0" {
				k0++
			}
		}
		if k0 != 11 || failures != 3 {
			t.Errorf("k0 was counted %d times after %d failures, want 11 after 3", k0, failures)
		}
		waitFor(t, "the retries to be counted", func() bool { return app.Status().Totals.Retries == 3 })
	})
}

// TestStop: a task whose record fails for good stops alone and says why, its neighbour goes on, and
// what it had accepted before is committed. When all tasks are stopped, Run returns the reason.
func TestStop(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 2, "in", "out")
		app, err := txn.New(stopTopology(t), b.config(txn.Config{
			StateDir: t.TempDir(), Workers: 1, Logger: testLogger(t),
		}))
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { done <- app.Run(ctx) }()
		b.produce(t,
			&kgo.Record{Topic: "in", Key: []byte("k0"), Value: []byte("v")},
			&kgo.Record{Topic: "in", Key: []byte("k0"), Value: []byte("stop")},
			&kgo.Record{Topic: "in", Key: []byte("k0"), Value: []byte("v")})
		waitFor(t, "the task to stop", func() bool {
			for _, task := range app.Status().Tasks {
				if task.State == txn.TaskStopped && task.Reason != "" {
					return true
				}
			}
			return false
		})
		b.produce(t, &kgo.Record{Topic: "in", Partition: 1, Key: []byte("k1"), Value: []byte("v")})
		b.read(t, "out", 2)
		b.produce(t, &kgo.Record{Topic: "in", Partition: 1, Key: []byte("k1"), Value: []byte("stop")})
		select {
		case err := <-done:
			if !errors.Is(err, txn.ErrAllStopped) {
				t.Errorf("Run returned %v, want ErrAllStopped", err)
			}
		case <-time.After(patience):
			t.Fatal("Run did not return although all tasks are stopped")
		}
		if at := b.committed(t); at[0] != 1 || at[1] != 1 {
			t.Errorf("committed offsets are %v, want 1 and 1: up to the record that stopped each task", at)
		}
	})
}

func stopTopology(t *testing.T) *topology.Topology {
	t.Helper()
	build := topology.NewBuilder("counting")
	in := topology.From(build, topology.Topic("in", schemas.String(), schemas.String()))
	checked := in.Peek("check", func(r topology.Record[string, string]) error {
		if r.Value == "stop" {
			return topology.Fail(topology.Fatal, schemas.Reason("asked to"))
		}
		return nil
	})
	counts := topology.KeyValueStore("counts", schemas.String(), schemas.Int64())
	topology.Process(checked, "count", counts, countRecord).Into(topology.Topic("out", schemas.String(), schemas.Int64()))
	top, err := build.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// TestRead: a view shows committed state with its position, and a store that is not here says so.
func TestRead(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 2, "in", "out")
		counts := topology.KeyValueStore("counts", schemas.String(), schemas.Int64())
		app, stop := start(t, countTopology(t), b.config(txn.Config{StateDir: t.TempDir(), Workers: 1}))
		feed(t, b, 400)
		waitFor(t, "the records to be committed", func() bool { return app.Status().Totals.Records == 400 })
		view, err := txn.Read(app, counts, 0)
		if err != nil {
			t.Fatal(err)
		}
		if n, ok, err := view.Store().Get("k0"); n != 20 || !ok || err != nil {
			t.Errorf("k0 is %d (%t, %v), want 20", n, ok, err)
		}
		if in := view.Positions().Inputs[0]; in.Offset != 200 {
			t.Errorf("the view is at offset %d, want 200", in.Offset)
		}
		if view.Round().IsZero() || view.Round() != view.Positions().Round || view.Epoch().Member == "" || view.WhyStale() != nil {
			t.Errorf("the view is of round %s (positions: %s), epoch %s, stale because of %v", view.Round(), view.Positions().Round,
				view.Epoch(), view.WhyStale())
		}
		keys := 0
		for _, err := range view.Store().All() {
			if err != nil {
				t.Fatal(err)
			}
			keys++
		}
		if keys != 10 {
			t.Errorf("partition 0 has %d keys, want 10", keys)
		}
		if err := view.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := txn.Read(app, counts, 7); !errors.Is(err, txn.ErrNotServing) {
			t.Errorf("a partition that does not exist gave %v, want ErrNotServing", err)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if _, err := txn.Read(app, counts, 0); !errors.Is(err, txn.ErrNotServing) {
			t.Errorf("after the end the store gave %v, want ErrNotServing", err)
		}
	})
}

// TestNamesWithOneHash: two inputs of one task that a commit could not tell apart are refused (4.1
// names them by a hash).
func TestNamesWithOneHash(t *testing.T) {
	b := topology.NewBuilder("counting")
	x := topology.From(b, topology.Topic("costarring", schemas.String(), schemas.String()))
	y := topology.From(b, topology.Topic("liquid", schemas.String(), schemas.String()))
	x.Merge("both", y).Into(topology.Topic("out", schemas.String(), schemas.String()))
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	_, err = txn.New(top, txn.Config{Brokers: []string{"localhost:1"}, StateDir: t.TempDir()})
	var config *txn.ConfigError
	if !errors.As(err, &config) || !strings.Contains(err.Error(), "costarring and liquid") {
		t.Errorf("New returned %v, want that the two names are refused", err)
	}
}

func TestConfigErrors(t *testing.T) {
	good := txn.Config{Brokers: []string{"127.0.0.1:9092", "[::1]:9092"}, StateDir: "somewhere"}
	if _, err := txn.New(countTopology(t), good); err != nil {
		t.Errorf("refused: %v", err)
	}
	for _, c := range []struct {
		field  string
		change func(*txn.Config)
	}{
		{"Brokers", func(c *txn.Config) { c.Brokers = []string{"no-port"} }},
		{"Brokers", func(c *txn.Config) { c.Brokers = []string{"empty-port:"} }},
		{"Brokers", func(c *txn.Config) { c.Brokers = []string{"high-port:99999"} }},
		{"Brokers", func(c *txn.Config) { c.Brokers = []string{":9092"} }},
		{"StateDir", func(c *txn.Config) { c.StateDir = "" }},
		{"Application", func(c *txn.Config) { c.Application = "a b" }},
		{"Application", func(c *txn.Config) { c.Application = "a~b" }},
		{"Instance", func(c *txn.Config) { c.Instance = "a~b" }},
		{"Instance", func(c *txn.Config) { c.Instance = "a/b" }},
		{"Workers", func(c *txn.Config) { c.Workers = -1 }},
		{"CommitIntervalMax", func(c *txn.Config) { c.CommitIntervalMax = time.Minute }},
		{"SessionTimeout", func(c *txn.Config) { c.SessionTimeout = -1 }},
		{"ConnectTimeout", func(c *txn.Config) { c.ConnectTimeout = -1 }},
		{"CacheBytes", func(c *txn.Config) { c.CacheBytes = -1 }},
		{"CacheBytes", func(c *txn.Config) { c.CacheBytes = 1<<20 - 1 }},
		{"Compression", func(c *txn.Config) { c.Compression = "lz5" }},
		{"RestoreBytesMax", func(c *txn.Config) { c.RestoreBytesMax = 1 }},
		{"TransactionTimeout", func(c *txn.Config) { c.TransactionTimeout = 100 * time.Millisecond }},
		{"Console", func(c *txn.Config) {
			c.HTTP, c.HTTPExposed, c.Console = ":9090", true, txn.Console{Actions: true, DeadLetters: &fakeLetters{}}
		}},
		{"Console", func(c *txn.Config) { c.Console.Actions = true }},
		{"Console", func(c *txn.Config) { c.HTTP, c.HTTPExposed, c.Console.Contents = ":9090", true, true }},
	} {
		cfg := good
		c.change(&cfg)
		_, err := txn.New(countTopology(t), cfg)
		var bad *txn.ConfigError
		if !errors.As(err, &bad) || bad.Field != c.field || strings.Contains(err.Error(), "\n") {
			t.Errorf("a wrong %s gave %v", c.field, err)
		}
	}
}
